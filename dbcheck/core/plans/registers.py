"""Each operation inserts one row and updates another, of a second table.

A session has a few registers, which its operations write in turn.  So after recovery
each register must hold the last of its operations whose inserted row is present.
"""

from __future__ import annotations

from dbcheck.core.observed import Observed
from dbcheck.core.operation import Operation, Statement, StatementSpec, Verb
from dbcheck.core.plans.insert import INSERT
from dbcheck.core.reconcile import Reconciliation, reconcile
from dbcheck.core.registers import judge_registers
from dbcheck.core.schedule import Schedule
from dbcheck.core.survivors import Inspector
from dbcheck.core.table import LEDGER, REGISTER, TableSpec

SLOTS = 4  # registers of each session
REGISTER_BYTES = 100

_COLUMNS = {column.name: column for column in REGISTER.columns}
INSERT_REGISTER = StatementSpec(Verb.INSERT, REGISTER, REGISTER.columns[1:])
UPDATE_REGISTER = StatementSpec(
    Verb.UPDATE,
    REGISTER,
    tuple(
        _COLUMNS[name]
        for name in ("seq", "payload", "checksum", "epoch", "session", "part")
    ),
)
_INSERT, _FIRST, _NEXT = INSERT.name, INSERT_REGISTER.name, UPDATE_REGISTER.name


class RegistersPlan:
    """See core.plans.plan.Plan."""

    tables: tuple[TableSpec, ...] = (LEDGER, REGISTER)
    statements: tuple[StatementSpec, ...] = (INSERT, INSERT_REGISTER, UPDATE_REGISTER)
    replaces_sessions = True

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._registers = Schedule(schedule.seed, schedule.epoch, (REGISTER_BYTES,))

    def operation(self, session: int, seq: int) -> Operation:
        """Return the operation (session, seq)."""
        part = (seq - 1) % SLOTS + 1
        values = self._registers.values(session, seq, part)
        if seq <= SLOTS:
            write = Statement(_FIRST, values)
        else:
            epoch, *_, content, check = values
            write = Statement(_NEXT, (seq, content, check, epoch, session, part))
        insert = Statement(_INSERT, self._schedule.values(session, seq))
        return Operation(session, seq, (insert, write))

    def inspector(self, table: TableSpec) -> Inspector:
        """Return what judges the content of each row of *table*."""
        if table == LEDGER:
            return Inspector(self._schedule)
        return Inspector(self._registers, SLOTS)

    def judge(self, seen: Observed) -> Reconciliation:
        """Return the fate of each ack and of each row; see Plan.judge."""
        epoch = self._schedule.epoch
        inserted = reconcile(seen, LEDGER, epoch)
        return judge_registers(
            inserted, seen, LEDGER, REGISTER, epoch=epoch, slots=SLOTS
        )
