"""The evidence of a restore to a point of the server's log, and its words.

Commits that were sent once the point had been read come after it in the log.  One that
is there shows that recovery went past the point, or that another server was read.
"""

from __future__ import annotations

from collections.abc import Callable

from dbcheck.base.points import Point
from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.verdict import format_count
from dbcheck.rows.copied import Copied

BEFORE = "before the point was read"
EARLIER = "recovery may have stopped before this run, or an older copy was restored"
NOTHING_BEFORE = f"no commit is on record from {BEFORE}. Run it again"
_NO_POINT = "no point of the server's log was read"


def is_to_point(case: Case) -> bool:
    """Return True if the archive was restored to a point."""
    plan = case.manifest.copy
    return plan is not None and plan.until is not None


def describe_point(point: Point) -> str:
    """Return the kind of a point, and its value."""
    return f"{point.kind.value} {point.value}"


def judge_read(case: Case) -> Item:
    """Show the point, how long reading it took, and what came meanwhile."""
    name, record, copied = ItemId.POINT_READ, case.copy, case.copied
    if record is None or record.point is None or record.read_s is None:
        return Item(name, Status.ABSENT, _NO_POINT, required=True)
    took = f"{describe_point(record.point)}, read in {record.read_s * 1e3:,.1f} ms"
    if copied is None:
        return Item(name, Status.PRESENT, took, required=True)
    came = copied.by_order + copied.open
    meanwhile = format_count(came, "commit") if came else "no commit"
    return Item(name, Status.PRESENT, f"{took}; {meanwhile} came then", required=True)


def judge_stop(case: Case) -> Item | None:
    """Judge whether recovery stopped at the point; None if no row was compared."""
    copied, name = case.copied, ItemId.POINT_STOP
    if copied is None:
        return None
    sent = f"the {format_count(copied.after, 'commit')} sent after the point was read"
    if copied.after_kept:
        reason = (
            f"it has {copied.after_kept:,} of {sent}: it went past the point, or"
            " another server was read"
        )
        return Item(name, Status.CONTRADICTED, reason, required=True)
    if not copied.after:
        reason = "no commit was sent after the point was read"
        return Item(name, Status.ABSENT, reason, required=True)
    return Item(name, Status.PRESENT, f"it has none of {sent}", required=True)


EVIDENCE: tuple[Callable[[Case], Item | None], ...] = (judge_read, judge_stop)


def describe_shortfall(case: Case) -> str:
    """Return how long before the point the oldest missing commit was acknowledged."""
    record, copied = case.copy, case.copied
    if record is None or record.began_us is None or copied is None:
        return ""
    oldest_us = copied.oldest_missing_us
    if oldest_us is None or oldest_us > record.began_us:
        return ""
    early_s = (record.began_us - oldest_us) / 1e6
    return f". The oldest missing commit was acknowledged {early_s:,.3f} s {BEFORE}"


def describe_kept(copied: Copied, where: str) -> str:
    """Return the headline of a restore that has all up to the point, and no more."""
    before, meanwhile = copied.due - copied.by_order, copied.by_order + copied.open
    text = (
        f"every commit that was acknowledged {BEFORE} ({before:,}) is in {where}, and"
        f" none of the {copied.after:,} that were sent after it"
    )
    if meanwhile:
        kept = copied.by_order + copied.open_kept
        text += f"; of the {meanwhile:,} that came while it was read it has "
        text += f"{kept:,}, without a gap" if kept else "none"
    return text
