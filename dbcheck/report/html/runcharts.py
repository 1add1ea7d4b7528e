"""The charts of one run: its load up to the cut, its losses, its keys near the cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from dbcheck.judge.result import DriveSeries, RunDetail
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
from dbcheck.rows.keymap import Fate, KeyMap, Lane
from dbcheck.rows.timeline import Bin, Timeline

_HEIGHT = 210
_LANE, _LANES_LEFT, _CELL = 11, 74, 6.7
LINES = ("first", "second", "third", "fourth")


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its title.

    legend: class of style.css -> what is drawn so.  note: how to read it.
    """

    title: str
    drawing: Markup
    legend: dict[str, str]
    note: str = ""


def figures(detail: RunDetail) -> Iterator[Figure]:
    """Yield the charts that the run has data for."""
    timeline = detail.timeline
    if timeline is not None:
        end = "the power cut" if timeline.to_the_cut else "the last ack"
        axis = before_the_end(timeline.moments[0].from_s, f"seconds before {end}")
        kept = "acked and kept" if detail.compared else "acked; whether kept, unknown"
        note = ""
        if (oldest_s := timeline.oldest_lost_s) is not None:
            note = f" The oldest lost commit was acked {oldest_s:.3f} s before {end}."
        yield _commits("Commits per second", timeline.moments, axis, kept, note)
        if near := timeline.near:
            title = f"Commits per second in the last {near[0].from_s:g} s"
            closer = before_the_end(near[0].from_s, axis.label)
            yield _commits(title, near, closer, kept)
        if (latency := _latency(timeline, axis)) is not None:
            yield latency
        if detail.drives:
            yield _drives(detail.drives, axis)
    if detail.keys is not None and detail.keys.lanes:
        yield _map(detail.keys)


def _commits(
    title: str, bins: Sequence[Bin], axis: Axis, kept: str, note: str = ""
) -> Figure:
    """Return the rate of the commits; *kept* names those that lost nothing."""
    width_s = bins[0].from_s - bins[0].to_s
    most = max(one.acked for one in bins) / width_s
    lost = sum(one.lost for one in bins)
    about = f"{title}, {most:,.0f} at most; {_lost(lost) if lost else f'all {kept}'}."
    plot = Plot(title, about, axis, linear(most, "commits/s"), _HEIGHT)
    for one in bins:
        when = f"{one.from_s:g} to {one.to_s:g} s before: {one.acked:,} acked"
        if one.acked:
            plot.bar(one.from_s, one.to_s, 0, one.acked / width_s, "kept", when)
        if one.lost:
            text = f"{when}, {one.lost:,} lost"
            plot.bar(one.from_s, one.to_s, 0, one.lost / width_s, "lost", text)
    legend = {"kept": kept}
    if lost:
        legend["lost"] = "acked, then lost"
    note = f"Each bar stands for {width_s:g} s.{note}"
    return Figure(title, plot.drawn(), legend, note)


def _latency(timeline: Timeline, axis: Axis) -> Figure | None:
    found = [(one.p50_ms, one.p99_ms) for one in timeline.moments]
    known = [ms for pair in found for ms in pair if ms is not None and ms > 0]
    if not known:
        return None
    about = f"Time between two acks of a session, {max(known):g} ms at most."
    y = logarithmic(min(known), max(known), "ms")
    plot = Plot("Latency", about, axis, y, _HEIGHT)
    middles = [(one.from_s + one.to_s) / 2 for one in timeline.moments]
    medians, slowest = zip(*found, strict=True)
    plot.line(zip(middles, medians, strict=True), LINES[0])
    plot.line(zip(middles, slowest, strict=True), LINES[1])
    note = (
        "From one ack of a session to its next: the commit's latency and the client's"
        " own time, and the wait for its turn where a rate was set. A time is rounded"
        " up by less than a fifth."
    )
    legend = {f"line {LINES[0]}": "p50", f"line {LINES[1]}": "p99"}
    return Figure("Latency", plot.drawn(), legend, note)


