"""Registers against the rows of their transactions: each fault is found and named."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dbcheck.rows.loss import LossKind
from dbcheck.rows.survivors import DIFFERENT
from dbcheck.rows.table import TableFacts
from tests.kit.cycles import acks_of, record
from tests.kit.registers import (
    HOLE,
    SLOTS,
    Rows,
    judged,
    named,
    register,
    registers_after,
    rows_of,
    wanted,
)

STALE, TORN = LossKind.STALE, LossKind.TORN
CORRUPT, UNEXPECTED = LossKind.CORRUPT, LossKind.UNEXPECTED
DUPLICATE = LossKind.DUPLICATE


@pytest.mark.parametrize(
    ("rows", "registers", "losses", "kept"),
    [
        pytest.param(
            range(1, 11),
            [register(1, s) for s in (9, 6, 7, 8)],
            [(STALE, 1, 10)],
            9,
            id="one register is older",
        ),
        pytest.param(
            range(1, 11),
            [register(1, s) for s in (5, 6, 3, 4)],
            [(STALE, 1, 9), (STALE, 1, 10), (STALE, 1, 7), (STALE, 1, 8)],
            6,
            id="all are",
        ),
        pytest.param(
            range(1, 11),
            [register(1, s) for s in (9, 10, 7)],
            [(TORN, 1, 8)],
            9,
            id="one register is gone",
        ),
        pytest.param(
            range(1, 11), [], [(TORN, 1, s) for s in (7, 8, 9, 10)], 6, id="all"
        ),
        pytest.param(
            [*range(1, 9), 10],
            [register(1, s) for s in (9, 10, 7, 8)],
            [(TORN, 1, 9)],
            9,
            id="the newest row of a slot is gone, its register is not",
        ),
        pytest.param(
            range(1, 9),
            [register(1, s) for s in (9, 10, 7, 8)],
            [(TORN, 1, 9), (TORN, 1, 10)],
            8,
            id="the last rows are gone, their registers are not",
        ),
        pytest.param(
            [1, 2, 3, *range(5, 11)],
            registers_after(1, 10),
            [(HOLE, 1, 4)],
            9,
            id="an old row is gone: its register was written again",
        ),
        pytest.param(
            range(1, 11),
            [register(1, 9, content=DIFFERENT), *[register(1, s) for s in (10, 7, 8)]],
            [(CORRUPT, 1, 9)],
            9,
            id="a register is damaged",
        ),
        pytest.param(
            range(1, 11),
            [*registers_after(1, 10), register(1, 7, row_id=99)],
            [(DUPLICATE, 1, 7)],
            10,
            id="a register is there twice",
        ),
        pytest.param(
            range(1, 11),
            [*registers_after(1, 10), record(1, 7, part=SLOTS + 1, content=DIFFERENT)],
            [(UNEXPECTED, 1, 7)],
            10,
            id="a register that no session has",
        ),
        pytest.param(
            range(1, 11),
            [*registers_after(1, 10), register(2, 3)],
            [(TORN, 2, 3)],
            10,
            id="a register of a session that sent nothing",
        ),
    ],
)
def test_each_disagreement_has_a_name(
    rows: Iterable[int],
    registers: Rows,
    losses: list[tuple[LossKind, int, int]],
    kept: int,
) -> None:
    found = judged({1: 10}, rows_of(1, rows), registers)
    assert named(found) == wanted(*losses)
    assert found.kept == kept


@pytest.mark.parametrize("half", ["insert", "update"])
def test_half_of_an_unacked_operation_is_torn(half: str) -> None:
    """It may be there or not, as a whole."""
    rows = rows_of(1, range(1, 12 if half == "insert" else 11))
    registers = registers_after(1, 11 if half == "update" else 10)
    found = judged({1: 10}, rows, registers, {1: 11})
    assert named(found) == wanted((TORN, 1, 11))
    assert found.kept == 10


def test_a_damaged_row_does_not_make_its_register_wrong() -> None:
    rows = [*rows_of(1, range(1, 10)), record(1, 10, content=DIFFERENT)]
    found = judged({1: 10}, rows, registers_after(1, 10))
    assert named(found) == wanted((CORRUPT, 1, 10))
    rows = [*rows_of(1, range(1, 11)), record(1, 10**6, content=DIFFERENT, row_id=5)]
    found = judged({1: 10}, rows, registers_after(1, 10))
    assert named(found) == wanted((UNEXPECTED, 1, 10**6))


def test_a_loss_is_dated_by_its_ack() -> None:
    registers = [register(1, seq) for seq in (9, 6, 7, 8)]
    (loss,) = judged(
        {1: 10, 2: 3},
        rows_of(1, range(1, 11)) + rows_of(2, (1, 2, 3)),
        [*registers, *registers_after(2, 3)],
    ).losses
    assert (loss.kind, loss.acked_us) == (STALE, acks_of({1: 10})[-1].acked_us)
    assert loss.table == "register"


def test_registers_of_earlier_cycles_must_stay() -> None:
    before = TableFacts({3: 2}, 99, {3: 40 + 2 * 41})
    old = [record(1, s, epoch=3, part=s, row_id=40 + s - 1, checksum=s) for s in (1, 2)]
    rows = rows_of(1, range(1, 5))
    fine = judged({1: 4}, rows, [*registers_after(1, 4), *old], before=before)
    assert (fine.counts, fine.earlier) == ({}, 2)
    gone = judged({1: 4}, rows, [*registers_after(1, 4), old[0]], before=before)
    assert gone.earlier_lost == {3: 1}
