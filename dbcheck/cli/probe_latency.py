"""dbcheck probe latency: how long durable writes take on a host."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

import click

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.cli import FAILED, PASS, output
from dbcheck.cli.entries import at_once, several
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import Verb, grouped, option
from dbcheck.cli.flags.target import InventoryOptions, ProbedHost, TargetOptions
from dbcheck.cli.say import say
from dbcheck.inventory.entry import Entry
from dbcheck.judge.result import to_values
from dbcheck.probe.latency import LatencyResult, LatencyResults, usual_shapes
from dbcheck.probe.measure_latency import Effort, probe_folder, probe_server
from dbcheck.report.console import console
from dbcheck.report.latency import latency_reports
from dbcheck.runner import assemble

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
    with those of the next probe.
    """
    if folder is not None and (every_filesystem or target.target):
        raise UsageError(
            "--dir excludes --target and --every-filesystem",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Give one of them.",
        )
    if folder is not None and not names and not everything:
        entries = [_host_alone(host)]
    else:
        entries = several(names, lookup, (target, host), everything=everything)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    effort = Effort(usual_shapes(), writes, created, has_fileio=profile == FILEIO)
    for entry in entries:
        say(
            f"{assemble.entry_label(entry)}: writes and flushes a file without a name"
            f" in {folder or 'the directories of the server'}",
            err=True,
        )
    timed = partial(_timed, effort=effort, folder=folder, everywhere=every_filesystem)
    results = at_once(timed, entries)
    code = FAILED if any(result.error for result in results) else PASS
    with output.printing(code):
        if as_json:
            found = LatencyResults(dbcheck.__version__, created, results)
            output.print_json(to_values(found))
        else:
            console().print(latency_reports(results))
    sys.exit(code)


def _host_alone(host: ProbedHost) -> Entry:
    """Return a host without a server; raise UsageError if none is given."""
    if not host.target_host:
        raise UsageError(
            "--dir needs the host",
            id=ErrorId.TARGET_HOST_MISSING,
            hint="Give --target-host or NAME.",
        )
    return host.applied(Entry(name="", target=""))


def _timed(
    entry: Entry, effort: Effort, folder: str | None, *, everywhere: bool
) -> LatencyResult:
    """Time writes on one host; one that cannot be reached does not end the others."""
    try:
        with closing(assemble.required_host(entry)) as host:
            if folder is not None:
                return probe_folder(folder, host, effort, entry.name)
            engine = assemble.engine(entry.target, entry.password)
            return probe_server(engine, host, effort, entry.name, everywhere=everywhere)
    except UsageError:
        raise
    except DbcheckError as error:
        return LatencyResult(
            entry.name, entry.target, "", (), error.with_hint, error.id
        )
