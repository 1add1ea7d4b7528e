"""Judges the checks that follow the first reading of the rows.

A second reading after a clean restart, transactions that the server still listed as
prepared, and the server's own check of its tables.
"""

from __future__ import annotations

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.server import CheckOutcome
from dbcheck.rows.prepared import LeftFate

# A complaint about an index is a loss of its own (AfterRecord.index).  Every row of the
# table itself was read and compared, so a complaint of the server about the table costs
# the PASS, but proves no loss.
_STATUS_AND_REQUIRED = {
    CheckOutcome.SOUND: (Status.PRESENT, False),
    CheckOutcome.INDEX: (Status.CONTRADICTED, True),
    CheckOutcome.TABLE: (Status.CONTRADICTED, True),
    CheckOutcome.BROKE_OFF: (Status.ABSENT, True),
    CheckOutcome.NOT_DONE: (Status.NOT_OBSERVABLE, False),
}


def judge_second_reading(case: Case) -> Item | None:
    """Judge whether both readings agree; None if only one reading was asked for."""
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

    A wrong fate of such a transaction counts as a loss, so this item decides nothing.
    """
    left = case.after.left_over
    if not left:
        return None
    kept = sum(one.fate is LeftFate.KEPT for one in left)
    gone = sum(one.fate is LeftFate.GONE for one in left)
    not_decided = next((one.reason for one in left if one.reason), "")
    if gone:
        not_decided = f"another client decided {gone} first; {not_decided}"
    reason = (
        f"{len(left)} were listed after recovery; {kept} of them were then committed or"
        " rolled back as they should be" + (f"; {not_decided}" if not_decided else "")
    )
    status = Status.PRESENT if kept == len(left) else Status.ABSENT
    return Item(ItemId.PREPARED, status, reason, required=False)


def judge_conditions_among_rows(case: Case) -> Item | None:
    """Judge the plan's conditions among rows; None if the plan has none."""
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
    """Judge the server's check of the tables; None if the run had no check."""
    check = case.after.check
    if check is None:
        return None
    status, required = _STATUS_AND_REQUIRED[check.outcome]
    return Item(ItemId.TABLE_CHECK, status, check.reason, required)


def judge_dropped_tables(case: Case) -> Item | None:
    """Show which side tables the server lists and cannot open; None if there is none.

    Whether such a table should exist is judged with the rows.  If it should not, its
    rows are rightly gone, but the server's list of tables is damaged.
    """
    lost = case.after.sides_lost
    if not lost:
        return None
    reason = "; ".join(f"{name} cannot be opened: {why}" for name, why in lost.items())
    return Item(ItemId.DROPPED_TABLES, Status.ABSENT, reason, required=False)
