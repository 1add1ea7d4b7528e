"""Kinds of operations that a session mixes, and how often each comes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from msgspec import Meta

from dbcheck.base.text import Explained

BATCH_ROWS = 4  # rows that one batch inserts
_WEIGHT_MAX = 16

Weight = Annotated[int, Meta(ge=0, le=_WEIGHT_MAX)]


class Action(Explained):
    """Part of an operation beside the row that it inserts into the ledger."""

    INSERT = "insert", "Does nothing else."
    BATCH = "batch", f"Inserts {BATCH_ROWS} items by one statement."
    REGISTERS = "registers", "Writes one register."
    TRANSFER = "transfer", "Writes both registers of a pair."
    UPDATE = "update", "Updates an item that an earlier batch inserted."
    DELETE = "delete", "Deletes an item that an earlier batch inserted."
    ROLLBACK = (
        "rollback",
        "Inserts and updates items in a transaction before, and rolls that back.",
    )
    SAVEPOINT = (
        "savepoint",
        "Inserts two items, and rolls back to a savepoint before the second.",
    )


ACTIONS = tuple(Action)
NEED_ITEMS = (Action.UPDATE, Action.DELETE)  # they change items of a batch


@dataclass(frozen=True, slots=True)
class Mix:
    """Weight of each kind of operation, beside the others.

    The fields have the names of the actions.
    """

    insert: Weight = 0
    batch: Weight = 0
    registers: Weight = 0
    transfer: Weight = 0
    update: Weight = 0
    delete: Weight = 0
    rollback: Weight = 0
    savepoint: Weight = 0

    def weight(self, action: Action) -> int:
        """Return the number of operations of that kind in a deck."""
        return int(getattr(self, action.value))

    @property
    def actions(self) -> tuple[Action, ...]:
        """The kinds that occur."""
        return tuple(action for action in ACTIONS if self.weight(action))

    def problem(self) -> str:
        """Return the reason why no deck can have these weights, "" if one can."""
        if not self.actions:
            return "no operation has a weight"
        changed = sum(self.weight(action) for action in NEED_ITEMS)
        if changed > self.batch * BATCH_ROWS:
            return (
                f"update and delete take {changed} rows, and the batches of a deck"
                f" insert {self.batch * BATCH_ROWS}"
            )
        return ""


assert [field.name for field in fields(Mix)] == [action.value for action in ACTIONS]
