"""The report on timed writes for people, made from the result that --json prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.probe.latency import (
    Bucket,
    FileioResult,
    FolderResult,
    LatencyResult,
    TimingResult,
)
from dbcheck.report.flushes import draw_unread
from dbcheck.report.terminal import WRONG
from dbcheck.report.words.run import with_id

_DRIFT = 1.5  # times slower or quicker than before, and it is shown in bold
_GROUP, _GAP = 10, 50  # a group has a tenth of all, and a gap less than a fiftieth
_BAR = 40  # characters of the longest bar
_LIMIT = (
    "These are durations, and no proof: a quick answer may come from a cache that a"
    " power cut empties. Only a power cut finds that: dbcheck run. The figures are kept"
    " to compare the next probe of this host with them."
)


def draw_latencies(results: Sequence[LatencyResult]) -> RenderableType:
    """Return one report for each host, and a table of all where there are several."""
    parts = [_draw_host(result) for result in results]
    if len(results) > 1:
        parts.append(_draw_overview(results))
    return Group(*parts)


def _draw_host(result: LatencyResult) -> RenderableType:
    title = Text.assemble((result.name or result.target or result.host, "bold"))
    if result.name and result.target:
        title.append(f"  {result.target}")
    if result.error:
        why = with_id(result.error, result.error_id)
        return Group("", title, Text(f"  not probed: {why}", WRONG), "")
    parts: list[RenderableType] = ["", title, ""]
    for folder in result.folders:
        parts += [*_draw_folder(folder), ""]
    parts += draw_unread(result.unread)
    return Group(*parts, Text(_LIMIT, "italic"), "")


def _draw_folder(result: FolderResult) -> Iterator[RenderableType]:
    drives = ", ".join(result.drives) or "unknown drives"
    yield Text.assemble(
        (", ".join(result.places) or "directory", "bold"),
        f"  {result.folder}  ({result.filesystem} at {result.mount_point}, {drives})",
    )
    if result.advice and result.main is not None:
        yield Text(
            "  A write of 8 KiB and fdatasync:"
            f" {_format_ms(result.main.p50_us)} ms (median),"
            f" {_format_ms(result.main.p99_us)} ms (99% are quicker). {result.advice}"
        )
    if result.drift is not None:
        before = result.earlier[-1]
        style = "bold" if not 1 / _DRIFT < result.drift < _DRIFT else ""
        yield Text(
            f"  Before, on {before.created}: {_format_ms(before.p50_us)} ms; now"
            f" {result.drift:.2f} times as long.",
            style,
        )
    if _has_two_groups(result.histogram):
        yield Text(
            "  The times fall into two groups, so their median says little: see below.",
            "bold",
        )
    yield Padding(_draw_timings(result.timings), (0, 0, 0, 2))
    for each in result.timings:
        if each.spread is None:
            where = f"{each.size:,} bytes at {each.offset}"
            yield Text(f"  {each.method.value}, {where}: {each.why}")
    if result.histogram:
        yield Padding(_draw_histogram(result.histogram), (0, 0, 0, 2))
    if result.fileio:
        yield Padding(_draw_fileio(result.fileio), (1, 0, 0, 2))


def _draw_timings(timings: Sequence[TimingResult]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("made durable by", no_wrap=True)
    for name in ("bytes", "at", "p50 ms", "p90 ms", "p99 ms", "max ms", "drive"):
        table.add_column(name, justify="right", overflow="fold")
    for each in timings:
        what = (each.method.value, f"{each.size:,}", str(each.offset))
        if each.spread is None:
            table.add_row(*what, *["-"] * 5)
            continue
        spread = each.spread
        took = (spread.p50_us, spread.p90_us, spread.p99_us, spread.max_us)
        table.add_row(*what, *map(_format_ms, took), _format_share(each))
    return table


def _format_share(timing: TimingResult) -> str:
    """Return the share of the time that the busiest device took."""
    known = [share for share in timing.device_shares.values() if share is not None]
    return f"{max(known):.0%}" if known else "-"


def _has_two_groups(buckets: Sequence[Bucket]) -> bool:
    """Return True if hardly a time lies between two groups, each a tenth or more."""
    writes = [each.writes for each in buckets]
    total, below = sum(writes), 0
    for count in writes:
        above = total - below - count
        if min(below, above) * _GROUP >= total and count * _GAP <= total:
            return True
        below += count
    return False


def _draw_histogram(buckets: Sequence[Bucket]) -> Table:
    most = max(each.writes for each in buckets)
    table = Table.grid(padding=(0, 1))
    table.title = "Writes of 8 KiB and fdatasync, by how long they took"
    table.title_justify = "left"
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    table.add_column(justify="right")
    for each in buckets:
        bar = "█" * round(each.writes / most * _BAR) or ("▏" if each.writes else "")
        span = f"{_format_ms(each.from_us)} to {_format_ms(each.to_us)} ms"
        table.add_row(span, bar, str(each.writes))
    return table


def _draw_fileio(results: Sequence[FileioResult]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("16 KiB, random, O_DIRECT", no_wrap=True)
    for name in ("per s", "p50 ms", "p99 ms", "flush p50 ms", "flush p99 ms"):
        table.add_column(name, justify="right")
    for each in results:
        how = "threads, flushed" if each.flushed else "in flight, not flushed"
        what = f"{each.at_once:>2} {how}"
        if each.why:
            table.add_row(what, each.why)
            continue
        took = (each.write_p50_us, each.write_p99_us)
        sync = (each.sync_p50_us, each.sync_p99_us)
        shown = ("-" if us is None else _format_ms(us) for us in sync)
        table.add_row(what, f"{each.writes_per_s:,.0f}", *map(_format_ms, took), *shown)
    return table


def _draw_overview(results: Sequence[LatencyResult]) -> RenderableType:
    table = Table(title="All hosts", title_justify="left", title_style="bold")
    for name in ("host", "directory", "p50", "p99", "times as before"):
        table.add_column(name, overflow="fold")
    for result in results:
        named = result.name or result.target or result.host
        if result.error:
            table.add_row(named, "not probed")
        for each in result.folders:
            took = ("-", "-")
            if each.main is not None:
                took = (
                    f"{_format_ms(each.main.p50_us)} ms",
                    f"{_format_ms(each.main.p99_us)} ms",
                )
            drift = "-" if each.drift is None else f"{each.drift:.2f}"
            table.add_row(named, ", ".join(each.places) or each.folder, *took, drift)
    return Padding(table, (0, 0, 1, 0))


def _format_ms(us: float) -> str:
    return f"{us / 1000:.3f}" if us < 10_000 else f"{us / 1000:.1f}"
