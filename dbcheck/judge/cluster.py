"""What shows that a standby which took over could have, and had to have, every commit.

Each item is None of a single server, and of a cluster whose writer is read.
"""

from __future__ import annotations

from dbcheck.core.cut import PowerState
from dbcheck.core.promised import contradiction
from dbcheck.core.replication import PromotedBy, Promotion, ReplicationSeen, written
from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import cut_us
from dbcheck.judge.item import Item, ItemId, Standing
from dbcheck.judge.verdict import Survived

SAMPLES_PER_S_MIN = 10.0
SAMPLE_AGE_MAX_S = 0.5  # of the last one, at the cut
# A standby may have the beginning of a record whose rest never came; none is longer
# than what a row may hold (docs/method.md).
PARTIAL_RECORD_MAX = 2 << 20

_PRESENT, _CONTRADICTED = Standing.PRESENT, Standing.CONTRADICTED
_UNSEEN = Standing.NOT_OBSERVABLE


def survived(case: Case) -> Survived | None:
    """Return what the commits of a cluster survived, None of a single server."""
    promise = case.manifest.promise
    if promise is None:
        return None
    return Survived(
        promise.description, case.after.reader_name if case.promoted else ""
    )


def left_behind(case: Case) -> tuple[str, ...]:
    """Say how many of the lost commits another node still has; () if none was read."""
    return tuple(
        f"left-behind: {name} still has {left.behind:,} of the commits that"
        f" {case.after.reader_name} lacks"
        for name, left in case.left.items()
        if case.found is not None and case.found.losses
    )


def blamed(case: Case) -> str:
    """Return why a standby that took over lacks commits, "" if none took over.

    It is what explains the losses best, and no part of the verdict.
    """
    if not case.promoted:
        return ""
    name, (off, sync) = case.after.reader_name, (promised_settings(case), in_sync(case))
    for item in (off, sync):
        if item is not None and item.standing is Standing.ABSENT:
            return f"the commits did not wait for {name}: {item.reason}"
    if case.spared:
        return (
            f"commits waited for {name}, which took over without them: the server's"
            " replication or what promoted it lost them"
        )
    return ""


def promised_settings(case: Case) -> Item | None:
    """Judge whether the writer's settings keep the promise; None of a single server.

    As they were before the load and just before the cut.
    """
    promise = case.manifest.promise
    if promise is None or case.manifest.control:
        return None
    now = (case.load.settings if case.load else None) or {}
    for settings in (case.writer.facts.settings, now):
        if why := settings and contradiction(promise, settings):
            name = ItemId.PROMISED_SETTINGS
            return Item(name, Standing.ABSENT, why, required=True)
    reason = f"nothing contradicts the promise {promise.value}"
    return Item(ItemId.PROMISED_SETTINGS, _PRESENT, reason, required=True)


def writer_off(case: Case) -> Item | None:
    """Judge whether the old writer was off until the rows were read.

    One that serves clients beside the node that took over splits the cluster in two,
    and which of the two has a commit is chance.
    """
    found = _promotion(case)
    if found is None:
        return None
    old, name = found.old, ItemId.WRITER_OFF
    if any(off.is_back for off in old):
        reason = (
            f"{case.manifest.writer_name} was up again before the rows were read: the"
            " cluster may have split in two"
        )
        return Item(name, _CONTRADICTED, reason, required=True)
    if len(old) < 2:
        reason = "it was not looked at both before the promotion and after the rows"
        return Item(name, _UNSEEN, reason, required=True)
    if all(off.state is PowerState.OFF for off in old):
        reason = (
            f"its switch read it off {len(old)} times, from before the promotion on"
        )
        return Item(name, _PRESENT, reason, required=True)
    reason = (
        f"it did not answer, {len(old)} times, but its switch cannot read whether it is"
        " off"
    )
    return Item(name, Standing.ASSUMED, reason, required=True)


def promoted_node(case: Case) -> Item | None:
    """Judge whether the node that was read took over from this very writer."""
    found = _promotion(case)
    if found is None or case.after.facts is None:
        return None
    standing, reason = _taken_over(case, found)
    return Item(ItemId.PROMOTED, standing, reason, required=True)


