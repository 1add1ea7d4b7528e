from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged
from dbcheck.rows.acks import Ack
from dbcheck.rows.earlier import WEIGHT_MODULUS
from dbcheck.rows.loss import LossKind
from dbcheck.rows.reconcile import Claim, Reconciliation
from dbcheck.rows.summary import AckSummary
from dbcheck.rows.survivors import DIFFERENT, INTACT
from dbcheck.rows.table import TableFacts
from tests.kit.cycles import ack, acks_of, array_of, reconciled, record
from tests.kit.refusals import refused

ALL = [record(1, 1), record(1, 2), record(1, 3), record(2, 1), record(2, 2)]
DAMAGED = "the witness log is damaged: "
COUNTS = {1: 3, 2: 2}


def kinds(found: object) -> list[tuple[str, int, int]]:
    return [(x.kind.value, x.session, x.seq) for x in found.losses]  # type: ignore[attr-defined]


def test_every_ack_with_its_row_is_kept() -> None:
    found = reconciled(COUNTS, ALL)
    assert (found.confirmed, found.kept, found.counts) == (5, 5, {})


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        pytest.param([(1, 3)], [("missing-tail", 1, 3)], id="last of a session"),
        pytest.param([(1, 2)], [("missing-hole", 1, 2)], id="one before the last"),
        pytest.param(
            [(1, 1), (1, 3)],
            [("missing-hole", 1, 1), ("missing-tail", 1, 3)],
            id="hole and tail of one session",
        ),
        pytest.param(
            [(2, 1), (2, 2)],
            [("missing-tail", 2, 1), ("missing-tail", 2, 2)],
            id="a whole session",
        ),
    ],
)
def test_missing_rows_are_named(
    gone: list[tuple[int, int]], expected: list[tuple[str, int, int]]
) -> None:
    rows = [row for row in ALL if (row[2], row[3]) not in gone]
    found = reconciled(COUNTS, rows)
    assert sorted(kinds(found)) == sorted(expected)
    assert found.kept == 5 - len(gone)
    for loss in found.losses:
        assert loss.row_id == 1000 * loss.session + loss.seq
        assert loss.acked_us == ack(loss.session, loss.seq).acked_us


def test_a_row_with_another_content_is_corrupt() -> None:
    found = reconciled(COUNTS, [*ALL[1:], record(1, 1, content=DIFFERENT)])
    assert kinds(found) == [("corrupt", 1, 1)]


def test_an_operation_that_stands_twice_is_a_duplicate() -> None:
    found = reconciled(COUNTS, [*ALL, record(1, 1, row_id=9)])
    assert kinds(found) == [("duplicate", 1, 1)]


@pytest.mark.parametrize(
    ("ids", "repeats"),
    [((9,), 1), ((9, 10), 2), ((1004,), 0), ((9, 9), 1)],
    ids=["once more", "twice more", "the same id again", "one id of two again"],
)
def test_an_operation_without_an_ack_may_have_been_sent_again(
    ids: tuple[int, ...], repeats: int
) -> None:
    """One id twice is no doing of a client: the ids are unique."""
    again = [record(1, 4, row_id=row_id) for row_id in ids]
    claim = Claim({1: 4, 2: 2}, COUNTS)
    found = reconciled(COUNTS, [*ALL, record(1, 4), *again], claim=claim)
    assert kinds(found) == [("duplicate", 1, 4)] * len(ids)
    assert (found.unacked_repeats, found.counts_beside_commits) == (
        repeats,
        {"duplicate": len(ids)},
    )
    assert found.repeats == len(ids)


def test_an_operation_with_an_ack_that_stands_twice_is_no_repeat() -> None:
    found = reconciled(COUNTS, [*ALL, record(1, 1, row_id=9)])
    assert (found.unacked_repeats, found.counts_beside_commits, found.repeats) == (
        0,
        {},
        1,
    )


def test_an_ack_that_the_witness_lacks_is_an_ack() -> None:
    """The client recorded it: the server had promised that row."""
    claim = Claim({1: 4, 2: 2}, {1: 4, 2: 2})
    rows = [*ALL, record(1, 4), record(1, 4, row_id=9)]
    found = reconciled(COUNTS, rows, claim=claim)
    assert kinds(found) == [("duplicate", 1, 4)]
    assert found.unacked_repeats == 0


