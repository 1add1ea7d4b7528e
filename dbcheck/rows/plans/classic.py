"""Each operation inserts an auto-increment id and nothing else."""

from __future__ import annotations

from dbcheck.rows.observed import Observed
from dbcheck.rows.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.rows.plans.classic_judge import reconcile_ids
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import Inspector
from dbcheck.rows.table import CLASSIC, TableSpec

INSERT_ID = StatementSpec(Verb.INSERT, CLASSIC, ())
_STATEMENTS = (Statement(INSERT_ID.name, ()),)


class ClassicPlan:
    """See rows.plans.plan.Plan.

    An id names a row only as long as nothing writes after a crash, so no session is
    replaced.
    """

    tables: tuple[TableSpec, ...] = (CLASSIC,)
    statements: tuple[StatementSpec, ...] = (INSERT_ID,)
    replaces_sessions = False
    prepares_in: TableSpec | None = None
    sides: tuple[TableSpec, ...] = ()
    chore_statements: tuple[StatementSpec, ...] = ()
    conditions = ""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        return Operation(session, seq, _STATEMENTS)

    def inspector(self, table: TableSpec) -> Inspector:
        """Return what takes every row as it is: an id has no content."""
        return Inspector(self._schedule)

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each id, acked or read; see Plan.judge."""
        return reconcile_ids(seen, CLASSIC)
