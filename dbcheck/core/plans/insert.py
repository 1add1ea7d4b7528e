"""Each operation inserts one row, which bears its key and bytes to recognise."""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.core.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.core.plans.plan import AckStream, SurvivorStream
from dbcheck.core.reconcile import Claim, Reconciliation, reconcile
from dbcheck.core.schedule import Schedule
from dbcheck.core.survivors import Inspector
from dbcheck.core.table import LEDGER, TableFacts, TableSpec

INSERT = StatementSpec(Verb.INSERT, LEDGER, LEDGER.columns[1:])
_NAME = INSERT.name


class InsertPlan:
    """See core.plans.plan.Plan."""

    tables: tuple[TableSpec, ...] = (LEDGER,)
    statements: tuple[StatementSpec, ...] = (INSERT,)
    replaces_sessions = True

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        values = self._schedule.values(session, seq)
        return Operation(session, seq, (Statement(_NAME, values),))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return what judges the content of each row."""
        return Inspector(self._schedule)

    def judge(
        self,
        acks: AckStream,
        survivors: Mapping[str, SurvivorStream],
        *,
        before: Mapping[str, TableFacts],
        claim: Claim | None,
        window_acks: int,
    ) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        return reconcile(
            acks,
            survivors[LEDGER.name],
            epoch=self._schedule.epoch,
            before=before[LEDGER.name],
            claim=claim,
            window_acks=window_acks,
        )
