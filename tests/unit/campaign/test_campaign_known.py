"""Between two cycles of a campaign neither its server nor its rows may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import TargetChanged
from dbcheck.campaign import campaign
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.preflight import before_load
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.recovery.survivors import DIFFERENT_MAX
from dbcheck.model.cluster import ONLY_NODE, Promise, SiteKind
from dbcheck.model.cut import SwitchKind
from dbcheck.model.host import Layer, Volume
from dbcheck.model.places import Place
from dbcheck.model.records import NodeBefore
from dbcheck.model.server import ServerFacts
from dbcheck.model.verdict import Verdict
from dbcheck.rows.earlier import EpochTotals
from dbcheck.rows.table import TableFacts, TableSpec
from dbcheck.runs.folder import RunFolder
from tests.kit.bare_engine import BareEngine
from tests.kit.cycles import record, records_of
from tests.kit.host_samples import BEFORE, VOLUME
from tests.kit.nodes import after_of, having, one, with_node
from tests.kit.partial_rig import Parts, RecordingListener, rig_of, rig_with
from tests.kit.pods import POD, with_data, with_volume
from tests.kit.refusals import refused
from tests.kit.samples import FACTS, MANIFEST, PLAN

LEFT = TableFacts({7: 5, 8: 3}, 8, {7: 100, 8: 200})
TABLE = "ledger"
ALL_LEFT = {TABLE: LEFT}
A, B = {"system_identifier": "1"}, {"system_identifier": "2"}


@pytest.mark.parametrize(
    ("rows", "weights", "lost"),
    [
        pytest.param({}, {}, 8, id="the table was dropped"),
        pytest.param({7: 5}, {7: 100}, 3, id="a whole cycle"),
        pytest.param({7: 4, 8: 1}, {7: 90, 8: 9}, 3, id="some of each"),
        pytest.param({7: 5, 8: 3}, {7: 100, 8: 201}, 1, id="replaced"),
        pytest.param(
            {7: 4, 8: 9}, {7: 90, 8: 300}, 1, id="new rows do not hide lost ones"
        ),
    ],
)
def test_rows_that_are_gone_between_cycles_are_missed(
    rows: Mapping[int, int], weights: Mapping[int, int], lost: int
) -> None:
    known = Known(A, "20260102-030405-a1b2c3", ALL_LEFT)
    named = f"at least {lost}"
    with refused(ErrorId.EARLIER_ROWS_LOST, TargetChanged, naming=named) as caught:
        known.require_rows(TABLE, TableFacts(rows, 9, weights))
    assert "since run 20260102-030405-a1b2c3 was read" in str(caught.value)
    assert "begin a new campaign" in caught.value.hint
    with refused(
        ErrorId.EARLIER_ROWS_LOST, TargetChanged, naming="they were read just now"
    ):
        Known(tables=ALL_LEFT).require_rows(TABLE, TableFacts(rows, 9, weights))


@pytest.mark.parametrize(
    ("rows", "weights"),
    [
        pytest.param({7: 5, 8: 3}, {7: 100, 8: 200}, id="all there"),
        pytest.param({7: 5, 8: 3, 9: 4}, {7: 100, 8: 200, 9: 1}, id="another run's"),
        pytest.param({7: 6, 8: 3}, {7: 120, 8: 200}, id="one that came late"),
        pytest.param({7: 5, 8: 3}, {}, id="classic rows have no weight"),
    ],
)
def test_complete_rows_are_accepted(
    rows: Mapping[int, int], weights: Mapping[int, int]
) -> None:
    Known(A, "", ALL_LEFT).require_rows(TABLE, TableFacts(rows, 9, weights))
    NOTHING_KNOWN.require_rows(TABLE, TableFacts(rows, 9, weights))


def test_what_is_left_is_counted_as_the_server_counts_it() -> None:
    big = 2**63 - 1
    left = EpochTotals()
    left.add(records_of([record(1, 1, epoch=7, row_id=big, checksum=3)]))
    left.add(records_of([record(1, 2, epoch=7, row_id=4, checksum=5)]))
    left.add(records_of([record(1, 1, epoch=8, row_id=2, checksum=1)]))
    assert (left.rows, left.row_id_max) == ({7: 2, 8: 1}, big)
    assert left.weights == {7: (3 * big + 20) % 2**64, 8: 2}


def test_the_next_cycle_is_compared_with_the_last_reading() -> None:
    """What counts is what the last reading left, whatever its cycle came to."""
    less = TableFacts({7: 4}, 8, {7: 90})
    read = after_of(FACTS, tables={TABLE: less})
    known = Known(A, "before", ALL_LEFT).with_run(MANIFEST, read)
    assert (known.run, known.tables) == (MANIFEST.run_id, {TABLE: less})
    known.require_rows(TABLE, less)
    assert known.with_run(MANIFEST, after_of(FACTS)) == known


def test_a_node_with_new_data_is_a_node_of_its_cluster_still() -> None:
    """A copy of another node has a server_uuid of its own, or another server_id."""
    identity = {"server_uuid": "a", "server_id": "1", "version": "8.4.1"}
    facts = replace(FACTS, identity=identity)
    nodes = dict.fromkeys(("node1", "node2"), replace(MANIFEST.writer, facts=facts))
    cluster = replace(
        MANIFEST,
        site=SiteKind.SEMI_SYNC,
        promise=Promise.WRITER_GONE,
        writer_name="node1",
        nodes=nodes,
    )
    known = NOTHING_KNOWN.with_run(cluster, after_of(FACTS))
    rebuilt = {**identity, "server_uuid": "b", "server_id": "4"}
    known.require_same("node1", "db1", replace(FACTS, identity=rebuilt))
    upgraded = replace(FACTS, identity={**rebuilt, "version": "8.4.2"})
    with refused(ErrorId.TARGET_CHANGED, TargetChanged, naming="8.4.2"):
        known.require_same("node1", "db1", upgraded)
    known.require_same_nodes(cluster)
    standby = replace(MANIFEST.writer, facts=upgraded, target="mysql://h/2")
    later = replace(cluster, nodes={**nodes, "node2": standby})
    with refused(ErrorId.TARGET_CHANGED, TargetChanged, naming=("h/2", "8.4.2")):
        known.require_same_nodes(later)


def test_what_a_reading_shows_of_the_rows() -> None:
    """Only of those that are counted and weighed as they were read."""
    table = TableFacts({7: 5, 8: 4, 9: 1}, 9, {7: 100, 8: 201, 9: 1})
    known = Known(A, "before", ALL_LEFT, different={TABLE: (3,)})
    marked = known.of_table(TABLE, table)
    assert (marked.different, marked.sound) == ((3,), (7,))
    assert replace(marked, different=(), sound=()) == table
    most = tuple(range(DIFFERENT_MAX))
    assert replace(known, different={TABLE: most}).of_table(TABLE, table).sound == ()
    for nothing in (NOTHING_KNOWN, replace(known, different={})):
        assert nothing.of_table(TABLE, table) == table


def test_what_a_reading_found_changed_is_known_when_resumed(tmp_path: Path) -> None:
    read = after_of(FACTS, tables={TABLE: LEFT})
    folder = CampaignFolder.create(tmp_path / "c", PLAN)
    folder.write_known(NOTHING_KNOWN.with_run(MANIFEST, read, {TABLE: [3]}))
    marked = folder.known().of_table(TABLE, LEFT)
    assert (marked.different, marked.sound) == ((3,), (7, 8))


def test_a_name_that_was_read_later_is_known_as_well() -> None:
    after = after_of(FACTS)
    nameless = having(MANIFEST, facts=replace(FACTS, identity={"database": "d"}))
    known = NOTHING_KNOWN.with_run(nameless, after).with_run(MANIFEST, after)
    with refused(
        ErrorId.TARGET_CHANGED, TargetChanged, naming="system_identifier was 1 and is 2"
    ):
        known.require_same(ONLY_NODE, "postgresql://h/d", replace(FACTS, identity=B))


class Server(Parts):
    """A server that would be prepared for a cycle."""

    def __init__(self, identity: Mapping[str, str], table: TableFacts) -> None:
        super().__init__(AssertionError("the preflight went on to its end"))
        self._identity, self._table = identity, table
        self.prepared = self.created = 0

    def facts(self) -> ServerFacts:
        return replace(FACTS, identity=self._identity, clock_us=10**9)

    def prepare(
        self, tables: Sequence[TableSpec], **options: Any
    ) -> dict[str, TableFacts]:
        self.prepared += 1
        return {TABLE: self._table}

    def create(self, run_id: str, content: bytes) -> Any:
        self.created += 1


def began(server: Server, known: Known, runs: Path) -> None:
    power: Any = SimpleNamespace(
        kind=SwitchKind.LAB, cut_class=MANIFEST.writer.cut_class
    )
    rig = with_node(rig_with(server, runs), power=power)
    before_load.run_preflight(rig, MANIFEST.workload, 1, known=known)


@pytest.mark.parametrize("configured", [{}, {"fsync": "off"}])
def test_nothing_of_another_server_is_touched(
    configured: dict[str, str], tmp_path: Path
) -> None:
    """That it is set up otherwise, too, is not what its user has to know."""
    server = Server(B, LEFT)
    with refused(
        ErrorId.TARGET_CHANGED, TargetChanged, naming="system_identifier was 1 and is 2"
    ) as why:
        began(server, Known(A, configured=configured), tmp_path / "runs")
    assert why.value.id is ErrorId.TARGET_CHANGED
    assert "mysql://h/d is not as it was in the earlier cycles" in str(why.value)
    assert "new campaign" in why.value.hint
    assert not server.prepared
    assert not (tmp_path / "runs").exists()


def test_a_cycle_does_not_begin_when_rows_are_gone(tmp_path: Path) -> None:
    server = Server(A, TableFacts({}, 0))
    with refused(ErrorId.EARLIER_ROWS_LOST, TargetChanged, naming="at least 8"):
        began(server, Known(A, "", ALL_LEFT), tmp_path / "runs")
    assert not server.created
    assert not (tmp_path / "runs").exists()


def test_missing_rows_end_a_campaign_and_end_it_again_when_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CampaignFolder.create(tmp_path / "c", replace(PLAN, control=False))
    folder.write_known(Known(A, "", ALL_LEFT))
    power: Any = SimpleNamespace(attended=False)
    engine: Any = BareEngine(checkpoint=lambda: None)
    rig = with_node(rig_of(RecordingListener(), engine=engine), power=power)

    def run_cycle(*given: Any) -> Any:
        given[-2].require_rows(TABLE, TableFacts({}, 0))

    monkeypatch.setattr(campaign, "run_cycle", run_cycle)
    for _ in range(2):
        with refused(ErrorId.EARLIER_ROWS_LOST, TargetChanged, naming="ledger"):
            campaign.run_campaign(rig, folder)
    assert not folder.cycles()


def test_what_a_run_showed_is_kept_in_the_folder(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    assert folder.known() == NOTHING_KNOWN
    run = RunFolder.create(folder.runs, MANIFEST)
    run.write_after(after_of(FACTS, tables={TABLE: LEFT}))
    known = folder.known().with_run(run.manifest(), run.after())
    folder.write_known(known)
    assert folder.known() == known == Known(A, MANIFEST.run_id, ALL_LEFT)


def test_a_server_that_is_set_up_otherwise_is_refused_with_both_values() -> None:
    """What is known of one of both times alone is not compared."""
    known = Known(
        A,
        configured={"fsync": "on", "version": "PostgreSQL 1", "gone": "1"},
        places={"WAL": "/d/pg_wal", "table": "/d/base", "elsewhere": "/e"},
    )
    settings = {"fsync": "on", "new": "2"}
    facts = replace(FACTS, product="PostgreSQL", version="1", settings=settings)
    places = (Place("WAL", "/d/pg_wal"), Place("table", "/d/base/5"))
    node = replace(MANIFEST.writer, facts=facts, places=places)
    known.require_same_setup(node)
    for other, text in (
        (replace(node, facts=replace(facts, version="2")), "PostgreSQL 2"),
        (
            replace(node, facts=replace(facts, settings={"fsync": "off"})),
            "fsync was on and is off",
        ),
        (replace(node, places=(Place("WAL", "/w"),)), "/d/pg_wal and is at /w"),
    ):
        with refused(
            ErrorId.CONFIGURATION_CHANGED, TargetChanged, naming=text
        ) as caught:
            known.require_same_setup(other)
        assert caught.value.id is ErrorId.CONFIGURATION_CHANGED
    known.without_setup().require_same_setup(other)


LAYER = Layer("sda", "disk", "", "", "", "write back", "0", ())
READ = replace(VOLUME, layers=(LAYER,))
UNREAD = replace(VOLUME, layers=(replace(LAYER, write_cache=""),), filesystem_uuid="")


def on(volume: Volume, **changed: Any) -> NodeBefore:
    """Return the node, with what it lies on."""
    facts = replace(BEFORE.facts, volumes=(volume,))
    host = replace(BEFORE, facts=facts)
    return replace(MANIFEST.writer, host=host, **changed)


def learned(*nodes: NodeBefore) -> Known:
    """Return what is known of the server after a cut of each that counts."""
    known = NOTHING_KNOWN
    run = SimpleNamespace(different_ids=lambda _name: None)
    for node in nodes:
        outcome: Any = SimpleNamespace(
            manifest=replace(MANIFEST, nodes=one(node)),
            after=after_of(FACTS, tables={TABLE: LEFT}),
            run=run,
            verdict=Verdict.PASS,
        )
        known = known.with_outcome(outcome)
    return known


def test_a_claim_that_is_bound_to_another_volume_is_another_configuration() -> None:
    """Rows of earlier cycles that a fresh volume lacks were not lost."""
    now = on(READ, pod=with_volume(name="pvc-9", handle="vol-9"))
    with refused(
        ErrorId.CONFIGURATION_CHANGED,
        TargetChanged,
        naming="volume of the claim data-orders-1 was pvc-0a (vol-0a) and is pvc-9",
    ):
        learned(on(READ, pod=POD)).require_same_setup(now)
    for other in (None, with_data(volume=None), replace(POD, uid="9", node="node-b")):
        learned(on(READ, pod=POD)).require_same_setup(on(READ, pod=other))


def test_what_could_not_be_read_at_one_time_is_no_other_configuration() -> None:
    learned(on(READ)).require_same_setup(on(UNREAD))
    learned(on(UNREAD)).require_same_setup(on(READ))


@pytest.mark.parametrize("first", [[], [on(UNREAD)]])
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(READ, filesystem_uuid="u2"), id="another filesystem"),
        pytest.param(replace(READ, filesystem="ext4"), id="of another type"),
        pytest.param(
            replace(READ, layers=(replace(LAYER, write_cache="write through"),)),
            id="another cache",
        ),
    ],
)
def test_what_was_read_both_times_and_differs_is_another_configuration(
    other: Volume, first: list[NodeBefore]
) -> None:
    with refused(ErrorId.CONFIGURATION_CHANGED, TargetChanged):
        learned(*first, on(READ)).require_same_setup(on(other))


def placed(**paths: str) -> NodeBefore:
    places = tuple(Place(name, path) for name, path in paths.items())
    return replace(MANIFEST.writer, places=places)


def test_a_table_that_was_dropped_may_be_made_anywhere_on_its_filesystem() -> None:
    """Until it is made it is expected in the folder of all databases."""
    there = learned(placed(WAL="/d/pg_wal", table="/d/base/5", index="/d/base/5"))
    dropped = placed(WAL="/d/pg_wal", table="/d/base", index="/d/base")
    with refused(ErrorId.CONFIGURATION_CHANGED, TargetChanged):
        there.require_same_setup(dropped)
    emptied = there.without_rows()
    emptied.require_same_setup(dropped)
    emptied.require_rows(TABLE, TableFacts({}, 0))
    with refused(ErrorId.CONFIGURATION_CHANGED, TargetChanged):
        emptied.require_same_setup(placed(WAL="/w"))
    elsewhere = replace(READ, places={"table": "/d/base"}, filesystem_uuid="u2")
    of_table = learned(on(replace(READ, places={"table": "/d/base/5"})))
    with refused(ErrorId.CONFIGURATION_CHANGED, TargetChanged):
        of_table.without_rows().require_same_setup(on(elsewhere))
