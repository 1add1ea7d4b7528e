"""Decides when a campaign stops because more cycles would not help."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import takewhile

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError
from dbcheck.campaign.folder import Cycle
from dbcheck.cycle.rig import Rig
from dbcheck.judge.item import Status
from dbcheck.judge.verdict import Judgement
from dbcheck.model.verdict import ControlFacts, ControlOutcome, CycleVerdict, Verdict
from dbcheck.ports.listener import Phase

SAME_MAX = 2  # cycles in a row that may prove nothing for the same reason
IDLE_MAX = 5  # cycles in a row that may prove nothing, for any reasons
ANSWER_S = 60.0  # how long a server that was not cut may take to answer again
_POLL_S = 0.2
# Failures of a network or of a busy host, which may pass by themselves.
_PASSING = frozenset(
    {
        ErrorId.AGENT_ENDED,
        ErrorId.CONNECTION_FAILED,
        ErrorId.CONNECTION_LOST,
        ErrorId.HOST_NOT_ANSWERING,
        ErrorId.HOST_UNREACHABLE,
        ErrorId.SERVER_NOT_ANSWERING,
        ErrorId.SESSION_REFUSED,
        ErrorId.WITNESS_LOST,
        ErrorId.WITNESS_NOT_CONFIRMING,
    }
)


def may_pass(error: DbcheckError) -> bool:
    """Return True if another try may succeed although nobody changed anything."""
    return error.id in _PASSING


def list_doubts(judgement: Judgement) -> tuple[str, ...]:
    """Return the names of the items that keep an inconclusive cycle from counting."""
    if judgement.verdict is not Verdict.INCONCLUSIVE:
        return ()
    enough = (Status.PRESENT, Status.ASSUMED)
    return tuple(
        item.id.value
        for item in judgement.items
        if item.status is Status.CONTRADICTED
        or (item.required and item.status not in enough)
    )


def require_progress(cycles: Sequence[Cycle]) -> None:
    """Raise DbcheckError if repeating the last of *cycles* would prove nothing.

    That is so if SAME_MAX of them in a row proved nothing for the same reason, or
    IDLE_MAX of them for any reasons.
    """
    idle = list(takewhile(lambda c: not c.verdict.is_decided, reversed(cycles)))
    if not idle:
        return
    same = list(takewhile(lambda c: _is_same_reason(c, idle[0]), idle))
    hint = "Fix the cause, then continue with --resume."
    if len(same) >= SAME_MAX:
        raise DbcheckError(
            f"{len(same)} cycles in a row do not count, for the same reason:"
            f" {idle[0].reason}",
            id=ErrorId.CYCLES_PROVE_NOTHING,
            hint=hint,
        )
    if len(idle) >= IDLE_MAX:
        raise DbcheckError(
            f"{len(idle)} cycles in a row do not count, the last: {idle[0].reason}",
            id=ErrorId.CYCLES_PROVE_NOTHING,
            hint=hint,
        )


def require_losses_explained(cycles: Sequence[Cycle]) -> None:
    """Raise DbcheckError if rows were missing after a cut that does not count.

    More cuts could only hide that: no campaign passes after it.
    """
    for cycle in cycles:
        if cycle.has_unexplained_loss:
            raise DbcheckError(
                f"rows are missing after cycle {cycle.number}, which does not count:"
                f" {cycle.reason}",
                id=ErrorId.LOSS_NOT_EXPLAINED,
                hint="This campaign cannot pass any more. The nodes and tables are left"
                " as they are: find out where the rows are, remove the cause, then"
                " begin a new campaign.",
            )


def _is_same_reason(one: Cycle, other: Cycle) -> bool:
    """Return True if one cause kept both cycles from counting.

    An error is known by its id, a judgement by the items that it lacks.
    """
    if one.error_id or other.error_id:
        return one.error_id == other.error_id
    if one.doubts or other.doubts:
        return not set(one.doubts).isdisjoint(other.doubts)
    return one.reason == other.reason


def has_lost(control: ControlFacts) -> bool:
    """Return True if a control lost commits, as it must."""
    return control.outcome is ControlOutcome.LOST


def require_control_lost(controls: Sequence[ControlFacts]) -> None:
    """Raise DbcheckError unless one of *controls* lost commits.

    Without such a control no cycle can pass.
    """
    if any(map(has_lost, controls)):
        return
    reason = controls[-1].reason if controls else "no control came to a result"
    raise DbcheckError(
        f"no control lost commits, so no cycle could pass: {reason}",
        id=ErrorId.CONTROL_LOST_NOTHING,
        hint="Fix the cause, if one is named, then continue with --resume, which runs"
        " another control: one may lose nothing by chance, if the server had just"
        " flushed. If the next one loses nothing either, the cut comes too late or"
        " leaves the drive with power. Or begin anew without a control.",
    )


def describe_cycle(cycle: Cycle) -> str:
    """Return the result of a cycle with its reason, and whether its cut counts."""
    if not cycle.number:
        return f"control: {cycle.reason}"
    name = f"{cycle.number}"
    if cycle.verdict is CycleVerdict.PASS:
        return f"{name}: PASS"
    counts = "" if cycle.verdict.is_decided else ", does not count"
    return f"{name}: {cycle.verdict.value}{counts}: {cycle.reason}"


def await_answer(rig: Rig) -> None:
    """Wait until a server that was not cut takes queries, for ANSWER_S at most.

    After that the next cycle reports why the server does not answer.
    """
    if (reason := rig.site.ready()) is None:
        return
    text = f"the server does not answer, for up to {ANSWER_S:.0f} s: {reason}"
    rig.listener.phase(Phase.WAITING, text)
    ends_s = time.monotonic() + ANSWER_S
    while rig.site.ready() is not None and time.monotonic() < ends_s:
        interrupt.raise_if_interrupted()
        time.sleep(_POLL_S)
