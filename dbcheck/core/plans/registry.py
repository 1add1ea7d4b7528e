"""Which plan each kind of workload follows."""

from __future__ import annotations

from dbcheck.core.operation import StatementSpec
from dbcheck.core.plans.classic import ClassicPlan
from dbcheck.core.plans.insert import InsertPlan
from dbcheck.core.plans.kinds import PlanKind
from dbcheck.core.plans.plan import Plan
from dbcheck.core.plans.registers import RegistersPlan
from dbcheck.core.schedule import Schedule
from dbcheck.core.table import TableSpec

_PLANS: dict[PlanKind, type[InsertPlan | RegistersPlan | ClassicPlan]] = {
    PlanKind.INSERT: InsertPlan,
    PlanKind.REGISTERS: RegistersPlan,
    PlanKind.CLASSIC: ClassicPlan,
}


def tables_of(kind: PlanKind) -> tuple[TableSpec, ...]:
    """Return the tables of such plans."""
    return _PLANS[kind].tables


def statements_of(kind: PlanKind) -> tuple[StatementSpec, ...]:
    """Return the statements of such plans."""
    return _PLANS[kind].statements


def plan_of(kind: PlanKind, schedule: Schedule) -> Plan:
    """Return the plan of one run, whose rows *schedule* decides."""
    return _PLANS[kind](schedule)
