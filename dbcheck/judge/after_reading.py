"""Judges the checks that follow the first reading of the rows.

A second reading after a clean restart, transactions that the server still listed as
prepared, and the server's own check of its tables.
"""

from __future__ import annotations

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.server import CheckOutcome
from dbcheck.rows.prepared import LeftFate

# What it says of an index is a loss of its own (AfterRecord.index).  Of the table
# itself every row was read and compared: that the server complains about it all the
# same costs the PASS, and proves no loss.
_STATUSS = {
    CheckOutcome.SOUND: (Status.PRESENT, False),
    CheckOutcome.INDEX: (Status.CONTRADICTED, True),
    CheckOutcome.TABLE: (Status.CONTRADICTED, True),
    CheckOutcome.BROKE_OFF: (Status.ABSENT, True),
    CheckOutcome.NOT_DONE: (Status.NOT_OBSERVABLE, False),
}


def judge_second_reading(case: Case) -> Item | None:
    """Compare the two readings; None if only one was asked for."""
    again = case.after.again
    if again is None:
        return None
    status = Status.PRESENT
    reason = f"after a restart all {again.rows:,} rows are as they were read first"
    if again.not_done:
        status, reason = Status.ABSENT, f"not made: {again.not_done}"
    elif again.failure or again.reason:
        status, reason = Status.CONTRADICTED, again.failure or again.reason
    elif again.orderly is None:
        reason += "; no log shows whether it was shut down in an orderly way"
    return Item(ItemId.SECOND_READING, status, reason, required=True)


def judge_prepared_transactions(case: Case) -> Item | None:
    """Judge the prepared transactions; None if there were none.

    What is wrong with one is a loss, so this item decides nothing.
    """
    left = case.after.left_over
    if not left:
        return None
    kept = sum(one.fate is LeftFate.KEPT for one in left)
    gone = sum(one.fate is LeftFate.GONE for one in left)
    refused = next((one.reason for one in left if one.reason), "")
    if gone:
        refused = f"another client decided {gone} first; {refused}"
    reason = (
        f"{len(left)} were listed after recovery; {kept} of them were then committed or"
        " rolled back as they should be" + (f"; {refused}" if refused else "")
    )
    status = Status.PRESENT if kept == len(left) else Status.ABSENT
    return Item(ItemId.PREPARED, status, reason, required=False)


def judge_conditions_among_rows(case: Case) -> Item | None:
    """Judge the plan's conditions among rows; None if it has none."""
    check = case.after.conditions
    if check is None:
        return None
    if check.not_done:
        return Item(ItemId.CONDITIONS, Status.ABSENT, check.not_done, required=True)
    if check.broken:
        reason = check.reason
        return Item(ItemId.CONDITIONS, Status.CONTRADICTED, reason, required=True)
    reason = "the server finds that they all hold"
    return Item(ItemId.CONDITIONS, Status.PRESENT, reason, required=True)


def judge_table_check(case: Case) -> Item | None:
    """Judge the check of the tables; None of a run in which there was none."""
    check = case.after.check
    if check is None:
        return None
    status, required = _STATUSS[check.outcome]
    return Item(ItemId.TABLE_CHECK, status, check.reason, required)


def judge_dropped_tables(case: Case) -> Item | None:
    """Show which side table the server names and cannot open; None if there is none.

    Whether it should be there is judged with the rows.  If not, its rows are gone as
    they should be, and the server's list of tables is not as it was.
    """
    lost = case.after.sides_lost
    if not lost:
        return None
    reason = "; ".join(f"{name} cannot be opened: {why}" for name, why in lost.items())
    return Item(ItemId.DROPPED_TABLES, Status.ABSENT, reason, required=False)
