"""Values of the page of a run, for its template.

Draws what lies below the server: places, filesystem, layers, drives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbcheck.judge.item import Status
from dbcheck.judge.result import RunDetail, RunResult
from dbcheck.model.host import Drive, Layer, Volume
from dbcheck.model.layers import kind_of
from dbcheck.model.records import Manifest
from dbcheck.model.verdict import Verdict, format_count
from dbcheck.report.html.runcharts import figures
from dbcheck.report.lossshape import DIAGNOSIS_TITLE, SHAPE_TITLE, list_axes
from dbcheck.report.subject import RunSubject
from dbcheck.report.words import cluster as of_cluster
from dbcheck.report.words import run as words
from dbcheck.report.words.summary import summarize_run
from dbcheck.rows.workload import describe_processes


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a stack, such as a drive; kind: class of style.css."""

    kind: str
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stack:
    """One filesystem, the places on it and the devices below it, from the top down."""

    title: str
    rows: tuple[tuple[Box, ...], ...]


def stacks(manifest: Manifest) -> Iterator[Stack]:
    """Yield the filesystems below the places of each node whose host was asked."""
    for name, node in manifest.nodes.items():
        host = node.host.facts if node.host else None
        for volume in host.volumes if host else ():
            title = f"{host.hostname}: {volume.mount_point}" if host else ""
            if len(manifest.nodes) > 1:
                title = f"{name}, {title}"
            yield Stack(title, tuple(_list_rows(volume)))


def _list_rows(volume: Volume) -> Iterator[tuple[Box, ...]]:
    paths: dict[str, list[str]] = {}
    for place, path in volume.places.items():
        paths.setdefault(path, []).append(place)
    yield tuple(Box("place", ", ".join(n), (path,)) for path, n in paths.items())
    filesystem = f"{volume.filesystem} on {volume.mount_point}"
    yield (Box("filesystem", filesystem, (volume.mount_options,)),)
    drives = {drive.name: drive for drive in volume.drives}
    levels: dict[int, list[Layer]] = {}
    for layer, level in _find_levels(volume).items():
        found = next(one for one in volume.layers if one.name == layer)
        levels.setdefault(level, []).append(found)
    for _, layers in sorted(levels.items()):
        yield tuple(_make_layer_box(each, drives.get(each.name)) for each in layers)
    known = {layer.name for layer in volume.layers}
    if others := [drive for drive in volume.drives if drive.name not in known]:
        yield tuple(
            Box("drive", each.name, tuple(_list_drive_lines(each))) for each in others
        )


def _find_levels(volume: Volume) -> dict[str, int]:
    """Return the depth of each layer below the filesystem, by name; 0 at the top."""
    below = {layer.name: layer.below for layer in volume.layers}
    inner = {name for names in below.values() for name in names}
    levels: dict[str, int] = {}
    row, level = [name for name in below if name not in inner], 0
    while row and level <= len(below):  # a forged stack may go in circles
        levels |= dict.fromkeys(row, level)
        row = [name for each in row for name in below[each] if name in below]
        level += 1
    return {**dict.fromkeys(below, 0), **levels}


def _make_layer_box(layer: Layer, drive: Drive | None) -> Box:
    title = layer.dm_name or layer.name
    lines = [kind_of(layer) or layer.kind]
    if layer.dm_name:
        lines.append(layer.name)
    if layer.write_cache:
        lines.append(f"write cache: {layer.write_cache}")
    if layer.backing_file:
        lines.append(layer.backing_file)
    if drive is None:
        return Box("layer", title, tuple(lines))
    # The drive's own box has its write cache.
    return Box("drive", title, (*lines[:1], *_list_drive_lines(drive)))


def _list_drive_lines(drive: Drive) -> Iterator[str]:
    yield " ".join(filter(None, (drive.model, drive.serial))) or "no model known"
    if drive.write_cache:
        yield f"write cache: {drive.write_cache}"
    if drive.unsafe_shutdowns is not None:
        yield f"unsafe shutdowns before: {drive.unsafe_shutdowns:,}"


SETTING_COLUMNS = ("before", "just before the cut", "after")
_SETTING_COLUMNS_OF_COPY = ("before", "at the end of the load", "on the copy")
_SETTING_COLUMNS_OF_LOSS = ("before", "just before the cut", "where it was restored")
_UNKNOWN_VALUE = "-"


def _name_setting_columns(result: RunResult) -> tuple[str, ...]:
    """Return SETTING_COLUMNS, with the node that each is of if another was read."""
    if result.copy:
        is_after_loss = result.copy.rpo_s is not None
        return _SETTING_COLUMNS_OF_LOSS if is_after_loss else _SETTING_COLUMNS_OF_COPY
    cluster = result.cluster
    if cluster is None or not cluster.is_other_read:
        return SETTING_COLUMNS
    nodes = (cluster.writer, cluster.writer, cluster.read)
    return tuple(
        f"{node}, {when}" for when, node in zip(SETTING_COLUMNS, nodes, strict=True)
    )


