"""Probes of a server and of the host that it runs on: nothing is cut."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from contextlib import closing

from dbcheck.audit.stack import is_drive_volatile
from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.own_data import read_own_facts
from dbcheck.load.sessions import commit
from dbcheck.model.flushes import Sample
from dbcheck.model.host import Readings, TargetFacts, Volume
from dbcheck.model.places import LOGS
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.host import Counting, TargetHost
from dbcheck.probe.flushes import DevicePath, Windows
from dbcheck.probe.flushes_result import FlushesResult, VolumeResult
from dbcheck.rows.acks import PREFLIGHT_SESSION
from dbcheck.rows.operation import Usage, list_verbs_by_table
from dbcheck.rows.plans.plan import InsertPlan
from dbcheck.rows.schedule import EPOCH_MAX, Schedule

PAYLOAD_BYTES = 128
WARM_COMMITS = 8  # not counted: the first ones extend files and fill caches
FILE_WRITES = 100
WAIT_MIN, WAIT_MAX = 1.0, 4.0  # of an idle window, in times of the commit before it


def probe_flushes(
    engine: Engine, host: TargetHost, commits: int, seed: int, name: str
) -> FlushesResult:
    """Commit rows one by one, and count what the drives below the log do meanwhile.

    seed: decides the rows and how long the session waits between them.  Raise
    EngineError, HostError.  The rows stay in the ledger, as those of a run do.
    """
    server = engine.facts()
    plan = InsertPlan(Schedule(seed, random.randrange(1, EPOCH_MAX), (PAYLOAD_BYTES,)))
    engine.require_rights(Usage(list_verbs_by_table(plan.statements)), asks_host=True)
    engine.require_alone()
    engine.check(plan.statements, PAYLOAD_BYTES)
    facts = read_server_facts(engine, host, server)
    logs = find_log_volumes(facts)
    readings = host.readings(logs)
    devices = _list_devices(logs)
    engine.prepare(plan.tables, server=server)
    with closing(host.counting(devices)) as counters:
        samples, took_us, read_us = _commit_and_sample(
            engine, server, plan, counters, commits, seed
        )
    seen = Windows.of(samples)
    found = []
    for volume in logs:
        names = list_logs_on(volume)
        folder = volume.places[names[0]]
        file = Windows.of(host.file_windows(folder, devices, FILE_WRITES))
        path = DevicePath(volume, _read_caches(volume, readings))
        found.append(VolumeResult.of(path, seen, file, names, server.settings))
    return FlushesResult(
        name=name,
        target=engine.target,
        server=f"{server.product} {server.version}",
        host=facts.hostname,
        commits=len(seen.busy),
        idle=len(seen.idle),
        commit_us=round(statistics.median(took_us)),
        count_us=round(statistics.median(read_us)),
        volumes=tuple(found),
        unread=find_unread_logs(facts),
    )


def read_server_facts(
    engine: Engine, host: TargetHost, server: ServerFacts | None = None
) -> TargetFacts:
    """Read the storage of a server's directories; raise EngineError, HostError."""
    server = server or engine.facts()
    return read_own_facts(host, server, engine.places(InsertPlan.tables))


def find_log_volumes(facts: TargetFacts) -> list[Volume]:
    """Return the volumes that hold a log; raise HostError if none is known."""
    found = [volume for volume in facts.volumes if list_logs_on(volume)]
    if found:
        return found
    unread = (f"{name}: {why}" for name, why in find_unread_logs(facts).items())
    raise HostError(
        f"what the server's log lies on is not known: {'; '.join(unread)}",
        id=ErrorId.LOG_VOLUME_UNKNOWN,
        hint="Log in at the host as root or as the server's own account.",
    )


def find_unread_logs(facts: TargetFacts) -> dict[str, str]:
    """Return why a log, or some files of one, cannot be probed, by name.

    A file that lies on another filesystem than its directory is not probed: nothing can
    be written beside it.
    """
    away = {
        name: f"{path} lies on another filesystem than the directory of the log"
        for volume in facts.volumes
        for name, path in volume.places.items()
        if name not in LOGS
    }
    found = away | dict(facts.unseen)
    return {name: why for name, why in found.items() if name.startswith(LOGS)}


def list_logs_on(volume: Volume) -> list[str]:
    """Return the names of the logs that lie on a volume."""
    return [name for name in volume.places if name in LOGS]


def _list_devices(volumes: Sequence[Volume]) -> list[str]:
    """Return the block devices below *volumes*, each once."""
    names = [layer.name for volume in volumes for layer in volume.layers]
    names += [drive.name for volume in volumes for drive in volume.drives]
    return list(dict.fromkeys(names))


def _read_caches(volume: Volume, readings: Readings) -> dict[str, bool | None]:
    by_name = {layer.name: layer for layer in volume.layers}
    return {
        drive.name: is_drive_volatile(drive, by_name.get(drive.name), readings)
        for drive in volume.drives
    }


def _commit_and_sample(
    engine: Engine,
    server: ServerFacts,
    plan: InsertPlan,
    counters: Counting,
    commits: int,
    seed: int,
) -> tuple[list[Sample], list[float], list[float]]:
    """Commit over one session; return the samples, how long each commit took and how
    long it took to read the counters after it, microseconds."""
    draw = random.Random(seed)
    took_us, read_us = [], []
    with closing(engine.open_session(plan.statements, server=server)) as session:
        for seq in range(1, WARM_COMMITS + 1):
            commit(session, plan.operation(PREFLIGHT_SESSION, seq))
        samples = [counters.read()]
        for seq in range(WARM_COMMITS + 1, WARM_COMMITS + commits + 1):
            interrupt.raise_if_interrupted()
            begun = time.monotonic()
            commit(session, plan.operation(PREFLIGHT_SESSION, seq))
            answered = time.monotonic()
            samples.append(counters.read())
            counted = time.monotonic()
            took_us.append((answered - begun) * 1e6)
            read_us.append((counted - answered) * 1e6)
            time.sleep((counted - begun) * draw.uniform(WAIT_MIN, WAIT_MAX))
            samples.append(counters.read())
    return samples, took_us, read_us
