from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from dbcheck.rows.acks import ACK_DTYPE, Ack, AckArray
from dbcheck.rows.plans.classic import reconcile_ids
from dbcheck.rows.reconcile import Claim, Observed, Reconciliation
from dbcheck.rows.survivors import RECORD, Records
from dbcheck.rows.table import CLASSIC, TableFacts
from tests.kit.cycles import NOTHING_BEFORE, array_of, records_of

ACKS = [Ack(1, 1, 11, 100), Ack(2, 1, 12, 200), Ack(1, 2, 13, 300), Ack(1, 3, 15, 400)]


def found(
    ids: Iterable[int],
    *,
    acks: list[Ack] = ACKS,
    before: TableFacts = NOTHING_BEFORE,
    claim: Claim | None = None,
) -> Reconciliation:
    records = records_of((row_id, 0, 0, 0, 0, 0, 0) for row_id in ids)
    batches = array_of(acks)
    seen = Observed(
        lambda: batches, {"fs": lambda: [records]}, {"fs": before}, claim, window_acks=3
    )
    return reconcile_ids(seen, CLASSIC)


def test_gaps_in_the_ids_prove_nothing() -> None:
    assert found([11, 12, 13, 15]).counts == {}


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        pytest.param([11, 12, 13], {"missing-tail": 1}, id="the last one"),
        pytest.param([11, 12, 15], {"missing-hole": 1}, id="one in the middle"),
        pytest.param([11, 13, 15], {"missing-tail": 1}, id="the only one of a session"),
        pytest.param([], {"missing-tail": 4}, id="all"),
    ],
)
def test_missing_ids_are_found(ids: list[int], expected: dict[str, int]) -> None:
    result = found(ids)
    assert result.counts == expected
    assert {loss.row_id for loss in result.losses} == {11, 12, 13, 15} - set(ids)
    assert {loss.table for loss in result.losses} <= {"fs"}
    assert result.kept == len(ids)


def test_one_more_id_for_each_operation_in_flight_is_legal() -> None:
    claim = Claim({1: 4, 2: 2}, {1: 3, 2: 1})
    assert found([11, 12, 13, 15, 16, 17], claim=claim).recovered == 2
    more = found([11, 12, 13, 15, 16, 17, 18], claim=claim)
    assert (more.counts, more.foreign) == ({}, 1)


def test_without_the_client_the_window_bounds_what_may_be_there() -> None:
    assert found([11, 12, 13, 15, *range(16, 21)]).counts == {}
    assert found([11, 12, 13, 15, *range(16, 21)]).foreign == 0
    assert found([11, 12, 13, 15, *range(16, 22)]).foreign == 1


def test_rows_from_before_must_still_be_there() -> None:
    before = TableFacts({0: 2}, 10)
    assert found([9, 10, 11, 12, 13, 15], before=before).counts == {}
    lost = found([9, 11, 12, 13, 15], before=before)
    assert (lost.counts, lost.earlier_lost) == ({"missing-hole": 1}, {0: 1})


def test_an_id_that_was_acked_twice_is_one_row_lost() -> None:
    twice = [*ACKS, Ack(2, 2, 13, 500)]
    result = found([11, 12, 13, 15], acks=twice)
    assert result.counts == {"duplicate": 2}
    assert result.kept == 3


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        pytest.param([11, 11, 12, 13, 15], 3, id="of an acked row"),
        pytest.param([11, 12, 13, 15, 16, 16], 4, id="of an unacked row"),
        pytest.param([9, 9, 10, 11, 12, 13, 15], 4, id="of an earlier row"),
    ],
)
def test_an_id_that_stands_twice_is_a_duplicate(ids: list[int], kept: int) -> None:
    """A server whose index and table disagree may show a row, and its copy."""
    before = TableFacts({0: 2 if 9 in ids else 0}, 10)
    result = found(ids, before=before)
    assert result.counts == {"duplicate": 1}
    assert (result.kept, result.foreign, result.earlier_lost) == (kept, 0, {})


def test_a_copy_does_not_stand_for_a_row_that_is_gone() -> None:
    result = found([9, 9, 11, 12, 13, 15], before=TableFacts({0: 2}, 10))
    assert result.counts == {"duplicate": 1, "missing-hole": 1}


def test_a_row_that_was_being_committed_when_the_table_was_counted_is_foreign() -> None:
    result = found([8, 9, 10, 11, 12, 13, 15], before=TableFacts({0: 2}, 10))
    assert (result.counts, result.foreign) == ({}, 1)


@pytest.mark.parametrize("step", [1, 7, 65535, 2**40])
def test_ids_may_lie_as_far_apart_as_the_server_likes(step: int) -> None:
    """auto_increment_increment is 1 to 65535."""
    acks = [Ack(ack.session, ack.seq, ack.row_id * step, 1) for ack in ACKS]
    there = [ack.row_id for ack in acks]
    assert found(there, acks=acks).counts == {}
    result = found([*there[:1], *there[2:], 16 * step, 16 * step], acks=acks)
    assert result.counts == {"missing-tail": 1, "duplicate": 1}
    assert {loss.row_id for loss in result.losses} == {12 * step, 16 * step}


@pytest.mark.parametrize("lost", [0, 1])
def test_no_id_is_kept(lost: int) -> None:
    """Ten million ids once took a gigabyte: an id has 8 bytes, its mark has one."""
    count, at_once = 1 << 19, 1 << 12

    def batches() -> Iterator[AckArray]:
        for begin in range(0, count, at_once):
            batch = np.zeros(at_once, ACK_DTYPE)
            batch["session"] = 1
            batch["seq"] = np.arange(begin, begin + at_once) + 1
            batch["row_id"] = batch["seq"]
            yield batch

    def rows() -> Iterator[Records]:
        for batch in batches():
            records = np.zeros(len(batch), RECORD)
            records["row_id"] = batch["row_id"]
            yield records[lost if batch["seq"][0] == 1 else 0 :]

    tracemalloc.start()
    try:
        seen = Observed(batches, {"fs": rows}, {"fs": NOTHING_BEFORE}, None, 0)
        result = reconcile_ids(seen, CLASSIC)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (result.confirmed, result.kept) == (count, count - lost)
    assert peak < 8 * count