def test_a_duplicate_in_another_batch_is_seen() -> None:
    found = reconciled(COUNTS, [record(1, 1, row_id=9), *ALL])
    assert kinds(found) == [("duplicate", 1, 1)]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_row_with_another_id_than_the_acked_one_is_corrupt(at: int) -> None:
    rows = [row for row in ALL if row[2:4] != (1, at)]
    found = reconciled(COUNTS, [*rows, record(1, at, row_id=77)])
    assert kinds(found) == [("corrupt", 1, at)]
    assert found.kept == 4


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("places", [1, 2, 3])
def test_parts_of_the_marks_are_as_good_as_all(
    places: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbcheck.rows.reconcile._MARKS_PER_PART", places)
    monkeypatch.setattr("dbcheck.rows.reconcile._MARKS_PER_BLOCK", places)
    monkeypatch.setattr("dbcheck.rows.reconcile._BLOCKS_PER_PART", blocks)
    rows = [record(1, 1, row_id=1002), record(1, 2, row_id=1001), record(2, 2)]
    found = reconciled(COUNTS, rows)
    assert sorted(kinds(found)) == [
        ("corrupt", 1, 1),
        ("corrupt", 1, 2),
        ("missing-hole", 2, 1),
        ("missing-tail", 1, 3),
    ]
    assert found.kept == 1


def test_rows_with_another_id_are_found_in_every_block_of_marks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sound blocks lie between, and only some blocks are compared at a time."""
    monkeypatch.setattr("dbcheck.rows.reconcile._MARKS_PER_BLOCK", 8)
    monkeypatch.setattr("dbcheck.rows.reconcile._BLOCKS_PER_PART", 3)
    other = {5, 6, 17, 100, 200, 201, 295, 300}
    rows = [
        record(1, n, row_id=5000 + n if n in other else None) for n in range(1, 301)
    ]
    found = reconciled({1: 300}, rows)
    assert kinds(found) == [("corrupt", 1, n) for n in sorted(other)]
    assert found.kept == 300 - len(other)


@pytest.mark.parametrize("places", [1, 3, 64])
def test_the_last_row_of_each_session_parts_tails_from_holes(
    places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbcheck.rows.reconcile._MARKS_PER_BLOCK", places)
    rows = [record(1, 1), record(1, 5), record(3, 9)]
    found = reconciled({1: 9, 2: 4, 3: 9}, rows)
    holes = {(1, n) for n in (2, 3, 4)} | {(3, n) for n in range(1, 9)}
    assert {where[1:] for where in kinds(found) if where[0] == "missing-hole"} == holes
    assert found.counts == {"missing-hole": 11, "missing-tail": 8}


def test_two_rows_that_swapped_their_ids_are_corrupt() -> None:
    rows = [*ALL[2:], record(1, 1, row_id=1002), record(1, 2, row_id=1001)]
    found = reconciled(COUNTS, rows)
    assert sorted(kinds(found)) == [("corrupt", 1, 1), ("corrupt", 1, 2)]


def test_other_ids_that_weigh_the_same_in_a_row_are_seen() -> None:
    """What one row has too much is no balance for what its neighbours lack."""
    ids = (1002, 1000, 1004)
    rows = [record(1, n, row_id=row_id) for n, row_id in enumerate(ids, 1)]
    found = reconciled(COUNTS, [*ALL[3:], *rows])
    assert (found.kept, found.counts) == (2, {"corrupt": 3})


def test_another_id_is_seen_beside_a_missing_row() -> None:
    rows = [*ALL[2:], record(1, 1, row_id=77)]
    found = reconciled(COUNTS, rows)
    assert sorted(kinds(found)) == [("corrupt", 1, 1), ("missing-hole", 1, 2)]


def test_more_acks_than_the_client_received_are_no_evidence() -> None:
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming=(DAMAGED, "received 2")
    ):
        reconciled(COUNTS, ALL, claim=Claim({1: 3, 2: 2}, {1: 2, 2: 2}))


def test_a_second_part_of_an_insert_is_foreign() -> None:
    found = reconciled(COUNTS, [*ALL, record(1, 1, part=1, row_id=9)])
    assert [loss.kind for loss in found.losses] == [LossKind.UNEXPECTED]


def test_one_unacked_row_of_a_session_is_recovered() -> None:
    found = reconciled(
        COUNTS, [*ALL, record(1, 4)], claim=Claim({1: 4, 2: 2}, {1: 3, 2: 2})
    )
    assert (found.recovered, found.unconfirmed, found.counts) == (1, 0, {})


def test_a_row_that_the_client_never_sent_is_unexpected() -> None:
    claim = Claim({1: 4, 2: 2}, {1: 3, 2: 2})
    found = reconciled(COUNTS, [*ALL, record(1, 5)], claim=claim)
    assert kinds(found) == [("unexpected", 1, 5)]


def test_acks_that_the_witness_never_confirmed_are_no_claim() -> None:
    """The client had two more acks of session 1 and one operation in flight."""
    claim = Claim({1: 6, 2: 2}, {1: 5, 2: 2})
    there = reconciled(COUNTS, [*ALL, record(1, 4), record(1, 6)], claim=claim)
    assert (there.recovered, there.unconfirmed, there.counts) == (1, 1, {})
    gone = reconciled(COUNTS, ALL, claim=claim)
    assert (gone.recovered, gone.unconfirmed, gone.counts) == (0, 0, {})


def test_without_the_client_the_window_bounds_what_may_be_there() -> None:
    near = [record(1, 3 + n) for n in range(1, 12)]
    assert reconciled(COUNTS, ALL + near, window_acks=10).counts == {}
    both = [record(1, 3 + 6), record(2, 2 + 7)]  # 5 and 6 acks that nobody logged
    with refused(ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming=(DAMAGED, "after 11")):
        reconciled(COUNTS, ALL + both, window_acks=10)
    assert reconciled(COUNTS, ALL + both, window_acks=11).counts == {}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(record(9, 1, epoch=1, content=DIFFERENT), id="unknown epoch"),
        pytest.param(record(1, 4, content=DIFFERENT), id="key fits, content does not"),
        pytest.param(record(70_000, 1), id="no such session"),
        pytest.param(record(-1, 1), id="negative session"),
        pytest.param(record(1, 0), id="seq below 1"),
    ],
)
def test_a_foreign_row_is_unexpected(row: tuple[int, ...]) -> None:
    found = reconciled(COUNTS, [*ALL, row])
    assert [loss.kind for loss in found.losses] == [LossKind.UNEXPECTED]
    assert found.losses[0].row_id == row[0]
    assert found.kept == 5


def test_rows_of_earlier_cycles_must_still_be_there() -> None:
    before = TableFacts({3: 2}, 20)
    old = [record(1, 1, epoch=3, row_id=10), record(1, 2, epoch=3, row_id=11)]
    rows = [*old, *ALL]
    assert reconciled(COUNTS, rows, before=before).counts == {}
    lost = reconciled(COUNTS, rows[1:], before=before)
    assert (lost.earlier_lost, lost.counts) == ({3: 1}, {"missing-hole": 1})
    assert (lost.own_counts, lost.earlier_counts) == ({}, {"missing-hole": 1})


@pytest.mark.parametrize(
    ("rows", "lost"),
    [
        pytest.param([(10, 7), (2**62 + 1, 2**32 - 1)], 0, id="the same"),
        pytest.param([(10, 7), (10, 7)], 1, id="one twice, one gone"),
        pytest.param([(10, 2**32 - 1), (2**62 + 1, 7)], 1, id="ids exchanged"),
        pytest.param([(10, 7), (2**62 + 1, -1)], 1, id="a checksum that none can be"),
        pytest.param([(10, 7)], 1, id="one gone"),
    ],
)
def test_rows_of_earlier_cycles_are_weighed(
    rows: list[tuple[int, int]], lost: int
) -> None:
    weight = (10 * 7 + (2**62 + 1) * (2**32 - 1)) % WEIGHT_MODULUS
    before = TableFacts({3: 2}, 2**62 + 1, {3: weight})
    old = [
        record(1, n, epoch=3, row_id=row_id, checksum=checksum)
        for n, (row_id, checksum) in enumerate(rows, 1)
    ]
    found = reconciled(COUNTS, [*old, *ALL], before=before)
    assert found.earlier_lost == ({3: lost} if lost else {})


def test_a_changed_row_of_an_earlier_cycle_is_corrupt() -> None:
    old = record(1, 1, epoch=3, row_id=10, content=DIFFERENT)
    found = reconciled(COUNTS, [old, *ALL], before=TableFacts({3: 1}, 20, {3: 70}))
    assert found.counts == {"corrupt": 1}  # once, although it weighs less, too
    assert (found.own_counts, found.earlier_counts) == ({}, {"corrupt": 1})
    assert found.earlier_altered == 0


def test_a_row_that_was_changed_before_the_cycle_is_no_loss_of_it() -> None:
    rows = [record(1, n, epoch=3, row_id=n, content=DIFFERENT) for n in (1, 2)]
    before = TableFacts({3: 2}, 2, different=(1,), sound=(3,))
    found = reconciled(COUNTS, [*rows, *ALL], before=before)
    assert [(x.kind.value, x.row_id) for x in found.losses] == [("corrupt", 2)]


def altered(before: TableFacts, rows: int = 2) -> Reconciliation:
    """Reconcile earlier rows that weigh 15; the first has another content."""
    kinds = [DIFFERENT, INTACT][:rows]
    old = [
        record(1, n, epoch=3, row_id=n, checksum=5, content=content)
        for n, content in enumerate(kinds, 1)
    ]
    return reconciled(COUNTS, [*old, *ALL], before=before)


def test_a_row_that_was_perhaps_altered_before_the_load_is_no_loss() -> None:
    found = altered(TableFacts({3: 2}, 2, {3: 15}))
    assert (found.counts, found.earlier_altered, found.kept) == ({}, 1, 5)
    found = altered(TableFacts({3: 2}, 2, {3: 15}, sound=(4,)))
    assert (found.counts, found.earlier_altered) == ({}, 1)


def test_an_altered_row_is_a_loss_if_a_reading_or_the_weight_shows_it() -> None:
    for before in (
        TableFacts({3: 2}, 2, {3: 15}, sound=(3,)),
        TableFacts({3: 2}, 2, {3: 16}),
    ):
        found = altered(before)
        assert (found.earlier_counts, found.earlier_altered) == ({"corrupt": 1}, 0)
        assert [loss.row_id for loss in found.losses] == [1]


def test_rows_that_are_missing_beside_an_altered_one_are_lost() -> None:
    found = altered(TableFacts({3: 2}, 2, {3: 15}), rows=1)
    assert (found.counts, found.earlier_altered) == ({"missing-hole": 1}, 1)


def test_a_row_that_was_being_committed_when_the_table_was_counted_is_no_loss() -> None:
    """Its id is from before, so it is another run's that went on, or came late."""
    old, late = (record(1, n, epoch=3, row_id=n, checksum=5) for n in (2, 1))
    found = reconciled(COUNTS, [old, late, *ALL], before=TableFacts({3: 1}, 2, {3: 10}))
    assert (found.counts, found.foreign) == ({}, 1)


def test_a_row_of_an_earlier_cycle_that_stands_twice_is_a_duplicate() -> None:
    old = [record(1, n, epoch=3, row_id=n, checksum=5) for n in (1, 2)]
    before = TableFacts({3: 2}, 2, {3: 15})
    found = reconciled(COUNTS, [*old, old[0], *ALL], before=before)
    assert (found.counts, found.foreign) == ({"duplicate": 1}, 0)
    assert (found.own_counts, found.earlier_counts) == ({}, {"duplicate": 1})
    assert found.losses[0].row_id == 1


def test_rows_of_another_run_are_no_loss_of_this_one() -> None:
    """It ran at the same time, or later, or a client of an earlier one came late."""
    old, new = (record(1, n, epoch=3, row_id=n * 20) for n in (1, 2))
    other = record(1, 1, epoch=4, row_id=99)
    found = reconciled(COUNTS, [old, new, other, *ALL], before=TableFacts({3: 1}, 20))
    assert (found.counts, found.foreign, found.earlier) == ({}, 2, 1)


def test_no_survivors_at_all_is_everything_missing() -> None:
    assert reconciled(COUNTS, []).counts == {"missing-tail": 5}


def test_no_acks_and_no_rows_is_nothing() -> None:
    found = reconciled({}, [])
    assert (found.confirmed, found.counts) == (0, {})


@pytest.mark.parametrize(
    "acks",
    [
        pytest.param([ack(1, 1), ack(1, 3)], id="one is left out"),
        pytest.param([ack(1, 1), ack(1, 2), ack(1, 2)], id="one stands twice"),
        pytest.param([ack(1, 2)], id="the first is left out"),
        pytest.param([ack(1, 2), ack(1, 1)], id="backwards"),
    ],
)
def test_a_log_with_gaps_is_damaged(acks: list[Ack]) -> None:
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming=(DAMAGED, "session 1")
    ):
        AckSummary.of(lambda: array_of(acks))


def test_acks_are_counted_by_session() -> None:
    counted = AckSummary.of(lambda: array_of(acks_of(COUNTS))).counts
    assert (counted[1], counted[2], counted.sum()) == (3, 2, 5)
