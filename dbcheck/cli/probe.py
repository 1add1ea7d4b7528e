"""dbcheck probe: what commits, flushes and durable writes do to the drives."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

import click

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE, PASS, output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.entries import find_entries, run_at_once
from dbcheck.cli.flags.groups import Verb, VerbGroup, grouped, option
from dbcheck.cli.flags.target import InventoryOptions, ProbedHost, TargetOptions
from dbcheck.cli.say import say
from dbcheck.inventory.entry import Entry
from dbcheck.judge.result import to_values
from dbcheck.probe.flushes import Outcome
from dbcheck.probe.flushes_result import FlushesResult, FlushesResults
from dbcheck.probe.latency import LatencyResult, LatencyResults, list_usual_shapes
from dbcheck.probe.measure_latency import Effort, probe_folder, probe_server
from dbcheck.report.console import make_console
from dbcheck.report.flushes import draw_all_flushes
from dbcheck.report.latency import draw_latencies
from dbcheck.runner import assemble
from dbcheck.runner.checks import COMMITS, probe_flushes_of_one_of_many
from dbcheck.runner.placement import place_to_look

FILEIO = "fileio"
WRITES, WRITES_MIN, WRITES_MAX = 300, 10, 100_000


@click.command("latency", cls=Verb)
@grouped
@click.argument("names", nargs=-1, metavar="[NAME]...")
@shared.everything()
@option(
    "--dir",
    "folder",
    metavar="PATH",
    help="A directory of the host, in place of those that hold the server's log. No "
    "server is needed.",
)
@option(
    "--every-filesystem",
    is_flag=True,
    help="Time writes on every filesystem that a commit depends on, not only on those "
    "of the log.",
)
@option(
    "--writes",
    type=click.IntRange(WRITES_MIN, WRITES_MAX),
    default=WRITES,
    show_default=True,
    metavar="N",
    help="How often each kind of write is made; fewer if that takes over 2 s.",
)
@option(
    "--profile",
    type=click.Choice([FILEIO]),
    help="fileio: also random writes of 16 KiB with O_DIRECT by 1, 4 and 16 at once, "
    "each flushed and never flushed. Needs fio on the host.",
)
@shared.as_json()
def latency(
    names: tuple[str, ...],
    lookup: InventoryOptions,
    target: TargetOptions,
    host: ProbedHost,
    everything: bool,
    folder: str | None,
    every_filesystem: bool,
    writes: int,
    profile: str | None,
    as_json: bool,
) -> None:
    """Time writes that are made durable, where the server's log is.

    \b
    dbcheck probe latency NAME... | --all
    dbcheck probe latency --target URL --target-host URL
    dbcheck probe latency --target-host URL --dir PATH

    Writes blocks of 1 byte to 128 KiB in place, in a file without a name that is gone
    when the probe ends, and makes each durable in one of five ways, as servers do. What
    the numbers may mean is advice, and no verdict: a cache that answers quickly may be
    safe, and a slow drive may lose what it has. The medians are remembered and compared
    with those of the next probe. Exits with 3 if some of the hosts that are named, or
    of their directories, could not be read, and with 4 if no host could.
    """
    if folder is not None and (every_filesystem or target.target):
        raise UsageError(
            "--dir excludes --target and --every-filesystem",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Give one of them.",
        )
    if folder is not None and not names and not everything:
        entries = [_make_entry_of_host(host)]
    else:
        entries = find_entries(names, lookup, (target, host), everything=everything)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    effort = Effort(list_usual_shapes(), writes, created, has_fileio=profile == FILEIO)
    for entry in entries:
        say(
            f"{assemble.entry_label(entry)}: writes and flushes a file without a name"
            f" in {folder or 'the directories of the server'}",
            err=True,
        )
    timed = partial(
        _time_writes, effort=effort, folder=folder, everywhere=every_filesystem
    )
    results = run_at_once(timed, entries)
    code = PASS
    if any(result.error or result.unread for result in results):
        code = FAILED if all(result.error for result in results) else INCONCLUSIVE
    with output.exit_if_unprintable(code):
        if as_json:
            found = LatencyResults(dbcheck.__version__, created, results)
            output.print_json(to_values(found))
        else:
            make_console().print(draw_latencies(results))
    sys.exit(code)


def _make_entry_of_host(host: ProbedHost) -> Entry:
    """Return a host without a server; raise UsageError if none is given."""
    if not host.target_host:
        raise UsageError(
            "--dir needs the host",
            id=ErrorId.TARGET_HOST_MISSING,
            hint="Give --target-host or NAME.",
        )
    return host.applied(Entry(name="", target=""))


def _time_writes(
    entry: Entry, effort: Effort, folder: str | None, *, everywhere: bool
) -> LatencyResult:
    """Time writes on one host; one that cannot be reached does not end the others."""
    try:
        entry = place_to_look(entry)
        with closing(assemble.require_entry_host(entry)) as host:
            if folder is not None:
                return probe_folder(folder, host, effort, entry.name)
            engine = assemble.make_engine(entry.target, entry.password)
            return probe_server(engine, host, effort, entry.name, everywhere=everywhere)
    except UsageError:
        raise
    except DbcheckError as error:
        return LatencyResult(
            entry.name, entry.target, "", (), error.with_hint, error.id
        )


COMMITS_MIN, COMMITS_MAX = 30, 100_000
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
@shared.seed("Decides the rows, and how long it waits between commits.")
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

    Exits with 1 if commits were answered without a flush, with 3 if it is not known of
    a log, a server or a host that is named, and with 4 if no server could be probed.
    """
    entries = find_entries(names, lookup, (target, host), everything=everything)
    seed = shared.draw_seed(seed)
    for entry in entries:
        say(
            f"{assemble.entry_label(entry)}: commits {commits} rows to dbcheck's table,"
            " then writes a file without a name in the log's directory",
            err=True,
        )
    results = run_at_once(
        partial(probe_flushes_of_one_of_many, commits=commits, seed=seed), entries
    )
    created = datetime.now(UTC).isoformat(timespec="seconds")
    code = _exit_code(results)
    with output.exit_if_unprintable(code):
        if as_json:
            found = FlushesResults(dbcheck.__version__, created, results)
            output.print_json(to_values(found))
        else:
            make_console().print(draw_all_flushes(results))
    sys.exit(code)


def _exit_code(results: Sequence[FlushesResult]) -> int:
    if all(result.error for result in results):
        return FAILED
    return _EXIT_CODES[min((e.outcome for e in results), key=lambda each: each.rank)]


command.add_command(latency)
