"""The charts of one run: its load up to the cut, its losses, its keys near the cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from dbcheck.judge.result import DriveSeries, RunDetail
from dbcheck.model.records import LoadRecord
from dbcheck.model.verdict import format_count
from dbcheck.report.html.svg import (
    WIDTH,
    Axis,
    Plot,
    before_the_end,
    linear,
    logarithmic,
)
from dbcheck.rows.acks import HOUSEKEEPING_SESSION, PREFLIGHT_SESSION
from dbcheck.rows.copied import CopyRecord
from dbcheck.rows.keymap import Fate, KeyMap, Lane
from dbcheck.rows.timeline import Bin, Timeline

_HEIGHT = 210
_LANE_HEIGHT, _LANES_LEFT, _CELL_WIDTH = 11, 74, 6.7
LINES = ("first", "second", "third", "fourth")


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its title.

    legend: class of style.css -> what is drawn in it.  note: how to read the chart.
    """

    title: str
    drawing: Markup
    legend: dict[str, str]
    note: str = ""


def figures(detail: RunDetail, load: LoadRecord | None = None) -> Iterator[Figure]:
    """Yield the charts that the run has data for."""
    timeline = detail.timeline
    if timeline is not None:
        end = "the power cut" if timeline.to_the_cut else "the last ack"
        axis = before_the_end(timeline.moments[0].from_s, f"seconds before {end}")
        kept = "acked and kept" if detail.compared else "acked; whether kept, unknown"
        note = ""
        if detail.copy is not None and load is not None:
            kept, note = "acked", _describe_copy(detail.copy, load)
        if (oldest_s := timeline.oldest_lost_s) is not None:
            note += f" The oldest lost commit was acked {oldest_s:.3f} s before {end}."
        yield _make_commits_figure(
            "Commits per second", timeline.moments, axis, kept, note
        )
        if near := timeline.near:
            title = f"Commits per second in the last {near[0].from_s:g} s"
            closer = before_the_end(near[0].from_s, axis.label)
            yield _make_commits_figure(title, near, closer, kept)
        if (latency := _make_latency_figure(timeline, axis)) is not None:
            yield latency
        if detail.drives:
            end = "the end of the load" if detail.copy else "the cut"
            yield _make_drives_figure(detail.drives, axis, end)
    if detail.keys is not None and detail.keys.lanes:
        yield _make_map_figure(detail.keys)


def _describe_copy(copy: CopyRecord, load: LoadRecord) -> str:
    """Return when a copy was begun and taken, on the axis of the load."""
    last_us, began_us, ended_us = load.last_ack_us, copy.began_us, copy.ended_us
    if last_us is None or began_us is None or ended_us is None:
        return ""
    began_s, ended_s = ((last_us - at) / 1e6 for at in (began_us, ended_us))
    if copy.point is not None:
        return (
            f" The point was read {began_s:.1f} s before the last ack. Commits that"
            " were sent after that cannot be there."
        )
    return (
        f" The copy was begun {began_s:.1f} s before the last ack, and taken"
        f" {max(0.0, ended_s):.1f} s before it. Commits that came after it was begun"
        " need not be there."
    )


def _make_commits_figure(
    title: str, bins: Sequence[Bin], axis: Axis, kept: str, note: str = ""
) -> Figure:
    """Return the chart of the commits' rate; *kept* names commits that are not lost."""
    width_s = bins[0].from_s - bins[0].to_s
    most = max(bin.acked for bin in bins) / width_s
    lost = sum(bin.lost for bin in bins)
    description = (
        f"{title}, {most:,.0f} at most;"
        f" {_format_lost_commits(lost) if lost else f'all {kept}'}."
    )
    plot = Plot(title, description, axis, linear(most, "commits/s"), _HEIGHT)
    for bin in bins:
        when = f"{bin.from_s:g} to {bin.to_s:g} s before: {bin.acked:,} acked"
        if bin.acked:
            plot.bar(bin.from_s, bin.to_s, 0, bin.acked / width_s, "kept", when)
        if bin.lost:
            text = f"{when}, {bin.lost:,} lost"
            plot.bar(bin.from_s, bin.to_s, 0, bin.lost / width_s, "lost", text)
    legend = {"kept": kept}
    if lost:
        legend["lost"] = "acked, then lost"
    note = f"Each bar stands for {width_s:g} s.{note}"
    return Figure(title, plot.drawn(), legend, note)


def _make_latency_figure(timeline: Timeline, axis: Axis) -> Figure | None:
    percentiles = [(bin.p50_ms, bin.p99_ms) for bin in timeline.moments]
    known = [ms for pair in percentiles for ms in pair if ms is not None and ms > 0]
    if not known:
        return None
    description = f"Time between two acks of a session, {max(known):g} ms at most."
    y = logarithmic(min(known), max(known), "ms")
    plot = Plot("Latency", description, axis, y, _HEIGHT)
    middles = [(bin.from_s + bin.to_s) / 2 for bin in timeline.moments]
    medians, slowest = zip(*percentiles, strict=True)
    plot.line(zip(middles, medians, strict=True), LINES[0])
    plot.line(zip(middles, slowest, strict=True), LINES[1])
    note = (
        "From one ack of a session to its next: the commit's latency and the client's"
        " own time, and the wait for its turn where a rate was set. A time is rounded"
        " up by less than a fifth."
    )
    legend = {f"line {LINES[0]}": "p50", f"line {LINES[1]}": "p99"}
    return Figure("Latency", plot.drawn(), legend, note)