def run_values(subject: RunSubject) -> dict[str, Any]:
    """Return the values of templates/run.html."""
    result, detail = subject.result, subject.detail
    caveats = [*words.caveats(result), *([subject.note] if subject.note else [])]
    sections, settings = list(words.sections(result)), list(_list_settings(subject))
    has_cause = bool(caveats or sections or result.diagnosis)
    return {
        "title": f"{result.verdict.value}: {result.server}, run {result.run}",
        "about": (
            f"{'Restore' if result.copy else 'Power-cut'} check of {result.server}",
            f"run {result.run}",
        ),
        "result": result,
        "summary": summarize_run(result),
        "lost": result.verdict is Verdict.FAIL,
        "cause_title": _CAUSE_TITLES[result.verdict] if has_cause else "",
        "caveats": caveats,
        **_list_evidence_values(result),
        "items_of_evidence": words.list_evidence(result),
        "explained": words.explained,
        "limits": list(words.limits(result)),
        "cluster_title": of_cluster.TITLE if result.cluster else "",
        "node_columns": of_cluster.COLUMNS,
        "nodes": list(of_cluster.list_nodes(result)),
        "cluster": [*of_cluster.list_facts(result.cluster)] if result.cluster else [],
        "what": "cut" if result.is_cut else "copy",
        "load_title": "The load up to the cut" if result.is_cut else "The load",
        "figures": list(figures(detail, result.load)) if detail else [],
        "range_columns": words.range_columns(result),
        "right_columns": words.RIGHT_COLUMNS,
        "ranges": words.list_ranges(result),
        "ranges_note": words.ranges_note(result) if result.ranges else "",
        "shape_title": SHAPE_TITLE,
        "diagnosis_title": DIAGNOSIS_TITLE,
        "axes": list(list_axes(result.shape)) if result.shape else [],
        "sections": sections,
        "run": list(words.facts(result)),
        "stacks": list(stacks(detail.manifest)) if detail else [],
        "setting_columns": _name_setting_columns(result),
        "settings": settings,
        "settings_changed": any(setting.changed for setting in settings),
        "steps": subject.steps,
        "recipe": list(_list_recipe(detail)) if detail else [],
    }


_CAUSE_TITLES = {
    Verdict.PASS: "What to look at",
    Verdict.FAIL: "Cause and fix",
    Verdict.INCONCLUSIVE: "Why it does not count",
}


def _list_evidence_values(result: RunResult) -> dict[str, Any]:
    """Return the line on the evidence, and whether something in it is wrong."""
    seen = Counter(item.status for item in result.evidence)
    wrong = seen[Status.CONTRADICTED] or any(
        item.required and item.status in (Status.ABSENT, Status.NOT_OBSERVABLE)
        for item in result.evidence
    )
    counts = (f"{seen[status]} {status.value}" for status in Status if seen[status])
    return {"evidence_open": bool(wrong), "evidence_note": ", ".join(counts)}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    values: in the order of SETTING_COLUMNS.
    comparable: how many of the values, from the first on, are of one node.
    """

    name: str
    values: tuple[str, ...]
    comparable: int

    @property
    def changed(self) -> bool:
        """True if two of the known values of one node differ."""
        return len(set(self.values[: self.comparable]) - {_UNKNOWN_VALUE}) > 1


def _list_settings(subject: RunSubject) -> Iterator[Setting]:
    """Yield the server's version and its settings, those that changed first."""
    detail, load = subject.detail, subject.result.load
    if detail is None:
        return
    before, after = detail.manifest.writer.facts, detail.after.facts
    at_the_cut, cluster = load.settings if load else None, subject.result.cluster
    is_other = subject.result.copy or (cluster and cluster.is_other_read)
    comparable = 2 if is_other else len(SETTING_COLUMNS)
    yield Setting(
        "server",
        (
            f"{before.product} {before.version}",
            _UNKNOWN_VALUE,
            f"{after.product} {after.version}" if after else _UNKNOWN_VALUE,
        ),
        comparable,
    )
    read = (before.settings, at_the_cut or {}, after.settings if after else {})
    names = sorted({name for values in read for name in values})
    found = (
        Setting(name, _list_values_of_setting(name, read), comparable) for name in names
    )
    yield from sorted(found, key=lambda setting: not setting.changed)


def _list_values_of_setting(
    name: str, read: Sequence[Mapping[str, str]]
) -> tuple[str, ...]:
    return tuple(values.get(name, _UNKNOWN_VALUE) for values in read)


def _list_recipe(detail: RunDetail) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of everything that decides the rows of the run."""
    manifest = detail.manifest
    yield "begun", manifest.created
    yield "dbcheck", manifest.dbcheck
    yield "seed, epoch", f"{manifest.seed}, {manifest.epoch}"
    workload = manifest.workload
    sessions = format_count(workload.sessions, "session")
    processes = describe_processes(manifest.processes, workload.cores)
    yield "workload", ", ".join(filter(None, (workload.name, sessions, processes)))
    if workload.payload_bytes:
        sizes = ", ".join(f"{size:,}" for size in workload.payload_bytes)
        yield "bytes of payload", sizes
