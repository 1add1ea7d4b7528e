"""Compares stored runs and campaigns, and groups targets that are configured alike."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypedDict

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.setting import list_settings
from dbcheck.campaign.folder import CampaignFolder, resume_command
from dbcheck.campaign.totals import make_result
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.results import (
    CampaignResult,
    ComparedResult,
    DifferenceResult,
    GroupResult,
    SideResult,
)
from dbcheck.model.cut import PowerScope
from dbcheck.model.host import Volume
from dbcheck.model.records import LoadRecord, Manifest
from dbcheck.model.verdict import Comparison, Statistics, Tally, withhold_bound
from dbcheck.ports.witness import LogReader
from dbcheck.rows.workload import Workload
from dbcheck.runs.folder import RunFolder, reconcile_command
from dbcheck.runs.stored import lock_folder_to_judge

_OF_EACH_LAB = ("seed",)


class Role(enum.IntEnum):
    """Role of a configured value in a comparison.

    OF_THE_CUT: cuts that differ in it cannot be compared by their losses.
    OF_THE_TEST: of the load or the switch, not of the server and its storage.
    """

    OTHER = 0
    SERVER = 1
    DRIVES = 2
    OF_THE_CUT = 3
    OF_THE_TEST = 4

    @property
    def is_of_server(self) -> bool:
        """True unless it is chosen anew for each test of the same server."""
        return self not in (Role.OF_THE_CUT, Role.OF_THE_TEST)


class Key(NamedTuple):
    """Name of a configured value, as reports show it, and its role."""

    name: str
    role: Role = Role.OTHER


_SERVER = Key("server", Role.SERVER)
Configuration = Mapping[Key, str]


def compare_folders(a: Path, b: Path, reader: LogReader) -> ComparedResult:
    """Compare two folders; raise UsageError if one holds neither.

    Each is a run's or a campaign's of one target.  Touches no server.
    """
    if a.resolve() == b.resolve():
        raise UsageError(
            f"{a} cannot be compared with itself",
            id=ErrorId.COMPARED_WITH_ITSELF,
            hint="Give two folders.",
        )
    (first, before), (second, after) = (_read_side(path, reader) for path in (a, b))
    differences, same = list_changes(before, after)
    rates = first.commits_per_s, second.commits_per_s
    return ComparedResult(
        first,
        second,
        rates[1] / rates[0] if rates[0] and rates[1] else None,
        Comparison(
            _make_tally(first.statistics), _make_tally(second.statistics)
        ).result,
        differences,
        same,
    )


def list_changes(
    before: Configuration, after: Configuration
) -> tuple[tuple[DifferenceResult, ...], int]:
    """Return what differs between two configurations, and how many values do not."""
    keys = sorted({*before, *after})
    differences = tuple(
        DifferenceResult(
            key.name, before.get(key), after.get(key), key.role is Role.OF_THE_CUT
        )
        for key in keys
        if before.get(key) != after.get(key)
    )
    return differences, len(keys) - len(differences)


def _make_tally(statistics: Statistics) -> Tally:
    return Tally(
        statistics.losses, statistics.cuts, statistics.inconclusive, statistics.depths
    )


def _read_side(path: Path, reader: LogReader) -> tuple[SideResult, Configuration]:
    """Return the result in a folder, and the configuration of its subject."""
    if (path / "manifest.json").is_file():
        return _read_run(RunFolder.open(path), reader)
    if (path / "campaign.json").is_file():
        return _read_campaign(CampaignFolder.open(path))
    raise UsageError(
        f"{path} cannot be compared: it is not the folder of a run, or of a campaign on"
        " one target",
        id=ErrorId.NOT_A_RESULT_FOLDER,
        hint="Give runs/RUN_ID or campaigns/CAMPAIGN; of a campaign on several targets"
        " the folder of one of them.",
    )


def _read_run(run: RunFolder, reader: LogReader) -> tuple[SideResult, Configuration]:
    with lock_folder_to_judge(run.path):
        records = run.read()
        has_no_rows = run.lacks_survivors(records.after)
        result = run.result() if has_no_rows else judge_run(run, reader).result
    if result.control:
        raise UsageError(
            f"{run.path} is a control, which says nothing about its server",
            id=ErrorId.CONTROL_NOT_COMPARABLE,
            hint="Compare runs of the server as it is.",
        )
    if not result.final:
        raise UsageError(
            f"{run.path} has no final verdict: {result.reasons[0]}",
            id=ErrorId.NO_FINAL_VERDICT,
            hint=f"Once the server is back: {reconcile_command(run.path)}",
        )
    lost = result.rows_lost
    depth = result.shown_depth.value if result.shown_depth else ""
    side = SideResult(
        folder=str(run.path),
        target=result.target,
        server=result.server,
        verdict=result.verdict,
        confirmed=result.confirmed,
        lost=None if lost is None else sum(lost),
        statistics=result.statistics or Tally.of([(result.verdict, depth)]).statistics,
        **_summarize_loads([result.load] if result.load else []),
    )
    promise = records.manifest.promise
    names = [promise.value] if promise else []
    return side, _add_promises(list_configuration(records.manifest), names)


def _add_promises(configuration: Configuration, names: Iterable[str]) -> Configuration:
    """Return *configuration* with the promises that the cuts tested, if any."""
    if not (listed := ", ".join(sorted(names))):
        return configuration
    return {**configuration, Key("promise", Role.OF_THE_CUT): listed}


def _read_campaign(folder: CampaignFolder) -> tuple[SideResult, Configuration]:
    result = make_result(folder)
    if result.unjudged:
        raise UsageError(
            f"{folder.path} cannot be compared: run {result.unjudged[0]} was cut, or"
            " may have been, and is not judged",
            id=ErrorId.NO_FINAL_VERDICT,
            hint=f"Judge it: {resume_command(folder.path)}",
        )
    judged = [c for c in folder.cycles() if c.is_judged and c.run]
    runs = [
        RunFolder.open(path)
        for cycle in judged
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
        target=result.name,
        server=f"{facts.product} {facts.version}",
        verdict=result.verdict,
        confirmed=result.confirmed,
        lost=None if result.rows_lost is None else sum(result.rows_lost),
        statistics=result.statistics,
        **_summarize_loads([load for run in runs if (load := run.load())]),
    )
    names = {cycle.promise for cycle in judged if cycle.promise}
    return side, _add_promises(list_configuration(newest), names)


class _Figures(TypedDict):
    """The fields of SideResult that come from the records of loads."""

    runs: int
    commits_per_s: float | None
    slowest_per_s: float | None
    fastest_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None


def _summarize_loads(loads: Sequence[LoadRecord]) -> _Figures:
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


def list_configuration(manifest: Manifest) -> dict[Key, str]:
    """Return the values of the settings of a run's server, storage and load."""
    writer = manifest.writer
    configuration = {_SERVER: f"{writer.facts.product} {writer.facts.version}"}
    configuration |= {Key(name): v for name, v in writer.facts.settings.items()}
    configuration |= {
        Key("power", Role.OF_THE_TEST): writer.power.value,
        Key("class of the cut", Role.OF_THE_CUT): writer.cut_class.value,
    }
    if writer.scope is PowerScope.DRIVE:
        key = Key("what loses its power", Role.OF_THE_CUT)
        configuration[key] = "the drives alone"
    for volume in writer.host.facts.volumes if writer.host else ():
        configuration |= _list_storage(volume)
    workload = manifest.workload
    configuration[Key("workload", Role.OF_THE_TEST)] = workload.name
    for name, setting in list_settings(Workload).items():
        key = Key(setting.title, Role.OF_THE_TEST)
        configuration[key] = setting.shown(getattr(workload, name))
    return configuration | dict(_list_lab_settings(manifest.lab))


