"""dbcheck bundle: all the evidence of a run or a campaign in one file."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.groups import ANY_PATH, FILE, Verb, option
from dbcheck.cli.flags.shared import require_file, written_to
from dbcheck.cli.output import write_file
from dbcheck.cli.say import say
from dbcheck.evidence.bundle import make_bundle
from dbcheck.evidence.scrub import describe_removed_secrets
from dbcheck.evidence.signature import file_of as signature_file_of
from dbcheck.evidence.signature import sign
from dbcheck.runs.stored import lock_folder_to_judge
from dbcheck.witness.log import FrameLogReader

_SUFFIX = ".dbcheck.tar"


@click.command("bundle", cls=Verb)
@click.argument(
    "paths", metavar="RUN...|CAMPAIGN", nargs=-1, required=True, type=ANY_PATH
)
@written_to(f"The bundle. Default: NAME{_SUFFIX} in the working directory.")
@option(
    "--redact",
    is_flag=True,
    help="Replace the names of hosts and of a cluster's nodes, and addresses, each by "
    "the same everywhere, and the account that ran dbcheck.",
)
@option(
    "--sign",
    "key",
    metavar="KEY",
    type=FILE,
    help="Sign with this key for SSH, into FILE.sig; a public key if the agent has the "
    "private one.",
)
def command(
    paths: tuple[Path, ...], file: Path | None, redact: bool, key: Path | None
) -> None:
    """Put all the evidence of a run, of runs of one server or a campaign into one file.

    \b
    dbcheck bundle runs/ID                           ID.dbcheck.tar
    dbcheck bundle runs/ID1 runs/ID2 runs/ID3        counted together
    dbcheck bundle campaigns/ID --redact -o c.tar    to show to others
    dbcheck bundle runs/ID --sign ~/.ssh/id_ed25519  and ID.dbcheck.tar.sig

    It holds the manifest, the witness's logs, the rows that survived, every record,
    the report, an in-toto attestation of a PASS or a FAIL, and the digest of each.
    Passwords are left out, also those in the server's log. dbcheck verify judges it
    again.
    """
    require_file("--sign", key)
    if key is not None and file is not None and file.exists() and not file.is_file():
        raise UsageError(
            f"--sign: {file} is not a regular file, so the bundle cannot be signed",
            id=ErrorId.SIGNED_BUNDLE_NEEDS_FILE,
            hint="Give -o the name of a file, or leave out --sign.",
        )
    with contextlib.ExitStack() as stack:
        for path in dict.fromkeys(path.resolve() for path in paths):
            stack.enter_context(lock_folder_to_judge(path))
        secrets = processes.list_secret_values()
        made = stack.enter_context(
            make_bundle(paths, secrets, FrameLogReader(), redact=redact)
        )
        index = made.index
        target = file or Path(f"{index.name}{_SUFFIX}")
        write_file(target, made.chunks())
        plain = target.is_file()
        if plain:
            # Of a bundle that was replaced.
            signature_file_of(target).unlink(missing_ok=True)
        # Nothing may follow a bundle that is written to a pipe.
        shown = f"{target}: {index.verdict.value}, {len(index.members)} files"
        say(shown, err=not plain)
        if index.removed:
            say(describe_removed_secrets(index.removed), err=not plain)
        if key is not None:
            write_file(signature_file_of(target), [sign(target, made.chunks(), key)])
            say(f"signed: {signature_file_of(target)}")
