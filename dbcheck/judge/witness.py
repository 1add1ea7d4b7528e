"""Does the witness hold acks that were at risk, on a host of its own?"""

from __future__ import annotations

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import LAST_ACK_AGE_MAX_S, cut_us, passed_s
from dbcheck.judge.item import Item, ItemId, Standing
from dbcheck.model.unobserved import Observed, newest
from dbcheck.model.witness import Apart


def witness_log(case: Case) -> Item:
    """Judge what the witness holds of the run."""
    if case.damage:
        return Item(
            ItemId.WITNESS_LOG, Standing.CONTRADICTED, case.damage, required=True
        )
    facts = case.logs
    acks, frames = sum(one.acks for one in facts), sum(one.frames for one in facts)
    reason = f"{acks:,} acks in {frames:,} frames"
    reason += f" of {len(facts)} logs, chains intact" if facts[1:] else ", chain intact"
    if torn := sum(one.torn_bytes for one in facts):
        reason += f", a torn tail of {torn} bytes left out"
    if case.load:
        windows = case.load.windows
        reason += (
            f"; the window was at most {sum(one.acks for one in windows):,} acks"
            f" and {max((one.age_s for one in windows), default=0):.3f} s"
        )
    return Item(ItemId.WITNESS_LOG, Standing.PRESENT, reason, required=True)


def witness_at_the_cut(case: Case) -> Item | None:
    """Judge whether the witness holds acks that were young when the power went.

    Where the witness lagged when the power went and never came back, all that it holds
    may be old, and nothing of it was at risk.  None if its log is not known.
    """
    if not case.logs:
        return None
    young = newest(_observed(case))
    standing, reason = _newest(case, young, cut_us(case))
    if case.clock_set and young is not None:
        standing = Standing.NOT_OBSERVABLE
        reason = f"{case.clock_set}, by which the acks of several machines are dated"
    return Item(ItemId.WITNESS_AT_CUT, standing, reason, required=True)


def _observed(case: Case) -> list[Observed]:
    """Return of each log what was observed of the acks that the witness holds."""
    seen = (case.load.observed if case.load else None) or ()
    unknown = (Observed(),) * (len(case.logs) - len(seen))
    return [
        Observed(facts.newest_us, one.gaps)
        for facts, one in zip(case.logs, (*seen, *unknown), strict=False)
    ]


def _newest(
    case: Case, young: Observed | None, went_us: int | None
) -> tuple[Standing, str]:
    if young is None or young.last_ack_us is None:
        return Standing.ABSENT, "it holds no ack of the load"
    if went_us is None:
        return Standing.NOT_OBSERVABLE, "the moment of the cut is not known"
    age_s = passed_s(young, young.came_us(young.last_ack_us), went_us)
    if age_s < -LAST_ACK_AGE_MAX_S and not case.drive_only:
        return Standing.CONTRADICTED, (
            f"its newest ack came {-age_s:.3f} s after the power is said to have gone"
        )
    side = "before" if age_s >= 0 else "after"
    reason = f"the newest ack that it holds came {abs(age_s):.3f} s {side} the cut"
    if age_s >= LAST_ACK_AGE_MAX_S:
        return Standing.ABSENT, f"{reason}: it lagged, or no later one came"
    return Standing.PRESENT, reason


def witness_apart(case: Case) -> Item | None:
    """Say what showed that the witness is not on the target's host; None in a lab."""
    if case.writer.apart is None:
        return None
    standing = Standing.NOT_OBSERVABLE
    reason = (
        "only addresses were compared, and a tunnel or forwarder may hide the real"
        " host; add --target-host"
    )
    if case.writer.apart is Apart.IDS:
        standing = Standing.PRESENT
        reason = "the target's host and the witness have different ids"
    return Item(ItemId.WITNESS_APART, standing, reason, required=False)
