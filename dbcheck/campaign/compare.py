"""Two stored runs or campaigns beside each other: configuration, speed and losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypedDict

from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.judging import judge_run
from dbcheck.campaign.totals import COUNTS, result
from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.judge.results import ComparedResult, DifferenceResult, SideResult
from dbcheck.model.cut import PowerScope
from dbcheck.model.host import Volume
from dbcheck.model.records import LoadRecord, Manifest
from dbcheck.model.verdict import Comparison, Statistics, Tally
from dbcheck.ports.witness import LogReader
from dbcheck.runs import RunFolder, reconcile_command
from dbcheck.stored import locked_to_judge


def compared(a: Path, b: Path, reader: LogReader) -> ComparedResult:
    """Return how two folders compare; raise UsageError if one holds neither.

    Each is a run's or a campaign's of one target.  Touches no server.
    """
    if a.resolve() == b.resolve():
        raise UsageError(
            f"{a} cannot be compared with itself",
            id=ErrorId.COMPARED_WITH_ITSELF,
            hint="Give two folders.",
        )
    (first, before), (second, after) = (_side(path, reader) for path in (a, b))
    names = sorted({*before, *after})
    differences = tuple(
        DifferenceResult(name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    )
    rates = first.commits_per_s, second.commits_per_s
    return ComparedResult(
        first,
        second,
        rates[1] / rates[0] if rates[0] and rates[1] else None,
        Comparison(_tally(first.statistics), _tally(second.statistics)).result,
        differences,
        len(names) - len(differences),
    )


def _tally(found: Statistics) -> Tally:
    return Tally(found.losses, found.cuts, found.inconclusive, found.depths)


def _side(path: Path, reader: LogReader) -> tuple[SideResult, Mapping[str, str]]:
    """Return what a folder shows, and how what it is about was configured."""
    if (path / "manifest.json").is_file():
        return _run(RunFolder.open(path), reader)
    if (path / "campaign.json").is_file():
        return _campaign(CampaignFolder.open(path))
    raise UsageError(
        f"{path} cannot be compared: it is not the folder of a run, or of a campaign on"
        " one target",
        id=ErrorId.NOT_A_RESULT_FOLDER,
        hint="Give runs/RUN_ID or campaigns/CAMPAIGN; of a campaign on several targets"
        " the folder of one of them.",
    )


def _run(run: RunFolder, reader: LogReader) -> tuple[SideResult, Mapping[str, str]]:
    with locked_to_judge(run.path):
        kept = run.lacks_survivors()
        found = run.result() if kept else judge_run(run, reader).result
    if found.control:
        raise UsageError(
            f"{run.path} is a control, which says nothing about its server",
            id=ErrorId.CONTROL_NOT_COMPARABLE,
            hint="Compare runs of the server as it is.",
        )
    if not found.final:
        raise UsageError(
            f"{run.path} has no final verdict: {found.reasons[0]}",
            id=ErrorId.NO_FINAL_VERDICT,
            hint=f"Once the server is back: {reconcile_command(run.path)}",
        )
    lost = found.rows_lost
    depth = found.shown_depth.value if found.shown_depth else ""
    side = SideResult(
        folder=str(run.path),
        target=found.target,
        server=found.server,
        verdict=found.verdict,
        confirmed=found.confirmed,
        lost=None if lost is None else sum(lost),
        statistics=found.statistics or Tally.of([(found.verdict, depth)]).statistics,
        **_figures([found.load] if found.load else []),
    )
    return side, configuration(run.manifest())


def _campaign(folder: CampaignFolder) -> tuple[SideResult, Mapping[str, str]]:
    shown = result(folder)
    counted = [c for c in folder.cycles() if c.number and c.verdict in COUNTS and c.run]
    runs = [
        RunFolder.open(path)
        for cycle in counted
        if ((path := folder.runs / cycle.run) / "manifest.json").is_file()
    ]
    if not runs:
        raise UsageError(
            f"{folder.path} has no cycle that counts: there is nothing to compare",
            id=ErrorId.NO_CYCLE_COUNTS,
            hint=f"dbcheck report {folder.path} shows why.",
        )
    newest = runs[-1].manifest()
    facts = newest.writer.facts
    side = SideResult(
        folder=str(folder.path),
        target=shown.name,
        server=f"{facts.product} {facts.version}",
        verdict=shown.verdict,
        confirmed=shown.confirmed,
        lost=None if shown.rows_lost is None else sum(shown.rows_lost),
        statistics=shown.statistics,
        **_figures([load for run in runs if (load := run.load())]),
    )
    return side, configuration(newest)


class _Figures(TypedDict):
    """Of SideResult, what comes from the records of loads."""

    runs: int
    commits_per_s: float | None
    slowest_per_s: float | None
    fastest_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None


def _figures(loads: Sequence[LoadRecord]) -> _Figures:
    rates = [load.rate for load in loads]
    p50, p99 = (
        [load.latency_ms[name] for load in loads if name in load.latency_ms]
        for name in ("p50", "p99")
    )
    return _Figures(
        runs=len(loads),
        commits_per_s=median(rates) if rates else None,
        slowest_per_s=min(rates, default=None),
        fastest_per_s=max(rates, default=None),
        p50_ms=median(p50) if p50 else None,
        p99_ms=median(p99) if p99 else None,
    )


def configuration(manifest: Manifest) -> dict[str, str]:
    """Return name -> value of what a run's server, storage and load were set to."""
    writer = manifest.writer
    found = {"server": f"{writer.facts.product} {writer.facts.version}"}
    found |= writer.facts.settings
    found |= {"power": writer.power.value, "class of the cut": writer.cut_class.value}
    if writer.scope is PowerScope.DRIVE:
        found["what loses its power"] = "the drives alone"
    for volume in writer.host.facts.volumes if writer.host else ():
        found |= _storage(volume)
    workload = manifest.workload
    found |= {
        "workload": workload.name,
        "sessions": str(workload.sessions),
        "payload bytes": ", ".join(map(str, workload.payload_bytes)) or "fixed",
        "rate": f"{workload.rate:g}/s" if workload.rate else "as fast as it can",
        "readers": str(workload.readers),
        "rows before": str(workload.rows_before),
    }
    return found | dict(_lab(manifest.lab))


def _storage(volume: Volume) -> dict[str, str]:
    places = ", ".join(sorted(volume.places))
    drives = (
        " ".join(filter(None, (d.model, d.firmware, f"({d.write_cache})")))
        for d in volume.drives
    )
    return {
        f"filesystem of {places}": f"{volume.filesystem} {volume.mount_options}",
        f"drives of {places}": ", ".join(drives),
    }


_OF_EACH_LAB = ("seed",)


def _lab(spec: Mapping[str, Any], prefix: str = "lab") -> Iterator[tuple[str, str]]:
    for name, value in spec.items():
        if isinstance(value, Mapping):
            yield from _lab(value, f"{prefix} {name}")
        elif name not in _OF_EACH_LAB:
            yield f"{prefix} {name}", str(value)
