"""When the cuts of a campaign come: spread over what a server does, and at random."""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass


class Stratum(enum.Enum):
    """What goes on when the power is cut."""

    RAMP_UP = "ramp-up"  # the sessions have just begun
    STEADY = "steady"
    CHECKPOINT = "checkpoint"  # the server writes back what its log protects


RAMP_UP_S = (0.2, 1.0)
INTO_CHECKPOINT_S = (0.0, 0.2)


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment of one cut.

    number:  of the cut in its campaign, 1-based.
    after_s: seconds of load before the cut, or before the checkpoint is asked for.
    into_s:  seconds from then to the cut; 0 but in a checkpoint.
    """

    number: int
    stratum: Stratum
    after_s: float
    into_s: float


def moment(
    seed: int,
    number: int,
    steady_s: tuple[float, float],
    strata: Sequence[Stratum] = tuple(Stratum),
) -> Moment:
    """Return the moment of the cut *number*, 1-based, of the campaign of *seed*.

    steady_s: the earliest and the latest moment of a steady cut, seconds of load.
    As many cuts in a row as there are *strata* meet each once, in an order drawn for
    them, so that a campaign of any length has met them about equally often.
    """
    block, place = divmod(number - 1, len(strata))
    order = list(strata)
    random.Random(f"{seed}/{block}").shuffle(order)
    draw = random.Random(f"{seed}/cut {number}")
    stratum = order[place]
    after_s = draw.uniform(*(RAMP_UP_S if stratum is Stratum.RAMP_UP else steady_s))
    into_s = draw.uniform(*INTO_CHECKPOINT_S)
    if stratum is not Stratum.CHECKPOINT:
        into_s = 0.0
    return Moment(number, stratum, after_s, into_s)
