"""Moments of the cuts of a campaign: spread over a server's activities, and random."""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dbcheck.rows.tasks import TaskKind


class Activity(enum.Enum):
    """Activity of the server at the moment of a cut."""

    RAMP_UP = "ramp-up"  # the sessions have just begun
    STEADY = "steady"
    CHECKPOINT = "checkpoint"  # the server writes back what its log protects
    # The sessions are held just before the cut, so that no commit flushes the drives:
    # what a canary wrote meanwhile shows whether a drive's cache lost its power.
    HOLD = "hold"
    HOUSEKEEPING = "housekeeping"  # a task of the kind that was drawn is under way

    @property
    def when(self) -> str:
        """The clause that tells people when such a cut comes."""
        return _WHEN[self]


_WHEN = {
    Activity.RAMP_UP: "as the sessions begin",
    Activity.STEADY: "under steady load",
    Activity.CHECKPOINT: "in a checkpoint",
    Activity.HOLD: "while all sessions pause",
    Activity.HOUSEKEEPING: "in a housekeeping task",
}

NOT_KNOWN = "when the cut came is not known"  # as of a client that was lost
# The age of the last ack at the cut, which must be below a second; and the time from
# the last flush to the cut, after which the newest report of the canaries, which is up
# to 0.25 s old on a busy host, is of later writes.
HELD_AGE_MAX_S, QUIET_MIN_S = 0.9, 0.3
# The moments of a switch may vary by this much, and both limits can still be met.
SPREAD_MAX_S = HELD_AGE_MAX_S - QUIET_MIN_S
LAG_ERROR_S = 0.1  # how much sooner or later the power may go than it did before
LAGS_MAX = 8  # how many of the newest lags count
AT_ONCE = (0.0, LAG_ERROR_S)  # the lag of a switch that needs no time
RAMP_UP_S = (0.2, 1.0)
RAMP_UP_MAX_S = 2.0  # of load; after that the sessions have no longer just begun
INTO_S = {
    Activity.CHECKPOINT: (0.0, 0.2),
    Activity.HOLD: (0.05, 0.2),
    Activity.HOUSEKEEPING: (0.0, 0.02),
}


@dataclass(frozen=True, slots=True)
class PlannedCut:
    """The moment of one cut.

    number:  of the cut in its campaign, 1-based.
    after_s: seconds of load before the cut, or before the checkpoint is asked for,
             or before the sessions are held.
    into_s:  seconds from then, or from when a task began, to the cut; 0 in the other
             activities.
    task:   the kind of task during which it is to come, None in the other activities.
    lag_s:   of a hold: how many seconds after the switch is asked the power goes, at
             the earliest and at the latest; None in the other activities.
    no_hold: why this is a steady cut although a hold was drawn, "" if none was.
    """

    number: int
    activity: Activity
    after_s: float
    into_s: float
    task: TaskKind | None = None
    lag_s: tuple[float, float] | None = None
    no_hold: str = ""

    @property
    def drawn(self) -> Activity:
        """Return the activity that was drawn, also where the switch forbids it."""
        return Activity.HOLD if self.no_hold else self.activity


WITHOUT_TASKS = tuple(
    activity for activity in Activity if activity is not Activity.HOUSEKEEPING
)


def plan_cut(
    seed: int,
    number: int,
    steady_s: tuple[float, float],
    activities: Sequence[Activity] = WITHOUT_TASKS,
    tasks: Sequence[TaskKind] = (),
) -> PlannedCut:
    """Return the moment of the cut *number*, 1-based, of the campaign of *seed*.

    steady_s: the earliest and the latest moment of a steady cut, seconds of load.
    tasks: the kinds that cuts aim at, one after the other.
    As many cuts in a row as there are *activities* meet each once, in an order drawn
    for them, so that a campaign of any length has met them about equally often.
    """
    block, place = divmod(number - 1, len(activities))
    order = list(activities)
    random.Random(f"{seed}/{block}").shuffle(order)
    draw = random.Random(f"{seed}/cut {number}")
    activity = order[place]
    after_s = draw.uniform(*(RAMP_UP_S if activity is Activity.RAMP_UP else steady_s))
    into_s = draw.uniform(*INTO_S[activity]) if activity in INTO_S else 0.0
    has_task = activity is Activity.HOUSEKEEPING
    task = tasks[block % len(tasks)] if has_task else None
    return PlannedCut(number, activity, after_s, into_s, task)


def find_lag_range(lags_s: Sequence[float]) -> tuple[float, float] | None:
    """Return the earliest and the latest moment at which the power may go.

    In seconds from when the switch is asked; None if that is not known.
    lags_s: of earlier cuts, from when the switch was asked until the host was last
            heard, the oldest first.
    """
    if not lags_s:
        return None
    newest = lags_s[-LAGS_MAX:]
    return max(0.0, min(newest) - LAG_ERROR_S), max(newest) + LAG_ERROR_S


