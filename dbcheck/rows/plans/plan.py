"""Protocol of a kind of workload: its tables, its operations, its judge.

InsertPlan is the plainest: each operation inserts one row, which has its key and bytes
to recognise.
"""

from __future__ import annotations

from typing import Protocol

from dbcheck.rows.batches import Batches
from dbcheck.rows.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.rows.reconcile import Observed, Reconciliation, reconcile
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import Inspector
from dbcheck.rows.table import LEDGER, TableSpec


class Plan(Protocol):
    """One run's operations, and what the tables must hold after them.

    Everything is a pure function of the run's seed and epoch, so that anyone who has
    them can judge the run.  A plan can be pickled for a process of the load.

    tables:     in the order in which they are created and read.
    statements: all that its operations use; the first inserts the row whose id is
                acked; each operation executes it exactly once.
    replaces_sessions: a session that broke may be replaced, under a new number.
    prepares_in: the table that its prepared transactions write to, None if it prepares
                none (rows.operation.TwoPhase); each session has at most one at a time.
    housekeeping_tables: the tables that housekeeping creates and drops; () if the plan
                has no housekeeping.
    housekeeping_statements: the statements of the housekeeping session, with the INSERT
                that is acked; () if the plan has no housekeeping.
    violations_statement: the statement of sql/ that finds which conditions do not hold
                among the rows of an epoch (rows.loss); "" if the plan has none.
    """

    tables: tuple[TableSpec, ...]
    statements: tuple[StatementSpec, ...]
    replaces_sessions: bool
    prepares_in: TableSpec | None
    housekeeping_tables: tuple[TableSpec, ...]
    housekeeping_statements: tuple[StatementSpec, ...]
    violations_statement: str

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation that *session* sends as its number *seq*, from 1 on."""

    def inspector(self, table: TableSpec) -> Inspector:
        """Return the Inspector that checks the content of each row of *table*."""

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row that was read.

        Raise LogDamaged if the rows show that acks are gone from the log.
        """


INSERT = StatementSpec(Verb.INSERT, LEDGER, LEDGER.columns[1:])
_NAME = INSERT.name


class InsertPlan:
    """See rows.plans.plan.Plan."""

    tables: tuple[TableSpec, ...] = (LEDGER,)
    statements: tuple[StatementSpec, ...] = (INSERT,)
    replaces_sessions = True
    prepares_in: TableSpec | None = None
    housekeeping_tables: tuple[TableSpec, ...] = ()
    housekeeping_statements: tuple[StatementSpec, ...] = ()
    violations_statement = ""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._values = schedule, schedule.values

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        statement = Statement(_NAME, self._values(session, seq))
        return Operation(session, seq, (statement,))

    def batches(self) -> Batches | None:
        """Return a maker of the rows of many operations at once.

        None if each operation is made by itself.
        """
        has_payloads = bool(self._schedule.payload_bytes)
        return Batches(self._schedule) if has_payloads else None

    def inspector(self, table: TableSpec) -> Inspector:
        """Return the Inspector that compares each row with the schedule."""
        return Inspector(self._schedule)

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        return reconcile(seen, LEDGER, self._schedule.epoch)
