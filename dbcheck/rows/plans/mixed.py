"""Operations of several kinds, mixed by weight (rows.mix), over up to three tables.

Every operation inserts a row into the ledger, in its last transaction: so the row shows
after recovery whether the operation took place, and the other tables must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from dbcheck.rows.acks import Ints
from dbcheck.rows.decks import (
    PAIRS,
    PARTS_MAX,
    REGISTERS_MAX,
    ROLLED_BACK_PART,
    SLOTS,
    Card,
    Dealt,
    Deck,
    Decks,
    is_first_write,
    list_written_slots,
)
from dbcheck.rows.effects import Markers, add_effects
from dbcheck.rows.items import Items, judge_items
from dbcheck.rows.mix import BATCH_ROWS, Action, Mix
from dbcheck.rows.operation import (
    ROLLBACK,
    ROLLBACK_TO,
    SAVEPOINT,
    Operation,
    Statement,
    StatementSpec,
    Verb,
)
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.reconcile import Observed, Reconciliation, reconcile
from dbcheck.rows.registers import judge_registers
from dbcheck.rows.schedule import RowValues, Schedule
from dbcheck.rows.survivors import Inspector
from dbcheck.rows.table import ITEM, LEDGER, REGISTER, TableSpec


def list_dealt_items(decks: Decks, session: int, top: int) -> Iterator[Items]:
    """Yield the items of a session; see rows.items.Written."""
    for dealt in decks.dealt(session, top, more=1):
        yield from _list_items_of_decks(dealt, decks)


def list_dealt_registers(
    decks: Decks, session: int, top: int
) -> Iterator[tuple[Ints, Ints]]:
    """Yield the registers that a session writes; see rows.registers.Written."""
    for dealt in decks.dealt(session, top):
        yield from _list_registers_of_decks(dealt, decks)


def _list_items_of_decks(dealt: Dealt, decks: Decks) -> Iterator[Items]:
    """Yield the items of all decks of *dealt* but the last.

    Operations of a deck update and delete items of the deck before; so the last deck is
    only needed for what it writes to these items.  An item that was rolled back, as a
    whole or to a savepoint, counts as inserted by no operation.
    """
    batches = dealt.numbers(Action.BATCH)[:-1]
    inserted = np.repeat(batches, BATCH_ROWS, axis=1)
    part = np.broadcast_to(
        np.tile(np.arange(1, BATCH_ROWS + 1), batches.shape[1]), inserted.shape
    )
    columns = []
    items_before = 0
    for action in (Action.UPDATE, Action.DELETE, Action.ROLLBACK):
        writers = dealt.numbers(action)[1:]
        writers = writers[:, : max(0, inserted.shape[1] - items_before)]
        column = np.zeros_like(inserted)
        column[:, items_before : items_before + writers.shape[1]] = writers
        items_before += decks.weights[action]
        columns.append(column.ravel())
    yield Items(part.ravel(), inserted.ravel(), *columns)
    savepoints = dealt.numbers(Action.SAVEPOINT)[:-1].ravel()
    yield Items.inserts(np.ones_like(savepoints), savepoints)
    for action in (Action.SAVEPOINT, Action.ROLLBACK):
        rolled_back = dealt.numbers(action)[:-1].ravel()
        yield Items.undone(np.full_like(rolled_back, ROLLED_BACK_PART), rolled_back)


def _list_registers_of_decks(dealt: Dealt, decks: Decks) -> Iterator[tuple[Ints, Ints]]:
    seq = dealt.numbers(Action.REGISTERS).ravel()
    writes_before = dealt.first * decks.weights[Action.REGISTERS]
    yield (writes_before + np.arange(seq.size)) % SLOTS + 1, seq
    seq = dealt.numbers(Action.TRANSFER).ravel()
    writes_before = dealt.first * decks.weights[Action.TRANSFER]
    first_of_pair = SLOTS + (writes_before + np.arange(seq.size)) % PAIRS * 2 + 1
    yield first_of_pair, seq
    yield first_of_pair + 1, seq


REGISTER_BYTES = 100

Target = tuple[int, int]  # seq and part of an item


_UPDATED_COLUMNS = ("seq", "payload", "checksum")
INSERT_ITEM = StatementSpec(Verb.INSERT, ITEM, ITEM.columns[1:])
BATCH_ITEM = StatementSpec(
    Verb.INSERT, ITEM, ITEM.columns[1:] * BATCH_ROWS, rows=BATCH_ROWS
)
UPDATE_ITEM = StatementSpec(
    Verb.UPDATE, ITEM, ITEM.named(*_UPDATED_COLUMNS, "epoch", "session", "seq", "part")
)
DELETE_ITEM = StatementSpec(
    Verb.DELETE, ITEM, ITEM.named("epoch", "session", "seq", "part")
)
INSERT_REGISTER = StatementSpec(Verb.INSERT, REGISTER, REGISTER.columns[1:])
UPDATE_REGISTER = StatementSpec(
    Verb.UPDATE, REGISTER, REGISTER.named(*_UPDATED_COLUMNS, "epoch", "session", "part")
)

_REGISTER_STATEMENTS = (INSERT_REGISTER, UPDATE_REGISTER)
_STATEMENTS: dict[Action, tuple[StatementSpec, ...]] = {
    Action.INSERT: (),
    Action.BATCH: (BATCH_ITEM,),
    Action.REGISTERS: _REGISTER_STATEMENTS,
    Action.TRANSFER: _REGISTER_STATEMENTS,
    Action.UPDATE: (UPDATE_ITEM,),
    Action.DELETE: (DELETE_ITEM,),
    Action.ROLLBACK: (INSERT_ITEM, UPDATE_ITEM),
    Action.SAVEPOINT: (INSERT_ITEM,),
}


class _NewestDeck(NamedTuple):
    """A deck of a session, and the items that the deck before it inserted.

    deck:    see rows.decks.Deck.
    targets: the items, as list_batch_items() returns them.
    """

    deck: Deck
    targets: Sequence[Target]


class MixedPlan:
    """See rows.plans.plan.Plan."""

    replaces_sessions = True
    prepares_in: TableSpec | None = None
    housekeeping_tables: tuple[TableSpec, ...] = ()
    housekeeping_statements: tuple[StatementSpec, ...] = ()
    violations_statement = ""

    def __init__(self, schedule: Schedule, mix: Mix) -> None:
        """Plan operations by *mix*, which has no problem()."""
        self._schedule = schedule
        self._register_schedule = Schedule(
            schedule.seed, schedule.epoch, (REGISTER_BYTES,)
        )
        self._decks = Decks(mix, schedule.seed)
        self.statements = statements_of_mix(mix)
        self.tables = tuple(dict.fromkeys(spec.table for spec in self.statements))
        self._dealt: dict[int, _NewestDeck] = {}  # session -> its newest deck
        self._statement_makers: dict[
            Action, Callable[[int, int, Card], list[Statement]]
        ] = {
            Action.INSERT: self._make_nothing,
            Action.BATCH: self._make_batch,
            Action.REGISTERS: self._make_register_writes,
            Action.TRANSFER: self._make_register_writes,
            Action.UPDATE: self._make_update,
            Action.DELETE: self._make_delete,
        }

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        number, place = divmod(seq - 1, self._decks.length)
        dealt = self._dealt.get(session)
        if dealt is None or dealt.deck.number != number:
            dealt = self._deal_deck(session, number)
        card = dealt.deck.cards[place]
        marker = Statement(INSERT.name, self._schedule.values(session, seq))
        if card.action is Action.ROLLBACK:
            statements = [
                *self._make_rollback(session, seq, card),
                ROLLBACK,
                marker,
            ]
        elif card.action is Action.SAVEPOINT:
            statements = [*self._make_savepoint(session, seq), marker]
        else:
            statements = [
                marker,
                *self._statement_makers[card.action](session, seq, card),
            ]
        return Operation(session, seq, tuple(statements))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return the judge of the content of each row of *table*."""
        if table == LEDGER:
            return Inspector(self._schedule)
        if table == ITEM:
            return Inspector(self._schedule, range(1, PARTS_MAX + 1))
        return Inspector(self._register_schedule, range(1, REGISTERS_MAX + 1))

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        epoch = self._schedule.epoch
        inserted = reconcile(seen, LEDGER, epoch)
        if len(self.tables) == 1:
            return inserted
        markers = Markers(seen, LEDGER, epoch)
        effects = []
        if ITEM in self.tables:
            items = partial(list_dealt_items, self._decks)
            effects.append(judge_items(seen, ITEM, epoch, markers, items))
        if REGISTER in self.tables:
            registers = partial(list_dealt_registers, self._decks)
            parts = self._decks.registers
            effects.append(
                judge_registers(seen, REGISTER, epoch, markers, registers, parts)
            )
        return add_effects(inserted, effects, seen.acks, markers)

    def _deal_deck(self, session: int, number: int) -> _NewestDeck:
        """Return deck *number* of a session, and keep it as the newest one."""
        latest = self._dealt.get(session)
        if latest is not None and latest.deck.number == number - 1:
            deck_before = latest.deck
        else:
            deck_before = self._decks.deck(session, max(0, number - 1))
        targets = list_batch_items(deck_before) if number else ()
        newest = _NewestDeck(self._decks.deck(session, number), targets)
        self._dealt[session] = newest
        return newest

    def _find_target(self, session: int, card: Card) -> Target | None:
        """Return the item that *card* of the newest deck writes to, None if to none."""
        dealt = self._dealt[session]
        place = self._decks.target(card, dealt.deck.number)
        return dealt.targets[place] if place < len(dealt.targets) else None

    def _make_nothing(self, session: int, seq: int, card: Card) -> list[Statement]:
        return []

    def _make_batch(self, session: int, seq: int, card: Card) -> list[Statement]:
        parts = range(1, BATCH_ROWS + 1)
        rows = [self._schedule.values(session, seq, part) for part in parts]
        values = tuple(value for row in rows for value in row)
        return [Statement(BATCH_ITEM.name, values)]

    def _make_insert(self, session: int, seq: int, part: int) -> Statement:
        values = self._schedule.values(session, seq, part)
        return Statement(INSERT_ITEM.name, values)

    def _make_update(self, session: int, seq: int, card: Card) -> list[Statement]:
        target = self._find_target(session, card)
        if target is None:
            return []
        written_by, part = target
        updated = _select_written_values(self._schedule.values(session, seq, part))
        values = (*updated, self._schedule.epoch, session, written_by, part)
        return [Statement(UPDATE_ITEM.name, values)]

    def _make_delete(self, session: int, seq: int, card: Card) -> list[Statement]:
        target = self._find_target(session, card)
        if target is None:
            return []
        return [Statement(DELETE_ITEM.name, (self._schedule.epoch, session, *target))]

    def _make_rollback(self, session: int, seq: int, card: Card) -> list[Statement]:
        inserted = self._make_insert(session, seq, ROLLED_BACK_PART)
        return [inserted, *self._make_update(session, seq, card)]

    def _make_savepoint(self, session: int, seq: int) -> list[Statement]:
        """Return the statements that come before the row of the ledger.

        No item is inserted after the rollback: InnoDB keeps the gap of a row that is
        rolled back locked, and two sessions that insert into one gap would deadlock.
        """
        kept = self._make_insert(session, seq, 1)
        rolled_back = self._make_insert(session, seq, ROLLED_BACK_PART)
        return [kept, SAVEPOINT, rolled_back, ROLLBACK_TO]

    def _make_register_writes(
        self, session: int, seq: int, card: Card
    ) -> list[Statement]:
        statements = []
        for slot in list_written_slots(card):
            values = self._register_schedule.values(session, seq, slot)
            if is_first_write(card):
                statements.append(Statement(INSERT_REGISTER.name, values))
            else:
                key = (self._schedule.epoch, session, slot)
                written = (*_select_written_values(values), *key)
                statements.append(Statement(UPDATE_REGISTER.name, written))
        return statements


def statements_of_mix(mix: Mix) -> tuple[StatementSpec, ...]:
    """Return the statements of operations mixed by *mix*."""
    used = (spec for action in mix.actions for spec in _STATEMENTS[action])
    return tuple(dict.fromkeys((INSERT, *used)))


def list_batch_items(deck: Deck) -> list[Target]:
    """Return the items that the batches of *deck* insert, in their order."""
    parts = range(1, BATCH_ROWS + 1)
    return [(seq, part) for seq in deck.numbers(Action.BATCH) for part in parts]


def _select_written_values(values: RowValues) -> tuple[int, bytes, int]:
    """Return the values that an update writes: seq, payload and checksum of a row."""
    _, _, seq, _, payload, check = values
    return seq, payload, check
