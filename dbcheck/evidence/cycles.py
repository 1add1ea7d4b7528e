"""Compares what a campaign says of its cycles with what their runs show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.judge.result import RunResult
from dbcheck.model.records import Manifest
from dbcheck.model.server import difference
from dbcheck.model.verdict import CycleVerdict
from dbcheck.runs.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Shown:
    """What a run of the bundle shows."""

    run: RunFolder
    result: RunResult


def unlike(
    folder: CampaignFolder, shown: Mapping[str, Shown], *, words: bool
) -> Iterator[str]:
    """Yield what is not as it must be in a campaign whose runs were judged again.

    shown: by the run's id.  words: sentences are compared as well.
    """
    cycles = folder.cycles()
    yield from _numbers(cycles)
    named = Counter(cycle.run for cycle in cycles if cycle.run)
    for run, times in named.items():
        if times > 1:
            yield f"run {run} is counted {times} times"
    for run in shown:
        if run not in named:
            yield f"run {run} is in no cycle, so it is not counted"
    for cycle in cycles:
        if cycle.run in shown:
            yield from _of_cycle(cycle, shown[cycle.run], words=words)
        elif cycle.verdict is not CycleVerdict.ERROR:
            yield f"{_name(cycle)}: its run {cycle.run or ''} is not in the bundle"
    yield from _of_one_target(folder, shown)
    lines = folder.path / "cycles.jsonl"
    before = lines.read_bytes() if lines.is_file() else None
    folder.write_lines()
    if lines.read_bytes() != before:
        yield "cycles.jsonl is not what the cycles show"


def _name(cycle: Cycle) -> str:
    return f"cycle {cycle.number}" if cycle.number else f"control {cycle.run}"


def _numbers(cycles: Sequence[Cycle]) -> Iterator[str]:
    """Yield if a cycle is missing, or counted twice: they are numbered from 1."""
    numbers = [cycle.number for cycle in cycles if cycle.number]
    if numbers != list(range(1, len(numbers) + 1)):
        wanted = set(range(1, max(numbers, default=0) + 1))
        lacking = sorted(wanted - set(numbers))
        what = f"lacks cycle {lacking[0]}" if lacking else "counts a cycle twice"
        yield f"the campaign {what}"


def _of_cycle(cycle: Cycle, shown: Shown, *, words: bool) -> Iterator[str]:
    """Yield how the record of a cycle differs from its run."""
    for name, was, found in _pairs(cycle, shown, words=words):
        if was != found:
            yield f"{_name(cycle)}: {name} {was}, and its run shows {found}"


def _pairs(
    cycle: Cycle, shown: Shown, *, words: bool
) -> Iterator[tuple[str, Any, Any]]:
    result, manifest = shown.result, shown.run.manifest()
    own, earlier = result.rows_lost or (None, None)
    found = result.confirmed is not None
    seen, load, chores = result.seen, result.load, result.housekeeping
    at_cut = chores.at_cut if chores else None
    yield "number", cycle.number, manifest.moment.number if manifest.moment else 0
    yield "verdict", cycle.verdict.value, result.verdict.value
    yield "depth", cycle.depth, result.shown_depth.value if result.shown_depth else ""
    yield "class of the cut", cycle.cut_class, manifest.writer.cut_class.value
    yield "commits", cycle.confirmed, result.confirmed
    yield "lost rows", cycle.lost, own if found else None
    yield "lost rows of earlier cycles", cycle.earlier_lost, earlier if found else None
    yield "acks/s", cycle.acks_per_s, load.rate if load else None
    yield "chore", cycle.window, at_cut.value if at_cut else ""
    yield "rows seen", cycle.seen, seen.rows if seen else None
    yield "rows seen and lost", cycle.seen_lost, seen.lost if seen else None
    yield "failed recovery", cycle.gone, bool(shown.run.after().failure)
    yield "control", cycle.control is not None, manifest.control
    if words:
        yield "reason", cycle.reason, result.reasons[0]
        yield "settings at fault", cycle.at_fault, result.settings_at_fault


def _of_one_target(folder: CampaignFolder, shown: Mapping[str, Shown]) -> Iterator[str]:
    """Yield which runs are not of the campaign's target, or of other servers."""
    plan, known = folder.plan(), folder.known()
    if known.run and known.run not in shown:
        yield f"run {known.run}, the last whose rows were read, is not in the bundle"
    for run, one in shown.items():
        manifest = one.run.manifest()
        if manifest.writer.target != plan.target:
            yield (
                f"run {run} is of the target {manifest.writer.target}, and the campaign"
                f" of {plan.target}"
            )
        if why := difference(known.identity, _identity(manifest)):
            yield f"run {run} is of another server than the campaign: {why}"


def _identity(manifest: Manifest) -> Mapping[str, str]:
    return manifest.writer.facts.identity
