"""The report on counted flushes for people, made from the result that --json prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dbcheck.probe.flushes import Outcome
from dbcheck.probe.flushes_result import DeviceResult, FlushesResult, VolumeResult
from dbcheck.report.terminal import BAD, DOUBTFUL, GOOD, WRONG, style_badge
from dbcheck.report.words.run import with_id

_STYLES = {
    Outcome.MISSING: style_badge(BAD),
    Outcome.UNCLEAR: style_badge(DOUBTFUL),
    Outcome.FLUSHED: style_badge(GOOD),
}
_LIMIT = (
    "This shows what reaches a drive, not what the drive does with it. A drive, a"
    " controller or a hypervisor that answers flushes before they are done passes this"
    " probe. Only a power cut finds that: dbcheck run."
)
_UNCOUNTED = "-"


def draw_all_flushes(results: Sequence[FlushesResult]) -> RenderableType:
    """Return one report for each server, and a table of all where there are several."""
    parts = [_draw_flushes(result) for result in results]
    if len(results) > 1:
        parts.append(_draw_overview(results))
    return Group(*parts)


def _draw_flushes(result: FlushesResult) -> RenderableType:
    title = Text.assemble((result.name or result.target, "bold"), f"  {result.server}")
    if result.error:
        why = with_id(result.error, result.error_id)
        return Group("", title, Text(f"  not probed: {why}", WRONG), "")
    if result.name:
        title.append(f"  {result.target}")
    counts = (
        f"  {result.commits} commits of one session, {result.commit_us / 1000:.2f} ms"
        f" each (median), the counters read {result.count_us / 1000:.2f} ms later;"
        f" {result.idle} waits between them"
    )
    parts: list[RenderableType] = ["", title, Text(counts), ""]
    for volume in result.volumes:
        parts += [*_draw_volume(result, volume), ""]
    parts += draw_unread(result.unread)
    return Group(*parts, Text(_LIMIT, "italic"), "")


def draw_unread(unread: Mapping[str, str]) -> list[RenderableType]:
    """Return a line for each place of the server that a probe did not read."""
    lines = [
        Text(f"  not probed: {name}: {why}", WRONG) for name, why in unread.items()
    ]
    return [*lines, ""] if lines else []


def _draw_volume(
    result: FlushesResult, volume: VolumeResult
) -> Iterator[RenderableType]:
    yield Text.assemble(
        (f" {volume.outcome.value} ", _STYLES[volume.outcome]),
        (f"  {', '.join(volume.places)}", "bold"),
        f"  {volume.filesystem} at {volume.mount_point}",
    )
    yield Text(f"  {volume.sentence}")
    for line in _describe_control(volume):
        yield Text(f"  {line}")
    yield Padding(_draw_devices(result, volume.devices), (1, 0, 0, 2))


def _describe_control(volume: VolumeResult) -> Iterator[str]:
    yield f"A file of dbcheck's own on the same filesystem: {volume.file_sentence}"
    if volume.stopped_at:
        yield f"Where flushes stop: {volume.stopped_at}."
    if volume.server_does_not_ask:
        yield (
            "So flushes reach the drive, and the server does not ask for one at each"
            " commit. dbcheck audit shows its settings."
        )


def _draw_devices(result: FlushesResult, devices: Sequence[DeviceResult]) -> Table:
    """Return a column for each device: there are few, and their names are long."""
    commits = result.commits
    table = Table()
    table.add_column("")
    for each in devices:
        table.add_column(each.name, justify="right", overflow="fold")
    rows: dict[str, Callable[[DeviceResult], str]] = {
        "what it is": lambda each: "drive" if each.is_drive else each.layer,
        "kernel's write cache": lambda each: each.write_cache or "not known",
        "writes per commit": lambda each: _format_mean(each.writes, commits),
        "KiB per commit": lambda each: _format_mean(each.bytes_written, commits * 1024),
        "flushes per commit": lambda each: _format_mean(each.flushes, commits),
        "commits without a flush": lambda each: _format_share(
            each.without_flush, commits
        ),
        "waits with a flush": lambda each: _format_share(
            each.idle_flushed, result.idle
        ),
    }
    for name, shown in rows.items():
        table.add_row(name, *map(shown, devices))
    return table


def _format_mean(total: int | None, number: int) -> str:
    return _UNCOUNTED if total is None or not number else f"{total / number:.1f}"


def _format_share(part: int | None, number: int) -> str:
    return _UNCOUNTED if part is None else f"{part} of {number}"


def _draw_overview(results: Sequence[FlushesResult]) -> RenderableType:
    table = Table(title="All targets", title_justify="left", title_style="bold")
    for name in ("target", "result", "commit"):
        table.add_column(name, overflow="fold")
    for result in results:
        outcome = "not probed" if result.error else result.outcome.value
        took = _UNCOUNTED if result.error else f"{result.commit_us / 1000:.2f} ms"
        table.add_row(result.name or result.target, outcome, took)
    return Padding(table, (0, 0, 1, 0))
