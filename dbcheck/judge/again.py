"""Were the rows the same once the server had been restarted cleanly?"""

from __future__ import annotations

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Standing


def second_reading(case: Case) -> Item | None:
    """Compare the two readings; None if only one was asked for."""
    again = case.after.again
    if again is None:
        return None
    standing = Standing.PRESENT
    reason = f"after a restart all {again.rows:,} rows are as they were read first"
    if again.not_done:
        standing, reason = Standing.ABSENT, f"not made: {again.not_done}"
    elif again.failure or again.reason:
        standing, reason = Standing.CONTRADICTED, again.failure or again.reason
    elif again.orderly is None:
        reason += "; no log shows whether it was shut down in an orderly way"
    return Item(ItemId.SECOND_READING, standing, reason, required=True)
