"""The order in which the sessions of a run take the operations of their mix.

Each session takes them from shuffled decks, one after the other.  Each deck has as many
operations of a kind as any other deck, in proportion to the kind's weight; so it is
known how many operations of a kind the decks before have, without dealing them.  The
order is drawn from the seed, the session and the number of the deck: a pure function of
the key.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dbcheck.rows.mix import ACTIONS, BATCH_ROWS, NEED_ITEMS, Action, Mix

# An item that is rolled back has a part that no other item of its operation can have.
ROLLED_BACK_PART = PARTS_MAX = BATCH_ROWS + 1
SLOTS = 4  # registers of a session that are written one by one
PAIRS = 2  # pairs of registers that are written together, numbered after the SLOTS
REGISTERS_MAX = SLOTS + 2 * PAIRS
_DECK_MIN = 16  # operations; a deck takes longer to shuffle than to deal
_DEALT_AT_ONCE = 1 << 16  # operations
_DRAW_BYTES = 2  # for each operation of a deck
_SEED_DECK = struct.Struct("<QQQ")
_CODES = {action: code for code, action in enumerate(ACTIONS)}
_CHANGE_ITEMS = (*NEED_ITEMS, Action.ROLLBACK)  # a rollback may have no item to update


class Card(NamedTuple):
    """One operation of a deck.

    rank: how many operations of the same kind the session has before this one.
    """

    action: Action
    rank: int


@dataclass(frozen=True, slots=True)
class Deck:
    """One shuffled deck of a session.

    number: of the deck, from 0 on.
    cards:  its operations, in their order.
    """

    number: int
    cards: tuple[Card, ...]

    def numbers(self, action: Action) -> tuple[int, ...]:
        """Return the seq of each operation of that kind, in their order."""
        first = self.number * len(self.cards) + 1
        return tuple(
            seq for seq, card in enumerate(self.cards, first) if card.action is action
        )


@dataclass(frozen=True, slots=True)
class Dealt:
    """Some decks of a session, one behind the other.

    first: number of the first of them.
    """

    first: int
    _codes: npt.NDArray[np.uint8]  # a deck in each line

    def numbers(self, action: Action) -> npt.NDArray[np.int64]:
        """Return the seq of each operation of that kind, one line for each deck."""
        decks, length = self._codes.shape
        lines, places = np.nonzero(self._codes == _CODES[action])
        found: npt.NDArray[np.int64] = (self.first + lines) * length + places + 1
        return found.reshape(decks, -1)


class Decks:
    """The decks of every session of a run.

    weights: how many operations of each kind a deck has.
    length:  how many operations it has.
    registers: the parts of the registers that each session has.
    """

    def __init__(self, mix: Mix, seed: int) -> None:
        """Deal by *mix*, which has no problem()."""
        self._seed = seed
        times = -(-_DECK_MIN // sum(map(mix.weight, ACTIONS)))
        self.weights = {action: times * mix.weight(action) for action in ACTIONS}
        self._sorted = [a for a in ACTIONS for _ in range(self.weights[a])]
        self.length = len(self._sorted)
        single = range(1, SLOTS + 1 if self.weights[Action.REGISTERS] else 1)
        paired = range(
            SLOTS + 1, REGISTERS_MAX + 1 if self.weights[Action.TRANSFER] else 1
        )
        self.registers = frozenset((*single, *paired))
        self._draws_format = f"<{self.length}H"  # no Struct: that cannot be pickled

    def deck(self, session: int, number: int) -> Deck:
        """Return one deck."""
        draws = struct.unpack(self._draws_format, self._draw_bytes(session, number))
        order = sorted(range(self.length), key=draws.__getitem__)
        counted: Counter[Action] = Counter()
        cards = []
        for place in order:
            action = self._sorted[place]
            rank = number * self.weights[action] + counted[action]
            counted[action] += 1
            cards.append(Card(action, rank))
        return Deck(number, tuple(cards))

    def target(self, card: Card, number: int) -> int:
        """Return the number of the item that *card*, of deck *number*, changes.

        The item is of the deck before.  Items are counted from 0 on, as the batches of
        their deck insert them; there may be fewer items than the returned number.  No
        two cards of a deck change the same item.
        """
        actions_before = takewhile(
            lambda action: action is not card.action, _CHANGE_ITEMS
        )
        place = card.rank - number * self.weights[card.action]
        return sum(self.weights[action] for action in actions_before) + place

    def dealt(self, session: int, top: int, *, more: int = 0) -> Iterator[Dealt]:
        """Yield the decks of a session as far as its operation *top*, many at once.

        more: how many following decks to add each time; the next decks begin with
              these.
        """
        count, at_once = -(-top // self.length), max(1, _DEALT_AT_ONCE // self.length)
        for first in range(0, count, at_once):
            yield self._deal_decks(session, first, min(at_once, count - first) + more)

    def _deal_decks(self, session: int, first: int, count: int) -> Dealt:
        """Return *count* decks from number *first* on."""
        draws = b"".join(
            self._draw_bytes(session, n) for n in range(first, first + count)
        )
        lines = np.frombuffer(draws, "<u2").reshape(count, self.length)
        codes = np.array([_CODES[action] for action in self._sorted], np.uint8)
        return Dealt(first, codes[np.argsort(lines, axis=1, kind="stable")])

    def _draw_bytes(self, session: int, number: int) -> bytes:
        name = _SEED_DECK.pack(self._seed, session, number)
        return hashlib.shake_128(name).digest(_DRAW_BYTES * self.length)


def list_written_slots(card: Card) -> Iterator[int]:
    """Yield the registers that an operation writes, 1-based."""
    if card.action is Action.REGISTERS:
        yield card.rank % SLOTS + 1
    elif card.action is Action.TRANSFER:
        first = SLOTS + card.rank % PAIRS * 2 + 1
        yield from (first, first + 1)


def is_first_write(card: Card) -> bool:
    """Return True if *card* is the first of its session to write its registers."""
    return card.rank < (SLOTS if card.action is Action.REGISTERS else PAIRS)
