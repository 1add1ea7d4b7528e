"""Each operation inserts one row, which has its key and bytes to recognise."""

from __future__ import annotations

from dbcheck.rows.observed import Observed
from dbcheck.rows.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.rows.reconcile import Reconciliation, reconcile
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import Inspector
from dbcheck.rows.table import LEDGER, TableSpec

INSERT = StatementSpec(Verb.INSERT, LEDGER, LEDGER.columns[1:])
_NAME = INSERT.name


class InsertPlan:
    """See rows.plans.plan.Plan."""

    tables: tuple[TableSpec, ...] = (LEDGER,)
    statements: tuple[StatementSpec, ...] = (INSERT,)
    replaces_sessions = True
    prepares_in: TableSpec | None = None
    sides: tuple[TableSpec, ...] = ()
    chore_statements: tuple[StatementSpec, ...] = ()
    conditions = ""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._values = schedule, schedule.values

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        statement = Statement(_NAME, self._values(session, seq))
        return Operation(session, seq, (statement,))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return what judges the content of each row."""
        return Inspector(self._schedule)

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        return reconcile(seen, LEDGER, self._schedule.epoch)
