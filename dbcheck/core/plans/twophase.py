"""Each operation decides the transaction that the one before it prepared.

Then it leaves its row in the ledger, and prepares a transaction of its own.  So at most
one is prepared for each session, for as long as its operations take.
"""

from __future__ import annotations

from dbcheck.core.effects import with_effects
from dbcheck.core.leftover import Name, is_committed
from dbcheck.core.markers import Markers
from dbcheck.core.observed import Observed
from dbcheck.core.operation import Operation, Statement, StatementSpec, TwoPhase
from dbcheck.core.plans.insert import INSERT
from dbcheck.core.plans.mixed import INSERT_ITEM
from dbcheck.core.reconcile import Reconciliation, reconcile
from dbcheck.core.schedule import Schedule
from dbcheck.core.survivors import Inspector
from dbcheck.core.table import ITEM, LEDGER, TableSpec
from dbcheck.core.twophase import PART, judge_two_phase


class TwoPhasePlan:
    """See core.plans.plan.Plan."""

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