def _drives(series: Sequence[DriveSeries], axis: Axis) -> Figure:
    """Return the chart of each drive's flushes, or its writes without a flush count."""
    shown = series[: len(LINES)]
    legend: dict[str, str] = {}
    lines = []
    for kind, one in zip(LINES, shown, strict=False):
        counted = all(point.flushes_per_s is not None for point in one.points)
        what = "flushes" if counted else "writes (flushes are not counted)"
        name = one.drive if len({each.node for each in series}) == 1 else ""
        legend[f"line {kind}"] = f"{name or f'{one.node} {one.drive}'}: {what}"
        points = [
            (p.before_end_s, p.flushes_per_s if counted else p.writes_per_s)
            for p in one.points
        ]
        lines.append((kind, points))
    most = max((y or 0.0 for _, points in lines for _, y in points), default=0.0)
    about = f"Flushes of the drives below the server, {most:,.0f} per second at most."
    plot = Plot("Drives", about, axis, linear(most, "per second"), _HEIGHT)
    for kind, points in lines:
        plot.line(points, kind)
    note = "Sampled twice a second, up to the last sample before the cut."
    if left := len(series) - len(shown):
        note += f" {left} more drives are in drives.csv."
    return Figure("Flushes that the drives completed", plot.drawn(), legend, note)


_FATES = {
    Fate.KEPT: ("kept", "kept"),
    Fate.LOST: ("lost", "lost"),
    Fate.PARTLY_LOST: ("partly", "some lost"),
    Fate.RECOVERED: ("recovered", "there without an ack (legal)"),
}


def _lost(commits: int) -> str:
    return f"{format_count(commits, 'commit')} {'was' if commits == 1 else 'were'} lost"


def _map(keys: KeyMap) -> Figure:
    """Return a lane for each session; its newest commit is at the right."""
    longest = max(len(lane.fates) for lane in keys.lanes)
    height = len(keys.lanes) * _LANE + 30
    lost = sum(lane.lost for lane in keys.lanes)
    of = format_count(len(keys.lanes), "session")
    about = f"The last commits of {of}; {_lost(lost)}."
    parts: list[Markup] = []
    for number, lane in enumerate(keys.lanes):
        parts += _lane(lane, 6 + number * _LANE, longest, keys.step)
    parts.append(
        Markup('<text class="axis" x="{}" y="{}">{}</text>').format(
            WIDTH / 2, height - 4, "older commits of a session  →  its newest"
        )
    )
    drawing = Markup(
        '<svg class="chart lanes" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        "<title>{}</title>{}</svg>"
    ).format(WIDTH, height, about, "Keys near the cut", Markup("").join(parts))
    seen = {letter for lane in keys.lanes for letter in lane.fates}
    legend = {name: text for fate, (name, text) in _FATES.items() if fate.value in seen}
    one = "one commit" if keys.step == 1 else f"{keys.step:,} commits"
    note = f"A line for each session, a cell for {one}."
    if keys.left_out:
        note += f" {keys.left_out:,} sessions, which lost less, are not shown."
    return Figure("What became of the last commits", drawing, legend, note)


_OTHERS = {PREFLIGHT_SESSION: "preflight", HOUSEKEEPING_SESSION: "housekeeping"}


def _lane(lane: Lane, top: float, longest: int, step: int) -> Iterator[Markup]:
    text = '<text class="tick y" x="{}" y="{}">{}</text>'
    name = _OTHERS.get(lane.session, f"session {lane.session}")
    yield Markup(text).format(_LANES_LEFT - 4, top + 8, name)
    cell = longest - len(lane.fates)
    first = lane.first
    for letter, run in groupby(lane.fates):
        cells = len(list(run))
        fate = Fate(letter)
        if fate in _FATES:
            kind, meaning = _FATES[fate]
            until = first + cells * step - 1
            yield Markup(
                '<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}">'
                "<title>{}</title></rect>"
            ).format(
                *(kind, _LANES_LEFT + cell * _CELL, top, cells * _CELL, _LANE - 2),
                f"{name}, commits {first:,} - {until:,}: {meaning}",
            )
        cell, first = cell + cells, first + cells * step
