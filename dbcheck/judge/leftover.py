"""The transactions that the server still listed as prepared after recovery."""

from __future__ import annotations

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Standing
from dbcheck.rows.prepared import LeftFate


def prepared(case: Case) -> Item | None:
    """Say what became of them; None if there were none.

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
    standing = Standing.PRESENT if kept == len(left) else Standing.ABSENT
    return Item(ItemId.PREPARED, standing, reason, required=False)
