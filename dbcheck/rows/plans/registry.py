"""Maps each workload to its plan."""

from __future__ import annotations

from dbcheck.rows.mix import Mix
from dbcheck.rows.operation import StatementSpec, Usage, Verb, list_verbs_by_table
from dbcheck.rows.plans.classic import INSERT_ID, ClassicPlan
from dbcheck.rows.plans.housekeeping import HousekeepingPlan
from dbcheck.rows.plans.mixed import MixedPlan, statements_of_mix
from dbcheck.rows.plans.orderentry import OrderEntryPlan
from dbcheck.rows.plans.plan import INSERT, InsertPlan, Plan
from dbcheck.rows.plans.twophase import TwoPhasePlan
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import SIDES, TableSpec
from dbcheck.rows.tasks import FILLED_ROWS, INSERTING, SIDE_BYTES
from dbcheck.rows.workload import PlanKind, Workload

_REGISTERS = Mix(registers=1)


def tables_of(workload: Workload) -> tuple[TableSpec, ...]:
    """Return the tables that the operations of *workload* write to."""
    return tuple(dict.fromkeys(spec.table for spec in statements_of(workload)))


def payload_bytes_max(workload: Workload) -> int:
    """Return the largest number of bytes of payloads that one operation sends.

    An operation inserts its row into the ledger and the rows of one more statement.
    Order entry inserts more rows, but of a few bytes each.
    """
    _, *rows_of_others = (spec.rows for spec in statements_of(workload))
    largest = max(workload.payload_bytes, default=0)
    task_bytes = FILLED_ROWS * SIDE_BYTES if workload.housekeeping else 0
    return max(largest * (1 + max(rows_of_others, default=0)), task_bytes)


def statements_of(workload: Workload) -> tuple[StatementSpec, ...]:
    """Return the statements of the operations of *workload*."""
    match workload.plan:
        case PlanKind.INSERT:
            return (INSERT,)
        case PlanKind.CLASSIC:
            return (INSERT_ID,)
        case PlanKind.MIXED | PlanKind.REGISTERS:
            return statements_of_mix(_choose_mix(workload))
        case PlanKind.TWO_PHASE:
            return TwoPhasePlan.statements
        case PlanKind.ORDER_ENTRY:
            return OrderEntryPlan.statements


def usage_of(workload: Workload) -> Usage:
    """Return what *workload* does on the server, its housekeeping included.

    What fills the tables beforehand and what cleans up does nothing else, but for the
    rights that every load needs: to create, read and drop dbcheck's tables.
    """
    verbs = list_verbs_by_table(statements_of(workload))
    if INSERTING.keys() & set(workload.housekeeping):
        verbs |= dict.fromkeys(SIDES, (Verb.INSERT,))
    prepares = workload.plan is PlanKind.TWO_PHASE
    return Usage(verbs, workload.housekeeping, prepares)


def plan_of(workload: Workload, schedule: Schedule) -> Plan:
    """Return the plan of one run, whose rows *schedule* decides."""
    base = _make_plan(workload, schedule)
    if not workload.housekeeping:
        return base
    return HousekeepingPlan(base, schedule, workload.housekeeping)


def _make_plan(workload: Workload, schedule: Schedule) -> Plan:
    match workload.plan:
        case PlanKind.INSERT:
            return InsertPlan(schedule)
        case PlanKind.CLASSIC:
            return ClassicPlan(schedule)
        case PlanKind.MIXED | PlanKind.REGISTERS:
            return MixedPlan(schedule, _choose_mix(workload))
        case PlanKind.TWO_PHASE:
            return TwoPhasePlan(schedule)
        case PlanKind.ORDER_ENTRY:
            return OrderEntryPlan(schedule)


def _choose_mix(workload: Workload) -> Mix:
    return workload.operations or _REGISTERS
