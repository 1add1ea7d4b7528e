"""dbcheck probe: what commits and flushes do to the drives, measured without a cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

import click

import dbcheck
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE, PASS, output
from dbcheck.cli.entries import at_once, several
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import Verb, VerbGroup, grouped, option
from dbcheck.cli.flags.target import InventoryOptions, ProbedHost, TargetOptions
from dbcheck.cli.flags.values import SEED
from dbcheck.cli.probe_latency import latency
from dbcheck.cli.say import say
from dbcheck.inventory.entry import Entry
from dbcheck.judge.result import to_values
from dbcheck.probe.flushes import Outcome
from dbcheck.probe.flushes_result import FlushesResult, FlushesResults
from dbcheck.probe.measure_flushes import probe_flushes
from dbcheck.report.console import console
from dbcheck.report.flushes import flushes_reports
from dbcheck.runner import assemble

COMMITS, COMMITS_MIN, COMMITS_MAX = 200, 30, 100_000
_EXIT_CODES = {
    Outcome.MISSING: FAIL,
    Outcome.UNCLEAR: INCONCLUSIVE,
    Outcome.FLUSHED: PASS,
}


@click.group("probe", cls=VerbGroup)
def command() -> None:
    """Measure without a cut what commits and flushes do to the drives.

    A probe finds what swallows flushes above a drive. A drive, a controller or a
    hypervisor that answers flushes before they are done passes: only a power cut finds
    that.
    """


@command.command("flushes", cls=Verb)
@grouped
@click.argument("names", nargs=-1, metavar="[NAME]...")
@shared.everything()
@option(
    "--commits",
    type=click.IntRange(COMMITS_MIN, COMMITS_MAX),
    default=COMMITS,
    show_default=True,
    metavar="N",
    help="How many commits are made, one after the other.",
)
@option(
    "--seed",
    type=SEED,
    metavar="N",
    help="Decides the rows, and how long it waits between commits. Default: random.",
)
@shared.as_json()
def flushes(
    names: tuple[str, ...],
    lookup: InventoryOptions,
    target: TargetOptions,
    host: ProbedHost,
    everything: bool,
    commits: int,
    seed: int | None,
    as_json: bool,
) -> None:
    """Count the flushes of the drives below the log, commit by commit.

    \b
    dbcheck probe flushes NAME... | --all
    dbcheck probe flushes --target URL --target-host URL

    One session commits rows; before and after each commit the host's kernel is asked
    how often each block device below the log was written and flushed. A commit that was
    answered without a flush can be lost. Then blocks of a file in the log's directory
    are written and flushed in the same way, which shows whether the server did not ask
    for a flush or something below it swallowed it. The file has no name and is gone
    when the probe ends; the rows stay in dbcheck's table (dbcheck clean drops it).

    Exits with 1 if commits were answered without a flush, and with 3 if it is not
    known.
    """
    entries = several(names, lookup, (target, host), everything=everything)
    seed = shared.drawn(seed)
    for entry in entries:
        say(
            f"{assemble.entry_label(entry)}: commits {commits} rows to dbcheck's table,"
            " then writes a file without a name in the log's directory",
            err=True,
        )
    results = at_once(partial(_probed, commits=commits, seed=seed), entries)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    code = _exit_code(results)
    with output.printing(code):
        if as_json:
            found = FlushesResults(dbcheck.__version__, created, results)
            output.print_json(to_values(found))
        else:
            console().print(flushes_reports(results))
    sys.exit(code)


def _probed(entry: Entry, commits: int, seed: int) -> FlushesResult:
    """Probe one server; one that cannot be reached does not end the others."""
    try:
        with closing(assemble.required_host(entry)) as host:
            engine = assemble.engine(entry.target, entry.password)
            return probe_flushes(engine, host, commits, seed, entry.name)
    except UsageError:
        raise
    except DbcheckError as error:
        return FlushesResult.failed(entry.name, entry.target, error)


def _exit_code(results: Sequence[FlushesResult]) -> int:
    if any(result.error for result in results):
        return FAILED
    return _EXIT_CODES[min((e.outcome for e in results), key=lambda each: each.rank)]


command.add_command(latency)
