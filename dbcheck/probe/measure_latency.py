"""Times durable writes on a host, and remembers how long they took."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dbcheck.base import interrupt
from dbcheck.base.errors import RunFormatError
from dbcheck.model.flushes import Shape, Timed
from dbcheck.model.host import Readings, TargetFacts, Volume
from dbcheck.model.places import DATA
from dbcheck.ports.engine import Engine
from dbcheck.ports.host import TargetHost
from dbcheck.probe.latency import (
    MAIN,
    Earlier,
    FileioResult,
    FolderResult,
    LatencyResult,
    TimingResult,
    give_advice,
    make_histogram,
)
from dbcheck.probe.measure_flushes import (
    find_log_volumes,
    find_unread_logs,
    list_logs_on,
    read_server_facts,
)
from dbcheck.runs import stored
from dbcheck.runs.stored import state_folder

SHAPE_TIME_S = 2.0  # for the writes of one shape
FILEIO_TIME_S = 2  # for the random writes of one number of threads
THREADS_AT_ONCE = (1, 4, 16)
PROBES_KEPT = 50  # most probes of one filesystem that are remembered


@dataclass(frozen=True, slots=True)
class Effort:
    """Kinds of writes to time, and the largest number of each.

    has_fileio: random writes of several threads are timed too.
    created: now, ISO 8601.
    """

    shapes: Sequence[Shape]
    count: int
    created: str
    has_fileio: bool = False


def probe_server(
    engine: Engine, host: TargetHost, effort: Effort, name: str, *, everywhere: bool
) -> LatencyResult:
    """Time writes in one directory of each filesystem that a server's logs lie on.

    everywhere: on each filesystem of the server.  Raise EngineError, HostError,
    RunWriteError.
    """
    facts = read_server_facts(engine, host)
    found = []
    for volume in facts.volumes if everywhere else find_log_volumes(facts):
        places = list_logs_on(volume) or list(volume.places)
        folder = volume.places[places[0]]
        found.append(_time_folder(host, facts, volume, folder, places, effort))
    unread = facts.unseen if everywhere else find_unread_logs(facts)
    return LatencyResult(
        name, engine.target, facts.hostname, tuple(found), unread=unread
    )


def probe_folder(
    folder: str, host: TargetHost, effort: Effort, name: str
) -> LatencyResult:
    """Time writes in a directory of a host; raise HostError, RunWriteError."""
    facts = host.facts(folder)
    path = facts.data.places[DATA]
    found = _time_folder(host, facts, facts.data, path, (), effort)
    return LatencyResult(name, "", facts.hostname, (found,))


def _time_folder(
    host: TargetHost,
    facts: TargetFacts,
    volume: Volume,
    folder: str,
    places: Sequence[str],
    effort: Effort,
) -> FolderResult:
    """Time writes in *folder*, where a server keeps *places*; it is on *volume*."""
    drives = [drive.name for drive in volume.drives]
    found: list[tuple[Shape, Timed]] = []
    for shape in effort.shapes:
        interrupt.raise_if_interrupted()
        timed = host.time_writes(folder, shape, drives, effort.count, SHAPE_TIME_S)
        found.append((shape, timed))
    main = next((t for shape, t in found if shape == MAIN and t.took_ns), None)
    result = FolderResult(
        places=tuple(places),
        folder=folder,
        mount_point=volume.mount_point,
        filesystem=volume.filesystem,
        drives=tuple(drives),
        timings=tuple(TimingResult.of(shape, t, drives) for shape, t in found),
        histogram=tuple(make_histogram(main.took_ns)) if main else (),
        fileio=_run_fio(host, folder) if effort.has_fileio else (),
        advice="",
        earlier=(),
    )
    spread = result.main
    if spread is None:
        return result
    rotational = _are_all_rotational(volume, host.readings([volume]))
    now = Earlier(effort.created, spread.p50_us, spread.p99_us)
    earlier = _remember_probe(facts, volume, now)
    text = give_advice(spread.p50_us, rotational)
    return replace(result, advice=text, earlier=earlier)


def _run_fio(host: TargetHost, folder: str) -> tuple[FileioResult, ...]:
    found = []
    for flushed in (True, False):
        for at_once in THREADS_AT_ONCE:
            interrupt.raise_if_interrupted()
            text, why = host.fileio(
                folder, at_once, flushed=flushed, time_s=FILEIO_TIME_S
            )
            found.append(FileioResult.of(at_once, flushed, text, why))
    return tuple(found)


def _are_all_rotational(volume: Volume, readings: Readings) -> bool | None:
    """Return True if all drives rotate, None if that is not known.

    What the kernel says of a disk that a hypervisor or a network provides, or of a loop
    device, is a default of its driver.
    """
    layers = {layer.name: layer for layer in volume.layers}
    found = set()
    for drive in volume.drives:
        layer = layers.get(drive.name)
        if layer is None or layer.foreign or layer.kind != "disk":
            return None
        found.add(readings.text(drive.name, "queue/rotational"))
    return found == {"1"} if found and "" not in found else None


# --------------------------------------------------------------- earlier probes


@dataclass(frozen=True, slots=True)
class _History:
    """The probes of one filesystem, the newest last."""

    probes: tuple[Earlier, ...]


def _remember_probe(
    facts: TargetFacts, volume: Volume, now: Earlier
) -> tuple[Earlier, ...]:
    """Add a probe to the probes of its filesystem; return the earlier probes."""
    filesystem_key = "\0".join(
        (facts.machine_id or facts.hostname, *_identify_filesystem(volume))
    )
    name = hashlib.sha256(filesystem_key.encode()).hexdigest()[:32]
    path = state_folder("probes") / f"{name}.json"
    before = _read_earlier(path)
    history = _History((*before, now)[-PROBES_KEPT:])
    stored.make_folder(path.parent)
    stored.write_file(path, [stored.to_bytes(history)])
    return before


def _identify_filesystem(volume: Volume) -> tuple[str, str]:
    return (volume.filesystem_uuid or volume.source, volume.mount_point)


def _read_earlier(path: Path) -> tuple[Earlier, ...]:
    """Return the earlier probes, () if there is nothing that can be read."""
    try:
        with stored.open_private(path, "rb") as file:
            return stored.from_bytes(file.read(), _History, str(path)).probes
    except (OSError, RunFormatError):
        return ()
