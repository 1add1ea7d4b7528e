"""dbcheck audit: what settings, filesystems and drives show without a cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import click

import dbcheck
from dbcheck.audit.result import AuditResult, AuditsResult
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE, PASS, output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.entries import find_entries, run_at_once
from dbcheck.cli.flags.groups import Verb, grouped, option
from dbcheck.cli.flags.target import HostUrl, InventoryOptions, TargetOptions, host_flag
from dbcheck.judge.result import to_values
from dbcheck.judge.results import ReceiptsResult
from dbcheck.model.audited import RuleStatus, Severity
from dbcheck.ports.listener import Phase
from dbcheck.report.audit import draw_audits, draw_receipt
from dbcheck.report.console import make_console, make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.report.sarif import make_sarif
from dbcheck.runner.checks import audit_one_of_many

TEXT, SARIF = "text", "sarif"
NOWHERE = "command-line"  # the file of a finding on a server that flags describe


@dataclass(frozen=True)
class AuditedHost(HostUrl):
    """The target's host, which is only read."""

    target_host: Annotated[
        str | None,
        host_flag(
            "Filesystems, block devices and drives are read there, and nothing is "
            "written; as root the drives' own state can be read too.",
        ),
    ] = None


def _list_rules_with_receipt() -> tuple[str, ...]:
    from dbcheck.runner.receipts import list_rules_with_receipt  # it imports the lab

    return list_rules_with_receipt()


@click.command("audit", cls=Verb)
@grouped
@click.argument("names", nargs=-1, metavar="[NAME]...")
@shared.everything()
@option(
    "--format",
    "shape",
    type=click.Choice([TEXT, SARIF]),
    default=TEXT,
    show_default=True,
    help="How the findings are printed; sarif is SARIF 2.1.0, for code scanning.",
)
@shared.as_json()
@option(
    "--fail-on",
    type=click.Choice([severity.value for severity in Severity]),
    metavar="LEVEL",
    help="Exit with 1 if a finding is this bad or worse (error, warning, note), and "
    "with 3 if none is and a fact that could be is not known.",
)
@option(
    "--receipt",
    metavar="RULE",
    help="Show in a lab what the rule claims: build what it calls unsafe, cut the "
    "power, print what was lost. Exits with 1 if nothing was.",
    shell_complete=shared.complete_names(_list_rules_with_receipt, or_file=False),
)
@shared.seed("--receipt: decides rows, moments and what the drive loses.")
@shared.runs()
def command(
    names: tuple[str, ...],
    lookup: InventoryOptions,
    target: TargetOptions,
    host: AuditedHost,
    everything: bool,
    shape: str,
    as_json: bool,
    fail_on: str | None,
    receipt: str | None,
    seed: int | None,
    runs: Path,
) -> None:
    """Check settings, filesystems and drives without a cut.

    \b
    dbcheck audit NAME... | --all                hosts of an inventory, all at once
    dbcheck audit --target URL --target-host URL
    dbcheck audit --receipt RULE                 what a rule claims, shown in a lab

    Reads the server's settings as its sessions have them, those of each role and
    database, every directory that a commit depends on, its filesystem and the block
    devices and drives below it; on Kubernetes its pods and the claims of their
    volumes, too. Nothing is changed. What cannot be read is shown as not known, with
    what would make it readable. Exits with 3 if some of the servers and hosts that are
    named could not be read, and with 4 if no server could.
    docs/rules.md has the rules.
    """
    if receipt is not None:
        if names or everything or target.target:
            raise UsageError(
                "--receipt runs in a lab",
                id=ErrorId.OPTIONS_CONFLICT,
                hint="Leave out NAME, --all and --target.",
            )
        sys.exit(_show_receipt(receipt, shared.draw_seed(seed), runs, as_json=as_json))
    entries = find_entries(names, lookup, (target, host), everything=everything)
    results = run_at_once(audit_one_of_many, entries)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    result = AuditsResult(dbcheck.__version__, created, results)
    file = str(lookup.inventory) if entries[0].name else NOWHERE
    code = _exit_code(results, Severity(fail_on) if fail_on else None)
    with output.exit_if_unprintable(code):
        if as_json:
            output.print_json(to_values(result))
        elif shape == SARIF:
            output.print_json(make_sarif(result, Path(file).as_posix()))
        else:
            make_console().print(draw_audits(result.targets))
    sys.exit(code)


def _show_receipt(rule: str, seed: int, runs: Path, *, as_json: bool) -> int:
    """Print what labs lose that are built as *rule* calls unsafe; return the exit code.

    It is PASS if each lost, and the audit had named the rule before its cut.
    """
    from dbcheck.runner import receipts

    found = receipts.find_receipt(rule, seed)
    terminal, only = make_progress_console(), {Phase.LAB}
    with make_progress(terminal, live=not as_json, only=only) as view:
        results = receipts.cut_labs(found, seed, view, runs)
    code = PASS if all(result.shown for result in results) else FAIL
    with output.exit_if_unprintable(code):
        if as_json:
            output.print_json(to_values(ReceiptsResult(tuple(results))))
        else:
            make_console().print(draw_receipt(found.rule, results))
    return code


def _exit_code(results: Sequence[AuditResult], level: Severity | None) -> int:
    if all(result.error for result in results):
        return FAILED
    bad = {
        each.status
        for result in results
        for each in result.findings
        if level and each.severity.rank <= level.rank
    }
    if RuleStatus.UNSAFE in bad:
        return FAIL
    is_part_unread = any(result.error or result.host_error for result in results)
    return INCONCLUSIVE if is_part_unread or RuleStatus.UNKNOWN in bad else PASS
