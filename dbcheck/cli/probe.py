"""dbcheck probe: what commits and flushes do to the drives, measured without a cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import click

import dbcheck
from dbcheck.campaign.probing import (
    log_volumes,
    logs_on,
    probe_flushes,
    server_facts,
)
from dbcheck.campaign.timing import Effort, time_folder
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE, PASS, assemble, options, output
from dbcheck.cli.entries import several
from dbcheck.cli.entry_options import EntryOptions, InventoryOptions, TargetOptions
from dbcheck.cli.groups import Flag, Verb, VerbGroup, grouped, option
from dbcheck.cli.say import say
from dbcheck.core.places import DATA
from dbcheck.errors import DbcheckError, UsageError
from dbcheck.hosts.host import TargetHost
from dbcheck.inventory.entry import Entry
from dbcheck.judge.result import to_values
from dbcheck.probe.flushes import Outcome
from dbcheck.probe.latency import usual_shapes
from dbcheck.probe.result import FlushesResult, FlushesResults
from dbcheck.probe.timings import LatencyResult, LatencyResults
from dbcheck.report.latency import latency_reports
from dbcheck.report.probe import flushes_reports

AT_ONCE = 32
FILEIO = "fileio"
WRITES = 300
COMMITS, COMMITS_MIN, COMMITS_MAX = 200, 30, 100_000
_EXIT_CODES = {
    Outcome.MISSING: FAIL,
    Outcome.UNCLEAR: INCONCLUSIVE,
    Outcome.FLUSHED: PASS,
}


@dataclass(frozen=True)
class ProbedHost(EntryOptions):
    """The target's host, whose drives are looked at."""

    section = "Target"

    target_host: Annotated[
        str | None,
        Flag(
            "--target-host",
            metavar="URL",
            help="The target's host, ssh://user@host:port, or local: if it is this "
            "one. The user there must be able to write in the directory of the log.",
        ),
    ] = None

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with this host."""
        return replace(entry, host=self.target_host or entry.host)


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
@option("--all", "everything", is_flag=True, help="Every target of the inventory.")
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
    type=options.SEED,
    metavar="N",
    help="Decides the rows, and how long it waits between commits. Default: random.",
)
@options.as_json()
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
    seed = options.drawn(seed)
    for entry in entries:
        say(
            f"{_named(entry)}: commits {commits} rows to dbcheck's table,"
            " then writes a file without a name in the log's directory",
            err=True,
        )
    with ThreadPoolExecutor(min(AT_ONCE, len(entries))) as pool:
        results = tuple(pool.map(partial(_probed, commits=commits, seed=seed), entries))
    created = datetime.now(UTC).isoformat(timespec="seconds")
    with output.printing():
        if as_json:
            found = FlushesResults(dbcheck.__version__, created, results)
            output.print_json(to_values(found))
        else:
            output.console().print(flushes_reports(results))
    sys.exit(_exit_code(results))


@command.command("latency", cls=Verb)
@grouped
@click.argument("names", nargs=-1, metavar="[NAME]...")
@option("--all", "everything", is_flag=True, help="Every target of the inventory.")
@option(
    "--dir",
    "folder",
    metavar="PATH",
    help="A directory of the host, in place of those that hold the server's log. No "
    "server is needed.",
)
@option(
    "--every-directory",
    is_flag=True,
    help="Time writes in every directory that a commit depends on, not only where the "
    "log is.",
)
@option(
    "--writes",
    type=click.IntRange(10, 100_000),
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
@options.as_json()
def latency(
    names: tuple[str, ...],
    lookup: InventoryOptions,
    target: TargetOptions,
    host: ProbedHost,
    everything: bool,
    folder: str | None,
    every_directory: bool,
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
    with those of the next probe.
    """
    if folder is not None and (every_directory or target.target):
        raise UsageError(
            "--dir excludes --target and --every-directory", hint="Give one of them."
        )
    if folder is not None and not names and not everything:
        if not host.target_host:
            raise UsageError("--dir needs the host", hint="Give --target-host or NAME.")
        entries = [host.applied(Entry(name="", target=""))]
    else:
        entries = several(names, lookup, (target, host), everything=everything)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    effort = Effort(usual_shapes(), writes, has_fileio=profile == FILEIO)
    work = Timing(folder, every_directory, effort, created)
    for entry in entries:
        say(
            f"{_named(entry)}: writes and flushes a file without a name"
            f" in {folder or 'the directories of the server'}",
            err=True,
        )
    with ThreadPoolExecutor(min(AT_ONCE, len(entries))) as pool:
        results = tuple(pool.map(partial(_timed, work=work), entries))
    with output.printing():
        if as_json:
            found = LatencyResults(dbcheck.__version__, created, results)
            output.print_json(to_values(found))
        else:
            output.console().print(latency_reports(results))
    sys.exit(FAILED if any(result.error for result in results) else PASS)


@dataclass(frozen=True)
class Timing:
    """What is to be timed on each host.

    folder: the directory, None for those of the server.  every: all of those, and not
    only its logs.  created: now, ISO 8601.
    """

    folder: str | None
    every: bool
    effort: Effort
    created: str


def _timed(entry: Entry, work: Timing) -> LatencyResult:
    """Time writes on one host; one that cannot be reached does not end the others."""
    try:
        host = _host(entry)
        with closing(host):
            if work.folder is not None:
                facts = host.facts(work.folder)
                volumes = list(facts.volumes)
            else:
                engine = assemble.engine(entry.target, entry.password)
                facts = server_facts(engine, host)
                volumes = list(facts.volumes) if work.every else log_volumes(facts)
            folders = tuple(
                time_folder(
                    host,
                    facts,
                    volume,
                    list(volume.places) if work.every else logs_on(volume) or [DATA],
                    work.effort,
                    work.created,
                )
                for volume in volumes
            )
            return LatencyResult(entry.name, entry.target, facts.hostname, folders)
    except UsageError:
        raise
    except DbcheckError as error:
        hint = f" {error.hint}" if error.hint else ""
        return LatencyResult(entry.name, entry.target, "", (), f"{error}.{hint}")


def _named(entry: Entry) -> str:
    return entry.name or entry.target or entry.host or ""


def _host(entry: Entry) -> TargetHost:
    host = assemble.entry_host(entry)
    if host is None:
        raise UsageError(
            f"{_named(entry)}: its host is not known",
            hint="Name it: --target-host, or dbcheck_host in the inventory.",
        )
    return host


def _probed(entry: Entry, commits: int, seed: int) -> FlushesResult:
    """Probe one server; one that cannot be reached does not end the others."""
    try:
        host = _host(entry)
        with closing(host):
            engine = assemble.engine(entry.target, entry.password)
            return probe_flushes(engine, host, commits, seed, entry.name)
    except UsageError:
        raise
    except DbcheckError as error:
        hint = f" {error.hint}" if error.hint else ""
        return FlushesResult.failed(entry.name, entry.target, f"{error}.{hint}")


def _exit_code(results: Sequence[FlushesResult]) -> int:
    if any(result.error for result in results):
        return FAILED
    return _EXIT_CODES[min((e.outcome for e in results), key=lambda each: each.rank)]
