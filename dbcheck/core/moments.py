"""When the cuts of a campaign come: spread over what a server does, and at random."""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass

from dbcheck.core.chores import ChoreKind


class Stratum(enum.Enum):
    """What the server does when the power is cut."""

    RAMP_UP = "ramp-up"  # the sessions have just begun
    STEADY = "steady"
    CHECKPOINT = "checkpoint"  # the server writes back what its log protects
    # The sessions are held just before the cut, so that no commit flushes the drives:
    # what a canary wrote meanwhile shows whether a drive's cache lost its power.
    HOLD = "hold"
    HOUSEKEEPING = "housekeeping"  # a chore of the kind that was drawn is under way


LATE_MAX_S = 1.0  # a cut that comes later than that has missed its stratum
RAMP_UP_S = (0.2, 1.0)
INTO_S = {
    Stratum.CHECKPOINT: (0.0, 0.2),
    Stratum.HOLD: (0.05, 0.2),
    Stratum.HOUSEKEEPING: (0.0, 0.02),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment of one cut.

    number:  of the cut in its campaign, 1-based.
    after_s: seconds of load before the cut, or before the checkpoint is asked for,
             or before the sessions are held.
    into_s:  seconds from then, or from when a chore began, to the cut; 0 in the other
             strata.
    chore:   the kind of chore during which it is to come, None in the other strata.
    """

    number: int
    stratum: Stratum
    after_s: float
    into_s: float
    chore: ChoreKind | None = None


WITHOUT_CHORES = tuple(one for one in Stratum if one is not Stratum.HOUSEKEEPING)


def moment(
    seed: int,
    number: int,
    steady_s: tuple[float, float],
    strata: Sequence[Stratum] = WITHOUT_CHORES,
    chores: Sequence[ChoreKind] = (),
) -> Moment:
    """Return the moment of the cut *number*, 1-based, of the campaign of *seed*.

    steady_s: the earliest and the latest moment of a steady cut, seconds of load.
    chores: the kinds that cuts aim at, one after the other.
    As many cuts in a row as there are *strata* meet each once, in an order drawn for
    them, so that a campaign of any length has met them about equally often.
    """
    block, place = divmod(number - 1, len(strata))
    order = list(strata)
    random.Random(f"{seed}/{block}").shuffle(order)
    draw = random.Random(f"{seed}/cut {number}")
    stratum = order[place]
    after_s = draw.uniform(*(RAMP_UP_S if stratum is Stratum.RAMP_UP else steady_s))
    into_s = draw.uniform(*INTO_S[stratum]) if stratum in INTO_S else 0.0
    aimed = stratum is Stratum.HOUSEKEEPING
    chore = chores[block % len(chores)] if aimed else None
    return Moment(number, stratum, after_s, into_s, chore)


def missed(
    stratum: Stratum,
    due_us: int | None,
    went_us: int | None,
    refused: str = "",
    last_ack_us: int | None = None,
) -> str:
    """Return why a cut did not come in *stratum*, "" if it did.

    due_us:  when it was to come, None if that is not known; went_us: when the power
             went, as well as it is known; both on the client's clock.
    refused: why there was no checkpoint, "" if there was one.
    last_ack_us: when the last ack came, None if there was none.
    """
    if stratum is Stratum.STEADY:
        return ""
    if stratum is Stratum.CHECKPOINT and refused:
        return f"no checkpoint was under way: {refused}"
    if stratum is Stratum.HOUSEKEEPING and refused:
        return refused
    if due_us is None or went_us is None:
        return "when the cut came is not known"
    if stratum is Stratum.HOLD and last_ack_us is not None and last_ack_us > due_us:
        return "the sessions resumed before the power went"
    late_s = (went_us - due_us) / 1e6
    return f"the cut came {late_s:.1f} s late" if late_s > LATE_MAX_S else ""
