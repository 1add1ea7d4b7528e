"""Each operation decides the transaction that the one before it prepared.

Then it leaves its row in the ledger, and prepares a transaction of its own.  So at most
one is prepared for each session, for as long as its operations take.
"""

from __future__ import annotations

from dbcheck.rows.effects import with_effects
from dbcheck.rows.leftover import Name, is_committed
from dbcheck.rows.markers import Markers
from dbcheck.rows.observed import Observed
from dbcheck.rows.operation import Operation, Statement, StatementSpec, TwoPhase
from dbcheck.rows.plans.insert import INSERT
from dbcheck.rows.plans.mixed import INSERT_ITEM
from dbcheck.rows.plans.twophase_judge import PART, judge_two_phase
from dbcheck.rows.reconcile import Reconciliation, reconcile
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import Inspector
from dbcheck.rows.table import ITEM, LEDGER, TableSpec


class TwoPhasePlan:
    """See rows.plans.plan.Plan."""

    tables: tuple[TableSpec, ...] = (LEDGER, ITEM)
    statements: tuple[StatementSpec, ...] = (INSERT, INSERT_ITEM)
    replaces_sessions = True
    prepares_in: TableSpec | None = ITEM
    sides: tuple[TableSpec, ...] = ()
    chore_statements: tuple[StatementSpec, ...] = ()
    conditions = ""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        epoch, values = self._schedule.epoch, self._schedule.values
        name = str(Name(epoch, session, seq))
        statements = [
            Statement(INSERT.name, values(session, seq)),
            TwoPhase.BEGIN.of(name),
            Statement(INSERT_ITEM.name, values(session, seq, PART)),
            TwoPhase.PREPARE.of(name),
        ]
        if seq > 1:
            step = TwoPhase.COMMIT if is_committed(seq - 1) else TwoPhase.ROLLBACK
            statements.insert(0, step.of(str(Name(epoch, session, seq - 1))))
        return Operation(session, seq, tuple(statements))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return what judges the content of each row of *table*."""
        if table == LEDGER:
            return Inspector(self._schedule)
        return Inspector(self._schedule, range(PART, PART + 1))

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        epoch = self._schedule.epoch
        inserted = reconcile(seen, LEDGER, epoch)
        markers = Markers(seen, LEDGER, epoch)
        effects = judge_two_phase(seen, ITEM, epoch, markers)
        return with_effects(inserted, [effects], seen.acks, markers)
