"""A small run and a campaign as dbcheck stores them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.config.workload_file import load
from dbcheck.model.cluster import ONLY_NODE, SiteKind
from dbcheck.model.cut import Cut, Gone, SwitchKind
from dbcheck.model.depth import Completed, Counted, Remains, Ring
from dbcheck.model.host import (
    Drive,
    HostAfter,
    HostBefore,
    Layer,
    LogTail,
    VolumeCanaries,
)
from dbcheck.model.moments import Activity, PlannedCut
from dbcheck.model.places import Place
from dbcheck.model.records import (
    LoadRecord,
    Manifest,
    NodeAtTheCut,
    NodeBefore,
    RestoreRecord,
)
from dbcheck.model.server import LogPosition, ServerFacts
from dbcheck.model.verdict import ControlFacts, ControlOutcome, CycleVerdict
from dbcheck.model.witness import WindowFacts
from dbcheck.rows.acks import Ack
from dbcheck.rows.table import LEDGER, TableFacts
from dbcheck.runs.folder import RunFolder
from tests.kit.client_clocks import LATER, LOADED
from tests.kit.cycles import record, records_of
from tests.kit.host_samples import FACTS as HOST
from tests.kit.host_samples import VOLUME
from tests.kit.memory import scratch
from tests.kit.nodes import after_of, one
from tests.kit.witness_logs import LogMaker

RUN = "20260102-030405-a1b2c3"
EPOCH, EARLIER = 77, 7
ACKS = {1: 5, 2: 3}
_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "zero_damaged_pages": "off",
    "ignore_checksum_failure": "off",
}
_LAYER = Layer("sda", "disk", "", "", "", "write back", "0", ())
_DRIVE = Drive("sda", "m", "s", "w", "write back", 7, 9)
_VOLUME = replace(VOLUME, layers=(_LAYER,), drives=(_DRIVE,))
_WAL = replace(_VOLUME, places={"WAL": "/wal"})
_BEFORE = replace(HOST, volumes=(_VOLUME, _WAL))
_COUNTED = (replace(_DRIVE, unsafe_shutdowns=8, power_cycles=10),)
_AFTER = replace(
    _BEFORE, boot_id="b2", volumes=(replace(_VOLUME, drives=_COUNTED), _WAL)
)
_ELSEWHERE = (VolumeCanaries("/wal/c", "n"),)
_SERVER = ServerFacts(
    "PostgreSQL", "15.1", {"system_identifier": "1"}, 5, 0, 9, _SETTINGS
)
_CRASHED = "LOG:  database system was interrupted; last known up at 2026-01-01\n"


def acks_of(session: int) -> list[Ack]:
    return [
        Ack(session, n, 1000 * session + n, 10**6 + 100 * n)
        for n in range(1, ACKS[session] + 1)
    ]


def makers(run_id: str = RUN) -> list[LogMaker]:
    """Return the run's two logs, each with one session."""
    logs = [LogMaker(run_id, number) for number in range(2)]
    for session, log in enumerate(logs, 1):
        log.add_acks(acks_of(session)[:2])
        log.add_event({"cut": session})
        log.add_acks(acks_of(session)[2:])
    return logs


def _node() -> NodeBefore:
    return NodeBefore(
        "postgresql://u@h/d",
        _SERVER,
        SwitchKind.EXEC,
        HostBefore(_BEFORE, "/c", "n", "/log", {"/log": (1, 2)}, _ELSEWHERE),
        (Place("data", "/d"), Place("WAL", "/wal")),
    )


def manifest() -> Manifest:
    return Manifest(
        run_id=RUN,
        created="2026-01-02T03:04:05+00:00",
        dbcheck="0",
        seed=1,
        epoch=EPOCH,
        family="postgresql",
        site=SiteKind.SINGLE,
        nodes=one(_node()),
        writer_name=ONLY_NODE,
        workload=load("insert"),
        witness="ssh://w/folder",
        witness_kind="ssh",
        window_acks=10,
        clock_us=3,
        wall_us=1_700_000_000_000_000,
        tables={LEDGER.name: TableFacts({EARLIER: 1}, 9, {EARLIER: 0})},
        controls=(
            ControlFacts("20260102-030405-000000", ControlOutcome.LOST, "it lost"),
        ),
        moment=PlannedCut(1, Activity.STEADY, 1.0, 0.0),
        logs=2,
    )