def _list_storage(volume: Volume) -> dict[Key, str]:
    places = ", ".join(sorted(volume.places))
    drives = (
        " ".join(
            filter(None, (d.model or "unknown model", d.firmware, f"({d.write_cache})"))
        )
        for d in volume.drives
    )
    return {
        Key(f"filesystem of {places}"): f"{volume.filesystem} {volume.mount_options}",
        Key(f"drives of {places}", Role.DRIVES): ", ".join(drives),
    }


def _list_lab_settings(
    spec: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[Key, str]]:
    """Yield the fields of a lab's spec; prefix: the path of fields to it."""
    for name, value in spec.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _list_lab_settings(value, f"{path} ")
        elif name not in _OF_EACH_LAB:
            role = Role.OF_THE_CUT if path == "cut" else Role.OTHER
            yield Key(f"lab {path}", role), str(value)


def group_targets(results: Sequence[CampaignResult]) -> tuple[GroupResult, ...]:
    """Return the groups of targets that are configured alike, those with losses first.

    The server, settings, filesystems, drives (model, firmware, write cache), class of
    cuts and load of the targets of a group are the same.  A target without a stored run
    is in no group.  () if fewer than two targets have one.
    """
    alike: dict[tuple[tuple[Key, str], ...], list[CampaignResult]] = {}
    for each in results:
        if found := _read_configuration(each):
            alike.setdefault(tuple(sorted(found.items())), []).append(each)
    if sum(map(len, alike.values())) < 2:
        return ()
    all_found = [dict(items) for items in alike]
    made = [
        _make_group(one, members, all_found)
        for one, members in zip(all_found, alike.values(), strict=True)
    ]
    return tuple(sorted(made, key=_rank_losses))


def _rank_losses(group: GroupResult) -> tuple[bool, int, tuple[str, ...]]:
    return (not group.losing, -group.statistics.losses, group.targets)


def _read_configuration(result: CampaignResult) -> Configuration:
    """Return a target's configuration in its newest stored run, {} without one."""
    folder = CampaignFolder.open(Path(result.folder))
    run_ids = [cycle.run for cycle in result.cycles if cycle.run]
    for run in reversed(run_ids):
        if (folder.runs / run / "manifest.json").is_file():
            manifest = RunFolder.open(folder.runs / run).manifest()
            names = {cycle.promise for cycle in result.cycles if cycle.promise}
            return _add_promises(list_configuration(manifest), names)
    return {}


def _find_differences(
    configuration: Configuration, others: Sequence[Configuration]
) -> dict[str, str]:
    """Return the settings of *configuration* that have another value in *others*."""
    return {
        key.name: value
        for key, value in sorted(configuration.items())
        if any(key in other and other[key] != value for other in others)
    }


def _sum_up(members: Sequence[CampaignResult]) -> Statistics:
    together = Tally.together(member.statistics for member in members).statistics
    if any(member.may_lack_loss for member in members):
        return withhold_bound(together, "a run that was cut is not judged")
    if any(member.promises for member in members):
        return withhold_bound(together, "each promise has one of its own")
    return together


def _make_group(
    configuration: Configuration,
    members: Sequence[CampaignResult],
    others: Sequence[Configuration],
) -> GroupResult:
    drives = (text for key, text in configuration.items() if key.role is Role.DRIVES)
    return GroupResult(
        targets=tuple(member.name for member in members),
        server=configuration[_SERVER],
        drives=tuple(dict.fromkeys(filter(None, drives))),
        apart=_find_differences(configuration, others),
        losing=tuple(m.name for m in members if m.has_losses),
        statistics=_sum_up(members),
    )