def _taken_over(case: Case, found: Promotion) -> tuple[Standing, str]:
    name, branch = case.after.reader_name, found.branch
    if wrong := _behind_another(name, found):
        return _CONTRADICTED, wrong
    if branch is None or branch.unread:
        why = branch.unread if branch else "it could not be asked"
        return _UNSEEN, f"where the timeline of {name} began is not known: {why}"
    writer = case.writer.facts.identity.get("timeline", "")
    if branch.parent != writer:
        return _CONTRADICTED, (
            f"{name} continues timeline {branch.parent}, and the writer was on {writer}"
        )
    assert branch.switch is not None
    return _PRESENT, (
        f"{name} left timeline {writer} at {written(branch.switch)} and began timeline"
        f" {branch.timeline}"
    )


def _behind_another(name: str, found: Promotion) -> str:
    """Return why dbcheck had another node promoted than it should, "" if it did not.

    What promotes by itself is a part of the cluster, and so is its choice.
    """
    if found.by is PromotedBy.AUTO or name not in found.received:
        return ""
    own = found.received[name].position or 0
    for other, received in found.received.items():
        if received.position is not None and received.position > own:
            return (
                f"{name} was promoted although {other} had received more:"
                f" {written(received.position)}, and not {written(own)}"
            )
    return ""


def all_applied(case: Case) -> Item | None:
    """Judge whether the node that took over applied all that it had received."""
    found, name = _promotion(case), case.after.reader_name
    if found is None or case.after.facts is None:
        return None
    received = found.received.get(name)
    switch = found.branch.switch if found.branch else None
    if received is None or received.position is None or switch is None:
        reason = f"how far {name} had received and applied is not known"
        return Item(ItemId.ALL_APPLIED, _UNSEEN, reason, required=True)
    short = received.position - switch
    reason = f"{name} had received {written(received.position)}"
    if short > PARTIAL_RECORD_MAX:
        reason += (
            f" and took over at {written(switch)}: {short:,} bytes are not applied"
        )
        return Item(ItemId.ALL_APPLIED, _CONTRADICTED, reason, required=True)
    if short > 0:
        reason += f"; its last {short:,} bytes are the beginning of a record"
    return Item(ItemId.ALL_APPLIED, _PRESENT, reason, required=True)


def in_sync(case: Case) -> Item | None:
    """Judge whether commits waited for the node that took over, at the cut.

    Its counters end with the writer, so it was asked all along.
    """
    if not case.promoted:
        return None
    seen = case.load.replication if case.load else None
    standing, reason = _UNSEEN, "the writer was not asked during the load"
    if seen is not None:
        standing, reason = _awaited(case, seen)
    return Item(ItemId.IN_SYNC, standing, reason, required=True)


def _awaited(case: Case, seen: ReplicationSeen) -> tuple[Standing, str]:
    name = case.after.reader_name
    member = case.manifest.nodes[name].member
    span_s = max(1e-6, (seen.last_us - seen.first_us) / 1e6)
    rate = (seen.samples - 1) / span_s
    shown = ", ".join(seen.awaited) or "no standby"
    reason = f"{seen.samples} samples, {rate:.0f} a second; commits waited for {shown}"
    went_us = cut_us(case)
    if member not in seen.awaited:
        return Standing.ABSENT, f"{reason}, and not for {name} ({member})"
    if rate < SAMPLES_PER_S_MIN:
        return _UNSEEN, f"{reason}: fewer than {SAMPLES_PER_S_MIN:g} show too little"
    if went_us is None:
        return _UNSEEN, f"{reason}; when the power went is not known"
    age_s = (went_us - seen.last_us) / 1e6
    reason += f"; the last {max(0.0, age_s):.3f} s before the cut"
    if age_s > SAMPLE_AGE_MAX_S:
        return _UNSEEN, f"{reason}, which is too old: {seen.ended or 'none came since'}"
    return _PRESENT, reason


def _promotion(case: Case) -> Promotion | None:
    return case.after.promotion if case.promoted else None
