"""dbcheck verify: judge a bundle again, and say whether anything differs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import BundleRefused, UsageError
from dbcheck.cli import FAIL, PASS, output
from dbcheck.cli.flags.groups import FILE, Verb, option
from dbcheck.cli.flags.shared import as_json, require_file
from dbcheck.cli.say import say, say_error
from dbcheck.evidence.scrub import describe_removed_secrets
from dbcheck.evidence.verify import VerifyResult, verify
from dbcheck.judge.result import to_values
from dbcheck.witness.log import FrameLogReader


@click.command("verify", cls=Verb)
@click.argument("bundle", metavar="BUNDLE", type=FILE)
@option(
    "--allowed-signers",
    "allowed",
    metavar="FILE",
    type=FILE,
    help="Who may have signed it, in the format of ssh-keygen's ALLOWED SIGNERS. One "
    "of them must have.",
)
@option(
    "--signer",
    metavar="NAME",
    default="",
    help="The one of them who must have signed it.",
)
@as_json()
def command(bundle: Path, allowed: Path | None, signer: str, as_json: bool) -> None:
    """Judge a bundle again, on any machine, and say whether anything differs.

    \b
    dbcheck verify ID.dbcheck.tar
    dbcheck verify ID.dbcheck.tar --allowed-signers signers --signer ops@example.org

    Checks every byte and the signature in BUNDLE.sig, then judges each run whose rows
    it holds. No server is contacted. Exits with 0 if nothing differs, whatever the
    verdict, and with 1 if something does or the bundle is refused.
    """
    require_file("BUNDLE", bundle)
    require_file("--allowed-signers", allowed)
    if signer and allowed is None:
        raise UsageError(
            "--signer needs --allowed-signers",
            id=ErrorId.OPTION_NEEDS_ANOTHER,
            hint="It is the file that says which key a signer has.",
        )
    try:
        result = verify(bundle, FrameLogReader(), allowed, signer)
    except BundleRefused as error:
        say_error(error)
        sys.exit(FAIL)
    code = PASS if result.same else FAIL
    with output.exit_if_unprintable(code):
        if as_json:
            output.print_json(to_values(result))
        else:
            _show(result)
    sys.exit(code)


def _show(result: VerifyResult) -> None:
    say(f"{result.bundle}: {result.kind} {result.name}, {result.verdict.value}")
    say(f"made by dbcheck {result.made_by}; every byte is as it was written")
    if result.signer:
        say(f"signed by {result.signer} with the key {result.key}")
    elif result.signed:
        say(
            f"signed with the key {result.key}; whose it is was not asked"
            " (--allowed-signers)"
        )
    else:
        say("not signed: who made it is not known")
    if result.redacted:
        say("names of hosts, nodes and addresses were replaced")
    if result.secrets_removed:
        say(describe_removed_secrets(result.secrets_removed))
    if not result.report_compared:
        say(
            f"report.html was not compared: dbcheck {result.made_by} made it, and this"
            f" is {dbcheck.__version__}"
        )
    say(f"judged again: {_format_runs(result.judged_again)}")
    if result.not_judged_again:
        say(
            f"not judged again: {_format_runs(result.not_judged_again)}. A campaign"
            " keeps no rows of a cycle that passed, so such a PASS rests on what the"
            " maker of the bundle says"
        )
    if result.kind == "runs":
        say(
            "the bundle holds the runs that its maker named: which others there are is"
            " what the maker says"
        )
    say(*(result.differences or ("nothing that was checked differs",)))


def _format_runs(count: int) -> str:
    return f"{count} run" + "s" * (count != 1)
