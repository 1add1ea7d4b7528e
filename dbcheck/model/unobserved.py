"""Time that a client did not observe, and what that leaves unknown of an ack's age.

A client dates an ack when it reads it.  If it stood still before that (it was stopped,
its machine was suspended, its virtual machine paused), the ack may have come at any
time since it last looked.  So it notes each such gap, by every clock that may show one:
its monotonic clock shows that its process was stopped; CLOCK_BOOTTIME also that the
machine was suspended, when CLOCK_MONOTONIC stands still (clock_gettime(2)); the wall
clock that it was set forward, as after both; and the clock of the witness that a
virtual machine was paused, which may stop all clocks of its own.

All moments are on the client's monotonic clock, in microseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

# A longer time between two rounds of a loop is a gap: a loop looks at least every
# 50 ms, and takes milliseconds for what it finds.  A wall clock that NTP keeps is
# slewed.
GAP_US = 100_000
# A gap by the witness's clock is longer, as that clock is read across a network.
WITNESS_GAP_US = 500_000
# A kernel that runs on keeps what comes in a gap.  A kernel that stood still itself, as
# of a paused virtual machine, may be sent it once more within about as long again.
SHORT_US = 500_000
GAPS_MAX = 50
# Two clocks drift apart by one microsecond in so many; see model.witness.
_DRIFT_DIVISOR = 1000


class GapClock(enum.Enum):
    """The clock that shows most of a gap; the value names it."""

    MONOTONIC = "monotonic"
    BOOT = "boot-time"
    WALL = "wall"
    WITNESS = "witness's"


# The client's clocks at one moment, in microseconds: see base.system.clocks_us().
Clocks = tuple[int, int, int]
_CLOCK_NAMES = (GapClock.MONOTONIC, GapClock.BOOT, GapClock.WALL)


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which a client observed nothing.

    from_us, to_us: the last moment before the gap, and the first moment after it.
    lasted_us:   how long the gap took, by the clock that shows most of it.
    clock:       the clock that shows most of the gap.
    in_flight:   operations sent before the gap that had no answer when it was over,
                 also those whose connection broke.
    answered_us: when an ack came to an operation that was sent after the gap, or, of a
                 gap below SHORT_US, once all that had come in it was read; None if no
                 such ack came.  An earlier ack may have come within the gap.
    """

    from_us: int
    to_us: int
    lasted_us: int
    clock: GapClock
    in_flight: int = 0
    answered_us: int | None = None

    @property
    def hidden_us(self) -> int:
        """The part of the gap that the monotonic clock does not show."""
        return max(0, self.lasted_us - (self.to_us - self.from_us))


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of one log's sessions about its acks.

    last_ack_us: when the newest ack was read, None if none was.
    gaps:        in which the sessions observed nothing, GAPS_MAX at most: see
                 Rounds.add().
    sent_us:     when the newest operation that was acked was sent, tasks left out;
                 None if that is not known.
    """

    last_ack_us: int | None = None
    gaps: tuple[Gap, ...] = ()
    sent_us: int | None = None

    def came_us(self, read_us: int) -> int:
        """Return the earliest moment at which an ack read at *read_us* may have come.

        Later acks of this log are left out of account.
        """
        open_gaps = (gap.from_us for gap in self._open(read_us))
        return min((at for at in open_gaps if at < read_us), default=read_us)

    def unseen_us(self, read_us: int) -> int:
        """Return for how long the end of the server may have gone unobserved.

        read_us: when the last ack was read.  An operation that was sent before a gap
        and had no answer after it shows that the server was silent before the gap.
        """
        return sum(
            gap.lasted_us
            for gap in self._open(read_us)
            if gap.from_us < read_us or not gap.in_flight
        )

    def hidden_us(self, from_us: int, to_us: int) -> int:
        """Return the time between two moments that the monotonic clock leaves out."""
        return sum(
            gap.hidden_us
            for gap in self.gaps
            if gap.from_us < to_us and gap.to_us > from_us
        )

    def _open(self, read_us: int) -> list[Gap]:
        """Return the gaps that no ack read until *read_us* shows to be over."""
        return [
            gap
            for gap in self.gaps
            if gap.answered_us is None or gap.answered_us > read_us
        ]

    def with_gaps(self, late: Sequence[Gap]) -> Observed:
        """Return the same with gaps that were found once the sessions had ended."""
        return replace(self, gaps=(*self.gaps, *late))

    def moved(self, by_us: int) -> Observed:
        """Return the same on a clock that is *by_us* microseconds ahead."""
        gaps = (
            replace(
                gap,
                from_us=gap.from_us + by_us,
                to_us=gap.to_us + by_us,
                answered_us=gap.answered_us and gap.answered_us + by_us,
            )
            for gap in self.gaps
        )
        last_us, sent_us = self.last_ack_us, self.sent_us
        return Observed(
            last_us and last_us + by_us, tuple(gaps), sent_us and sent_us + by_us
        )


class Rounds:
    """Notes the gaps between the rounds of one loop; for one thread."""

    def __init__(self, clocks: Clocks) -> None:
        """Begin with a round at *clocks*."""
        self._before = clocks
        self.gaps: list[Gap] = []
        self.is_open = False  # True if no ack has shown some gap to be over
        self._emptied_us = clocks[0]

    def passed(self, clocks: Clocks) -> Gap | None:
        """Begin a round; return the gap since the last one, None if there was none."""
        before, self._before = self._before, clocks
        if (  # spelled out: this is done in each round
            clocks[0] - before[0] < GAP_US
            and clocks[1] - before[1] < GAP_US
            and clocks[2] - before[2] < GAP_US
        ):
            return None
        passed_us = [now - then for now, then in zip(clocks, before, strict=True)]
        lasted_us = max(passed_us)
        clock = _CLOCK_NAMES[passed_us.index(lasted_us)]
        return Gap(before[0], clocks[0], lasted_us, clock)

    def add(self, gap: Gap) -> None:
        """Keep *gap*; of too many drop the shortest that an ack has shown to be over.

        If no gap is over, the two oldest become one gap that is as long as both.
        """
        self.gaps.append(gap)
        self.is_open = True
        if len(self.gaps) <= GAPS_MAX:
            return
        gaps_over = [gap for gap in self.gaps if gap.answered_us is not None]
        if gaps_over:
            self.gaps.remove(min(gaps_over, key=lambda gap: gap.lasted_us))
            return
        first, second, *later = self.gaps
        joined = replace(
            first,
            to_us=second.to_us,
            lasted_us=first.lasted_us + second.lasted_us,
            in_flight=min(first.in_flight, second.in_flight),
        )
        self.gaps = [joined, *later]

    def emptied(self, moment_us: int) -> None:
        """Note that all replies that had come by *moment_us* are taken."""
        self._emptied_us = moment_us

    def answered(self, sent_us: int, acked_us: int) -> None:
        """Note an ack; *sent_us*: when its operation was sent."""
        self.gaps = [
            replace(gap, answered_us=acked_us)
            if gap.answered_us is None and self._is_over(gap, sent_us)
            else gap
            for gap in self.gaps
        ]
        self.is_open = any(gap.answered_us is None for gap in self.gaps)

    def _is_over(self, gap: Gap, sent_us: int) -> bool:
        """Return True if an ack that is read now came after *gap*."""
        is_short = gap.lasted_us < SHORT_US
        return gap.to_us <= sent_us or (is_short and gap.to_us < self._emptied_us)


class OtherClock:
    """Compares another machine's clock with this one's, message by message.

    The other clock seems less far ahead by the time that a message took to come, and
    never further.  If it is further ahead than ever before, time passed there that did
    not pass here.
    """

    def __init__(self) -> None:
        self._ahead_us: int | None = None  # the most that any message showed
        self._sent_us = self._here_us = 0  # of the last message, on this clock

    def heard(self, there_us: int, here_us: int) -> Gap | None:
        """Take a message of *there_us*, read at *here_us*; return a gap, if any."""
        ahead_us, most_us = there_us - here_us, self._ahead_us
        if most_us is None:
            self._ahead_us, self._sent_us, self._here_us = ahead_us, here_us, here_us
            return None
        most_us -= max(0, here_us - self._here_us) // _DRIFT_DIVISOR
        gap, more_us = None, ahead_us - most_us
        if more_us >= WITNESS_GAP_US:
            lasted_us = here_us - self._sent_us + more_us
            gap = Gap(self._sent_us, here_us, lasted_us, GapClock.WITNESS)
        self._ahead_us, self._here_us = max(most_us, ahead_us), here_us
        self._sent_us = there_us - self._ahead_us
        return gap


def find_newest(observed: Sequence[Observed]) -> Observed | None:
    """Return the log whose last ack surely is newest; None without acks.

    Of several such logs it is the one that observed most of the server's end.
    """
    with_acks = [log for log in observed if log.last_ack_us is not None]
    return max(with_acks, key=_rank_by_newest_ack, default=None)


def _rank_by_newest_ack(log: Observed) -> tuple[int, int]:
    last_us = log.last_ack_us or 0
    return log.came_us(last_us), -log.unseen_us(last_us)
