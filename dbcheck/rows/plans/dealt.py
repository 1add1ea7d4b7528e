"""Which rows the operations of a mix write beside the ledger, in columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dbcheck.rows.decks import PAIRS, ROLLED_BACK_PART, SLOTS, Dealt, Decks
from dbcheck.rows.expected import Ints
from dbcheck.rows.items import Items
from dbcheck.rows.mix import BATCH_ROWS, Action


def items_dealt(decks: Decks, session: int, top: int) -> Iterator[Items]:
    """Yield the items of a session; see rows.items.Written."""
    for dealt in decks.dealt(session, top, more=1):
        yield from _items(dealt, decks)


def registers_dealt(
    decks: Decks, session: int, top: int
) -> Iterator[tuple[Ints, Ints]]:
    """Yield which registers of a session are written; see rows.registers.Written."""
    for dealt in decks.dealt(session, top):
        yield from _registers(dealt, decks)


def _items(dealt: Dealt, decks: Decks) -> Iterator[Items]:
    """Yield the items of all decks of *dealt* but the last, which only writes to them.

    What a rollback or a rollback to a savepoint took back was inserted by none.
    """
    batches = dealt.numbers(Action.BATCH)[:-1]
    inserted = np.repeat(batches, BATCH_ROWS, axis=1)
    part = np.broadcast_to(
        np.tile(np.arange(1, BATCH_ROWS + 1), batches.shape[1]), inserted.shape
    )
    columns = []
    begin = 0
    for action in (Action.UPDATE, Action.DELETE, Action.ROLLBACK):
        writing = dealt.numbers(action)[1:]
        writing = writing[:, : max(0, inserted.shape[1] - begin)]
        column = np.zeros_like(inserted)
        column[:, begin : begin + writing.shape[1]] = writing
        begin += decks.weights[action]
        columns.append(column.ravel())
    yield Items(part.ravel(), inserted.ravel(), *columns)
    savepoints = dealt.numbers(Action.SAVEPOINT)[:-1].ravel()
    yield Items.inserts(np.ones_like(savepoints), savepoints)
    for action in (Action.SAVEPOINT, Action.ROLLBACK):
        undone = dealt.numbers(action)[:-1].ravel()
        yield Items.undone(np.full_like(undone, ROLLED_BACK_PART), undone)


def _registers(dealt: Dealt, decks: Decks) -> Iterator[tuple[Ints, Ints]]:
    seq = dealt.numbers(Action.REGISTERS).ravel()
    before = dealt.first * decks.weights[Action.REGISTERS]
    yield (before + np.arange(seq.size)) % SLOTS + 1, seq
    seq = dealt.numbers(Action.TRANSFER).ravel()
    before = dealt.first * decks.weights[Action.TRANSFER]
    first = SLOTS + (before + np.arange(seq.size)) % PAIRS * 2 + 1
    yield first, seq
    yield first + 1, seq
