"""Has the server check its tables, before the load and once their rows were read."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.campaign import observable
from dbcheck.campaign.reading_log import ReadingLog
from dbcheck.error_ids import ErrorId
from dbcheck.errors import (
    ConnectionLost,
    EngineError,
    OtherServer,
    TableLost,
    TableRefused,
)
from dbcheck.model.server import CheckOutcome, ServerFacts, TableCheck
from dbcheck.ports.engine import Engine
from dbcheck.rows.conditions import ConditionCheck
from dbcheck.rows.plans.plan import Plan
from dbcheck.rows.table import TableSpec

_DAMAGED = (CheckOutcome.INDEX, CheckOutcome.TABLE)


def require_sound(engine: Engine, tables: Sequence[TableSpec]) -> None:
    """Raise EngineError if the server finds its tables damaged before the load.

    What was wrong before the cut is not to be held against what came after it.  A check
    that cannot be made refuses nothing: the rows are looked at all the same.
    """
    try:
        check = observable.check_tables(engine, tables)
    except (ConnectionLost, OtherServer, TableLost, TableRefused):
        raise
    except EngineError:
        return
    if check is not None and check.outcome in _DAMAGED:
        raise EngineError(
            f"dbcheck's tables are damaged already, before the load: {check.reason}",
            id=ErrorId.TABLES_DAMAGED_BEFORE_LOAD,
            hint="Run dbcheck clean, which drops them; the next run creates new ones.",
        )


def conditions_after(
    engine: Engine, plan: Plan, epoch: int, facts: ServerFacts, log: ReadingLog
) -> ConditionCheck | None:
    """Ask the server which conditions do not hold; None if the plan has none.

    facts: of the server that was read.  log: what it logs from now on.
    """
    if not plan.conditions:
        return None
    try:
        return observable.broken_conditions(engine, plan.conditions, epoch, facts)
    except ConnectionLost as error:
        why = log.why(error)
        reason = why.damage or why.crashed
        return ConditionCheck(not_done="; ".join(filter(None, [str(error), reason])))
    except EngineError as error:
        return ConditionCheck(not_done=str(error))


def check_after(
    engine: Engine, tables: Sequence[TableSpec], facts: ServerFacts, log: ReadingLog
) -> TableCheck | None:
    """Have the server check the tables whose rows were read; None if it cannot.

    facts: of the server that was read.  log: what it logs from now on.
    A server may end itself at what the check meets.  Its log says so; without it the
    check broke off, which proves nothing in either direction.
    """
    try:
        return observable.check_tables(engine, tables, facts)
    except ConnectionLost as error:
        cause = log.why(error)
        if cause.damage:
            return TableCheck(CheckOutcome.INDEX, f"{error}: {cause.damage}")
        why = cause.crashed or "its log shows no reason, or was not read"
        return TableCheck(CheckOutcome.BROKE_OFF, f"{error}: {why}")
    except EngineError as error:
        return TableCheck(CheckOutcome.NOT_DONE, str(error))