def add_lag_to_hold(drawn: PlannedCut, lag_s: tuple[float, float] | None) -> PlannedCut:
    """Return *drawn*, a hold, with the lag; or a steady cut if the lag forbids it.

    lag_s: see find_lag_range().
    """
    if lag_s is None:
        why = (
            "no hold: how long the switch takes is not known yet; dbcheck power test"
            " measures it, and so does each cut"
        )
    elif lag_s[1] - lag_s[0] > SPREAD_MAX_S:
        why = (
            f"no hold: the power went {lag_s[0]:.1f} to {lag_s[1]:.1f} s after the"
            f" switch was asked, and a hold needs that to within {SPREAD_MAX_S:g} s"
        )
    else:
        return replace(drawn, lag_s=lag_s)
    return replace(drawn, activity=Activity.STEADY, into_s=0.0, no_hold=why)


@dataclass(frozen=True, slots=True)
class AtTheCut:
    """The facts about a moment that came; times on the client's clock.

    began_us: when the load began.
    went_us: when the power went, as well as it is known; None if it is not.
    refused: why there was no checkpoint, or no task, "" if there was one.
    checkpoint_us: when a checkpoint was asked for, and when it had ended, None if it
             was under way as long as the server answered; None if that is not known.
    quiet_us: from when until when nothing was in flight as the sessions were held, each
             time; None if that is not known.
    latest_us: when its switch reported the cut; None if the moment is known, or if no
             switch did.
    """

    began_us: int
    went_us: int | None = None
    refused: str = ""
    checkpoint_us: tuple[int, int | None] | None = None
    quiet_us: Sequence[tuple[int, int]] | None = None
    latest_us: int | None = None


class Met(NamedTuple):
    """Activity during which a cut came.

    activity: None if it is not known.  missed: why it may be another activity than the
    one that was drawn, "" if it is that activity.
    """

    activity: Activity | None
    missed: str = ""


def find_activity_at_cut(drawn: PlannedCut, seen: AtTheCut) -> Met:
    """Return the activity that a cut came in, by when the power went."""
    activity, went_us = drawn.activity, seen.went_us
    if activity in (Activity.CHECKPOINT, Activity.HOUSEKEEPING) and seen.refused:
        no_checkpoint = activity is Activity.CHECKPOINT
        what = "no checkpoint was under way: " if no_checkpoint else ""
        return Met(Activity.STEADY, f"{what}{seen.refused}")
    if went_us is None:
        return Met(None, drawn.no_hold or NOT_KNOWN)
    if activity is Activity.HOLD:
        return _judge_hold(went_us, seen.latest_us, seen.quiet_us)
    if activity is Activity.CHECKPOINT:
        return _judge_checkpoint(went_us, seen.checkpoint_us)
    after_s = (went_us - seen.began_us) / 1e6
    if activity is Activity.RAMP_UP and after_s > RAMP_UP_MAX_S:
        why = f"the cut came {after_s:.1f} s after the load had begun"
        return Met(Activity.STEADY, why)
    return Met(activity, drawn.no_hold)


def _judge_checkpoint(went_us: int, asked: tuple[int, int | None] | None) -> Met:
    """Judge whether a checkpoint was under way when the power went."""
    if asked is None:
        why = "whether the checkpoint was under way at the cut is not known"
        return Met(None, why)
    asked_us, ended_us = asked
    if went_us < asked_us:
        late_s = (asked_us - went_us) / 1e6
        return Met(Activity.STEADY, f"the checkpoint came {late_s:.2f} s after the cut")
    if ended_us is None or went_us <= ended_us:
        return Met(Activity.CHECKPOINT)
    late_s = (went_us - ended_us) / 1e6
    why = f"the checkpoint had ended {late_s:.2f} s before the power went"
    return Met(Activity.STEADY, why)


def _judge_hold(
    went_us: int, latest_us: int | None, quiet_us: Sequence[tuple[int, int]] | None
) -> Met:
    """Judge whether the sessions were held when the power went.

    The power went at an unknown moment from *went_us* to *latest_us*.  Some switches
    report a cut before the power goes: then *went_us* is the later of both.
    """
    latest_us = max(went_us, latest_us or went_us)
    if quiet_us is None:
        return Met(None, "whether the sessions were held at the cut is not known")
    for begun_us, ended_us in quiet_us:
        if begun_us <= went_us and latest_us <= ended_us:
            return Met(Activity.HOLD)
        if begun_us <= went_us <= ended_us:
            late_s = (latest_us - ended_us) / 1e6
            return Met(
                None,
                f"the switch reported its cut {late_s:.2f} s after the sessions had"
                " resumed, so whether they were held when the power went is not known",
            )
    ended = [ended_us for _, ended_us in quiet_us if ended_us < went_us]
    why = "commits that were sent before the hold were in flight at the cut"
    if ended:
        late_s = (went_us - max(ended)) / 1e6
        why = f"the sessions had resumed {late_s:.2f} s before the power went"
    return Met(Activity.STEADY, why)
