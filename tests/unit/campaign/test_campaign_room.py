"""When a campaign may drop the rows of its earlier cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import TargetChanged
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.tables import drop_tables_if_disk_half_full
from dbcheck.rows.table import TableFacts, TableSpec
from tests.kit.bare_engine import BareEngine
from tests.kit.host_samples import BEFORE, VOLUME
from tests.kit.nodes import after_of, having
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.refusals import refused
from tests.kit.samples import FACTS, MANIFEST

TABLE = "ledger"
LEFT = TableFacts({7: 5, 8: 3}, 8, {7: 100, 8: 200})
KNOWN = Known({"system_identifier": "1"}, "ID", {TABLE: LEFT}, {TABLE: ()}, 1000)
DROPPED = "8 rows of earlier cycles, all judged, are dropped to make room"


class Server(BareEngine):
    """Counts its rows, and notes what is done to it in turn."""

    def __init__(self, table: TableFacts = LEFT) -> None:
        self.done: list[object] = []
        self._table = table

    def prepare(
        self, tables: Sequence[TableSpec], **options: Any
    ) -> dict[str, TableFacts]:
        return {TABLE: self._table}

    def discard(self, tables: Sequence[TableSpec], **options: Any) -> None:
        self.done.append([table.name for table in tables])

    lacking = present = prepare  # what else belongs to that ability


class Simple(BareEngine):
    """A server of a kind whose tables dbcheck cannot drop."""

    done: Sequence[object] = ()


def volume(free: int | None) -> Any:
    facts = replace(BEFORE.facts, volumes=(replace(VOLUME, free_bytes=free),))
    return replace(BEFORE, facts=facts)


def begun(server: Any, free: int | None, known: Known = KNOWN, **other: Any) -> Known:
    """Return what is known after room was made, if it was."""
    listener = RecordingListener()
    host = other.get("host", volume(free))
    node = replace(MANIFEST.writer, host=host)
    emptied = other.get("emptied", lambda known: server.done.append(known))
    rig = rig_of(listener, engine=server)
    found = drop_tables_if_disk_half_full(rig, MANIFEST.workload, known, node, emptied)
    assert [text for _, text in listener.phases] == [DROPPED] * bool(server.done)
    return found


def test_what_is_known_is_stored_before_anything_is_dropped() -> None:
    server = Server()
    known = begun(server, free=499)
    assert known == Known(KNOWN.identity, free_bytes=1000)
    assert server.done == [known, [TABLE]]


@pytest.mark.parametrize(
    ("known", "free", "other"),
    [
        pytest.param(KNOWN, 500, {}, id="half is free"),
        pytest.param(KNOWN, None, {}, id="the host does not say what is free"),
        pytest.param(KNOWN, 1, {"host": None}, id="no host was named"),
        pytest.param(KNOWN, 1, {"emptied": None}, id="the rows are evidence"),
        pytest.param(replace(KNOWN, free_bytes=None), 1, {}, id="an old campaign"),
        pytest.param(replace(KNOWN, tables={}), 1, {}, id="nothing was read yet"),
        pytest.param(
            replace(KNOWN, different={TABLE: (2,)}), 1, {}, id="a row is changed"
        ),
    ],
)
def test_rows_stay(known: Known, free: int | None, other: dict[str, Any]) -> None:
    server = Server()
    assert begun(server, free, known, **other) == known
    assert not server.done


def test_a_server_that_drops_nothing_keeps_its_rows() -> None:
    assert begun(Simple(), free=1) == KNOWN


@pytest.mark.parametrize(
    ("rows", "weights"),
    [
        pytest.param({7: 5, 8: 3, 9: 1}, {7: 100, 8: 200, 9: 1}, id="another run's"),
        pytest.param({7: 6, 8: 3}, {7: 120, 8: 200}, id="one that came late"),
    ],
)
def test_rows_that_no_cycle_read_stay(
    rows: dict[int, int], weights: dict[int, int]
) -> None:
    server = Server(TableFacts(rows, 9, weights))
    assert begun(server, free=1) == KNOWN
    assert not server.done


def test_rows_that_are_gone_are_missed_before_the_others_are_dropped() -> None:
    server = Server(TableFacts({7: 5}, 5, {7: 100}))
    with refused(ErrorId.EARLIER_ROWS_LOST, TargetChanged, naming="at least 3"):
        begun(server, free=1)
    assert not server.done


def test_the_room_is_that_of_before_the_first_load() -> None:
    first = having(MANIFEST, host=volume(900))
    after = after_of(FACTS, tables={TABLE: LEFT})
    known = NOTHING_KNOWN.with_run(first, after)
    assert known.free_bytes == 900
    later = having(MANIFEST, host=volume(300))
    assert known.with_run(later, after).free_bytes == 900
    assert known.without_rows().with_run(later, after).free_bytes == 900