def _at_the_cut() -> NodeAtTheCut:
    completed = Completed(Counted(9, 2), (Counted(9, 2),))
    cut = Cut(10**6 + 600, 10**6 + 800, {"off_s": 15.0})
    return NodeAtTheCut(cut, completed, (completed,), host_lived=False)


def load_record(run_id: str = RUN) -> LoadRecord:
    return LoadRecord(
        sent={session: acks + 1 for session, acks in ACKS.items()},
        acked=dict(ACKS),
        began_us=1,
        last_ack_us=10**6 + 500,
        gone=Gone.BROKEN,
        gone_us=10**6 + 900,
        in_flight=2,
        rate=1.5,
        latency_ms={"p50": 1.0},
        watermarks=tuple(maker.watermark() for maker in makers(run_id)),
        windows=(WindowFacts(1, 0.5), WindowFacts(2, 0.1)),
        refusals=(),
        farewells=(),
        nodes={ONLY_NODE: _at_the_cut()},
        settings=_SETTINGS,
        log=(LogPosition(10, 5), LogPosition(90, 5)),
        clocks=LOADED,
    )


def stored_run(run: RunFolder, *, lost: int = 0, restarted: bool = True) -> RunFolder:
    """Store all of a run whose rows are all there, but one that came beyond.

    lost: so many of the last rows of the first session are missing.
    restarted: the server started anew.
    """
    manifest = run.manifest()
    epoch = manifest.epoch
    run.write_load(load_record(manifest.run_id))
    run.write_restore(RestoreRecord({ONLY_NODE: 15.25}))
    for number, maker in enumerate(makers(manifest.run_id)):
        run.write_acks(number, [maker.data()])
    rows = [
        record(s, n, epoch=epoch)
        for s, acks in ACKS.items()
        for n in range(1, acks + 1 - (lost if s == 1 else 0))
    ]
    rows += [] if lost else [record(1, 6, epoch=epoch)]
    rows += [record(0, 3, epoch=EARLIER)]
    stored = {LEDGER.name: run.write_survivors(LEDGER.name, [records_of(rows)])}
    server = manifest.writer.facts
    server = replace(server, started_us=10**9) if restarted else server
    remains = Remains("", ((1, 3),), 1, (Ring(((1, 3),), frozenset({5})),), 8)
    tail = LogTail(_CRASHED, False, False)
    host = HostAfter(_AFTER, remains, tail, "", (remains,), LATER)
    after = after_of(server, host, survivors=stored, canary=False, answered=LATER)
    run.write_after(after)
    return run


@cache
def run_files() -> dict[str, bytes]:
    """Return the files of the run by their names."""
    with scratch() as folder:
        run = stored_run(RunFolder.create(folder, manifest()))
        return {path.name: path.read_bytes() for path in sorted(run.path.iterdir())}


@cache
def campaign_files() -> dict[str, bytes]:
    """Return the files of a campaign by their paths."""
    plan = CampaignPlan(
        "c", "0", "n", "postgresql://u@h/d", 1, load("insert"), 3, 9, 5000, False, True
    )
    cycle = Cycle(
        1, RUN, "steady", 1.0, CycleVerdict.PASS, "all there", "e", "OS", 8, 0, 1.5
    )
    control = ControlFacts(RUN, ControlOutcome.LOST, "it lost")
    with scratch() as folder:
        campaign = CampaignFolder.create(folder / "c", plan)
        campaign.add(cycle)
        campaign.add(replace(cycle, number=0, control=control))
        return {
            str(path.relative_to(campaign.path)): path.read_bytes()
            for path in sorted(campaign.path.rglob("*.json"))
        }
