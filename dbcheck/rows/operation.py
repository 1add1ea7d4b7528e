"""Transactions of statements, as a session sends them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from dbcheck.rows.table import Column, TableSpec
from dbcheck.rows.tasks import TaskKind

Value = int | bytes


class Verb(enum.Enum):
    """Verb of a statement."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    # Verbs of housekeeping; see rows.tasks.
    CREATE = "create"
    INDEX = "index"
    REWRITE = "rewrite"
    TRUNCATE = "truncate"
    DROP = "drop"
    VACUUM = "vacuum"
    CHECKPOINT = "checkpoint"
    ROTATE = "rotate"


_SERVER_VERBS = (Verb.CHECKPOINT, Verb.ROTATE)


@dataclass(frozen=True, slots=True)
class StatementSpec:
    """One statement that sessions prepare.

    table:      the table that it changes; the ledger, if it changes the server instead.
    parameters: the columns whose values it takes, in the order of its parameters.
    rows:       how many rows each execution changes, exactly.
    is_late:    it cannot be prepared: when a session begins, its table may be absent.
    """

    verb: Verb
    table: TableSpec
    parameters: tuple[Column, ...] = ()
    rows: int = 1
    is_late: bool = False

    @property
    def name(self) -> str:
        """The name of its file under sql/FAMILY/."""
        verb = self.verb.value if self.rows == 1 else "batch"
        return verb if self.verb in _SERVER_VERBS else f"{verb}_{self.table.name}"


def list_verbs_by_table(
    statements: Iterable[StatementSpec],
) -> dict[TableSpec, tuple[Verb, ...]]:
    """Return the tables that *statements* write to, with the verbs, each once."""
    verbs_by_table: dict[TableSpec, dict[Verb, None]] = {}
    for spec in statements:
        verbs_by_table.setdefault(spec.table, {})[spec.verb] = None
    return {table: tuple(verbs) for table, verbs in verbs_by_table.items()}


@dataclass(frozen=True, slots=True)
class Usage:
    """What a load does on the server: the rights of its account follow from this.

    verbs:    table -> the verbs of the statements on it; INSERT, UPDATE and DELETE.
    tasks:    the kinds of its housekeeping tasks.
    prepares: its transactions are prepared before they are committed.
    """

    verbs: Mapping[TableSpec, tuple[Verb, ...]]
    tasks: tuple[TaskKind, ...] = ()
    prepares: bool = False

    @property
    def all_verbs(self) -> tuple[Verb, ...]:
        """The verbs on any table, each once, in the order of Verb."""
        used = {verb for verbs in self.verbs.values() for verb in verbs}
        return tuple(verb for verb in Verb if verb in used)


# A load makes one Statement and one Operation for each commit, or more; a NamedTuple
# takes seven times as long.  They cannot form cycles, so gc=False.
class Statement(msgspec.Struct, frozen=True, gc=False):
    """One execution of the statement *name*: values in the order of its parameters."""

    name: str
    values: tuple[Value, ...]


# What a transaction may do beside its statements.
# Rolls back all that the transaction did so far; then the transaction begins again.
ROLLBACK = Statement("rollback", ())
SAVEPOINT = Statement("savepoint", ())
ROLLBACK_TO = Statement("rollback to savepoint", ())
CONTROLS = (ROLLBACK, SAVEPOINT, ROLLBACK_TO)


class TwoPhase(enum.Enum):
    """A step of a two-phase commit; its only value names the transaction, in ASCII.

    COMMIT and ROLLBACK come first in their operation, before its own transactions.
    BEGIN commits what the operation did so far, and begins the transaction that is
    prepared; PREPARE comes last, in the place of the operation's commit.
    """

    COMMIT = "commit prepared"
    ROLLBACK = "rollback prepared"
    BEGIN = "begin to prepare"
    PREPARE = "prepare"

    def of(self, name: str) -> Statement:
        """Return the step for the transaction *name*."""
        return Statement(self.value, (name.encode("ascii"),))


DECISIONS = (TwoPhase.COMMIT, TwoPhase.ROLLBACK)


class Operation(msgspec.Struct, frozen=True, gc=False):
    """Statements that are acked at once: number *seq*, from 1 on, of a session.

    Its statements, and CONTROLS among them, run in their order; a commit follows.  It
    is one transaction, or several where it has steps of a TwoPhase commit.
    """

    session: int
    seq: int
    statements: tuple[Statement, ...]