def _make_drives_figure(series: Sequence[DriveSeries], axis: Axis, end: str) -> Figure:
    """Return the chart of each drive's flushes, or its writes without a flush count."""
    shown = series[: len(LINES)]
    legend: dict[str, str] = {}
    lines = []
    for kind, drive_series in zip(LINES, shown, strict=False):
        counted = all(point.flushes_per_s is not None for point in drive_series.points)
        counter = "flushes" if counted else "writes (flushes are not counted)"
        name = drive_series.drive if len({each.node for each in series}) == 1 else ""
        legend[f"line {kind}"] = (
            f"{name or f'{drive_series.node} {drive_series.drive}'}: {counter}"
        )
        points = [
            (point.before_end_s, point.flushes_per_s if counted else point.writes_per_s)
            for point in drive_series.points
        ]
        lines.append((kind, points))
    most = max((y or 0.0 for _, points in lines for _, y in points), default=0.0)
    description = (
        f"Flushes of the drives below the server, {most:,.0f} per second at most."
    )
    plot = Plot("Drives", description, axis, linear(most, "per second"), _HEIGHT)
    for kind, points in lines:
        plot.line(points, kind)
    note = f"Sampled twice a second, up to the last sample before {end}."
    if left := len(series) - len(shown):
        note += f" {left} more drives are in drives.csv."
    return Figure("Flushes that the drives completed", plot.drawn(), legend, note)


_CLASS_AND_TEXT_OF_FATE = {
    Fate.KEPT: ("kept", "kept"),
    Fate.LOST: ("lost", "lost"),
    Fate.PARTLY_LOST: ("partly", "some lost"),
    Fate.RECOVERED: ("recovered", "never acknowledged, and there (allowed)"),
}


def _format_lost_commits(commits: int) -> str:
    return f"{format_count(commits, 'commit')} {'was' if commits == 1 else 'were'} lost"


def _make_map_figure(keys: KeyMap) -> Figure:
    """Return the map: a lane for each session, with its newest commit at the right."""
    longest = max(len(lane.fates) for lane in keys.lanes)
    height = len(keys.lanes) * _LANE_HEIGHT + 30
    lost = sum(lane.lost for lane in keys.lanes)
    sessions = format_count(len(keys.lanes), "session")
    description = f"The last commits of {sessions}; {_format_lost_commits(lost)}."
    parts: list[Markup] = []
    for number, lane in enumerate(keys.lanes):
        parts += _draw_lane(lane, 6 + number * _LANE_HEIGHT, longest, keys.step)
    parts.append(
        Markup('<text class="axis" x="{}" y="{}">{}</text>').format(
            WIDTH / 2, height - 4, "older commits of a session  →  its newest"
        )
    )
    drawing = Markup(
        '<svg class="chart lanes" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        "<title>{}</title>{}</svg>"
    ).format(WIDTH, height, description, "Keys near the cut", Markup("").join(parts))
    seen = {letter for lane in keys.lanes for letter in lane.fates}
    legend = {
        name: text
        for fate, (name, text) in _CLASS_AND_TEXT_OF_FATE.items()
        if fate.value in seen
    }
    cell_content = "one commit" if keys.step == 1 else f"{keys.step:,} commits"
    note = f"A line for each session, a cell for {cell_content}."
    if keys.left_out:
        note += f" {keys.left_out:,} sessions, which lost less, are not shown."
    return Figure("What became of the last commits", drawing, legend, note)


_NAMES_OF_OTHER_SESSIONS = {
    PREFLIGHT_SESSION: "preflight",
    HOUSEKEEPING_SESSION: "housekeeping",
}


def _draw_lane(lane: Lane, top: float, longest: int, step: int) -> Iterator[Markup]:
    text = '<text class="tick y" x="{}" y="{}">{}</text>'
    name = _NAMES_OF_OTHER_SESSIONS.get(lane.session, f"session {lane.session}")
    yield Markup(text).format(_LANES_LEFT - 4, top + 8, name)
    cell = longest - len(lane.fates)
    first = lane.first
    for letter, same_fates in groupby(lane.fates):
        cells = len(list(same_fates))
        fate = Fate(letter)
        if fate in _CLASS_AND_TEXT_OF_FATE:
            kind, meaning = _CLASS_AND_TEXT_OF_FATE[fate]
            until = first + cells * step - 1
            yield Markup(
                '<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}">'
                "<title>{}</title></rect>"
            ).format(
                *(
                    kind,
                    _LANES_LEFT + cell * _CELL_WIDTH,
                    top,
                    cells * _CELL_WIDTH,
                    _LANE_HEIGHT - 2,
                ),
                f"{name}, commits {first:,} - {until:,}: {meaning}",
            )
        cell, first = cell + cells, first + cells * step
