"""Facts about a run's log on a witness: its content, its times, its host.

Acks of several machines are dated by the one clock that all of them share.  A log whose
sessions ran on another machine holds moments of that machine's monotonic clock, which
say how far its acks lie apart, and nothing beside other clocks.  The witness notes on
its own clock when each frame came.  So an ack is dated by that: never earlier than it
came, and later by no more than the time that the quickest of the latest frames took to
the witness.  The witness's clock is a wall clock, and may be set: notes that the client
left there before its load and before the cut show whether it was.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbcheck.rows.acks import TIME_UNIT_US, AckArray, Ints

Json = Mapping[str, Any]


CUT_EVENT = "cut asked"  # noted when the switch is asked soon; then "cut asked 2"
LOAD_EVENT = "load"  # with what the client saw of the load


@dataclass(frozen=True, slots=True)
class Watermark:
    """Part of a log that the witness holds durably.

    frames, acks: how many, from the start of the log.
    digest:       the hash chain after that many frames, in hex.
    """

    frames: int
    acks: int
    digest: str


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """The largest gap between the acks received and those confirmed.

    acks: how many were unconfirmed at once.  age_s: the oldest one's age.
    """

    acks: int
    age_s: float


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Contents of a stored log.

    torn_bytes: length of an incomplete last frame, 0 if there is none.
    newest_us:  when the newest ack of the load came, on the clock that was asked for,
                see ports.witness.LogReader; None if there is none.
    events:     what WitnessLog.note() logged, in order.
    events_us:  the witness's clock when each of them came.
    digest:     the hash chain after the last frame, in hex.
    """

    frames: int
    acks: int
    torn_bytes: int
    newest_us: int | None
    events: Sequence[Json]
    events_us: Sequence[int] = ()
    digest: str = ""

    @property
    def watermark(self) -> Watermark:
        """Return the watermark of the whole log."""
        return Watermark(self.frames, self.acks, self.digest)

    @property
    def cut_announced(self) -> bool:
        """True if the client noted that it was about to have the power cut."""
        return any(
            str(event.get("event")).startswith(CUT_EVENT) for event in self.events
        )

    @property
    def sealed_load(self) -> tuple[bytes, object] | None:
        """The client's record of its load, and its seal; None if it logged none."""
        for event in self.events:
            if event.get("event") == LOAD_EVENT:
                content = str(event.get("load")).encode(errors="replace")
                return content, event.get("seal")
        return None


# Two clocks drift apart by one microsecond in so many, at most.  The kernel keeps each
# to 500 us in a second of true time (adjtimex(2), MAXFREQ).
DRIFT = 1000
_NEVER = 2**62


class WitnessTime:
    """Dates the acks of one log, frame by frame in its order."""

    def __init__(self) -> None:
        # The least that a frame so far was behind, less what the clocks may have
        # drifted up to it.
        self._least_us = _NEVER

    def date(self, acks: AckArray, counts: Ints, received_us: Ints) -> None:
        """Move acked_us of *acks* to the witness's clock.

        counts: how many of them each frame holds, one or more.
        received_us: when the witness received each frame.
        """
        starts = np.cumsum(counts) - counts
        newest_us = np.maximum.reduceat(acks["acked_us"], starts)
        drift_us = newest_us // DRIFT
        behind_us = received_us - newest_us - drift_us
        least_us = np.minimum.accumulate(np.r_[self._least_us, behind_us])[1:]
        self._least_us = int(least_us[-1])
        # A time in the log is rounded up, by less than its unit.
        shift_us = np.repeat(least_us + drift_us + TIME_UNIT_US, counts)
        acks["acked_us"] = np.maximum(acks["acked_us"] + shift_us, 0)


@dataclass(frozen=True, slots=True)
class Anchor:
    """Pair of moments that maps the witness's clock to the client's.

    least_us, most_us: what must be added to the witness's clock, at least and at most:
             the client's clock is known before and after a note that the witness dated.
    was_set: the witness's clock was set between two such notes, "" if not.
    """

    least_us: int
    most_us: int
    was_set: str = ""


def find_anchor(
    events: Sequence[tuple[Json, int]], noted_us: Mapping[str, int]
) -> Anchor | None:
    """Return the newest anchor that the client's notes give, None if there is none.

    events: what the client noted in its own log, and the witness's clock when it came.
    noted_us: the client's clock when the witness had confirmed it, by the event's name;
              {} if that is lost.
    """
    found: list[tuple[Anchor, int]] = []
    for event, received_us in events:
        sent_us, name = event.get("clock_us"), event.get("event")
        if not isinstance(sent_us, int) or not isinstance(name, str):
            continue
        if noted_us and name not in noted_us:
            continue  # it was never confirmed, so it may have come much later
        confirmed_us = max(sent_us, noted_us.get(name, sent_us))
        anchor = Anchor(sent_us - received_us, confirmed_us - received_us)
        found.append((anchor, sent_us))
    if not found:
        return None
    (first, began_us), (last, ended_us) = found[0], found[-1]
    allowed_us = (ended_us - began_us) // DRIFT + 1
    apart_us = max(last.least_us - first.most_us, first.least_us - last.most_us)
    if noted_us and apart_us > allowed_us:
        why = f"the witness's clock was set by {apart_us / 1e6:.3f} s or more"
        return Anchor(last.least_us, last.most_us, f"{why} during the load")
    return last


_START_TOLERANCE_US = 1000  # two readings of one start differ by some microseconds


class Apart(enum.Enum):
    """Comparison of hosts before the load; on one host the run is refused."""

    IDS = "ids"  # machine and boot ids that both hosts reported
    ADDRESSES = "addresses"


def is_same_host(ours: tuple[str, str], theirs: tuple[str, str]) -> bool | None:
    """Return True if two (machine id, boot id) are of one host, None if unknown.

    The boot id decides where both are known: it is drawn at each boot, and one for all
    containers of a kernel (random(4)) but those of systemd-nspawn and LXC, see
    is_same_start(), while clones of an image can share a machine id.
    """
    (our_machine, our_boot), (their_machine, their_boot) = ours, theirs
    if our_boot and their_boot:
        return our_boot == their_boot
    if our_machine and their_machine:
        return our_machine == their_machine
    return None


def is_same_start(ours_us: int | None, theirs_us: int | None) -> bool:
    """Return True if two kernels started at the same moment, so that they may be one.

    In microseconds, by a clock of each; None where that is not known.
    """
    if ours_us is None or theirs_us is None:
        return False
    return abs(ours_us - theirs_us) <= _START_TOLERANCE_US
