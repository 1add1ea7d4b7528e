"""Holds the sessions before a cut, so that no commit flushes the drives just before it.

The canaries' writes since the last flush then show whether the drives' caches lost
their power, see model.depth.  Yet the last ack must be young at the cut, or nothing was
at risk.  So the hold begins early enough for all in flight to be answered shortly
before the power goes, by the delay of the switch's earlier cuts.  If it is quicker than
the sessions, the switch is asked once nothing is in flight.  If the last ack would be
too old at the cut, all sessions commit once more, if there is time for that.  If the
power does not go in time, the sessions resume.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable

from dbcheck.base.system import now_us
from dbcheck.load.load import Load
from dbcheck.model.moments import HELD_AGE_MAX_S, PlannedCut

_POLL_S = 0.01
_OBEYED_S = 0.05  # until all sessions have obeyed, also those of other processes
_RELEASE_S = 0.2  # until they have sent an operation, or may not for now
_FIRST_S = 10.0  # to wait for the first time that nothing is in flight


class _State(enum.Enum):
    FREE = enum.auto()  # the sessions are at work
    DRAINING = enum.auto()  # they send nothing any more
    QUIET = enum.auto()  # and nothing is in flight
    RELEASED = enum.auto()  # they are to commit once more
    OVER = enum.auto()  # they are at work for good


class Hold:
    """Decides when the sessions are held, and when the switch is asked.

    Times in microseconds of the client's clock.
    quiet: see model.records.LoadRecord.quiet_us, after end().
    """

    def __init__(
        self,
        load: Load,
        moment: PlannedCut,
        reported_us: Callable[[], int | None],
        began_us: int,
        commits_us: tuple[int, int],
    ) -> None:
        """Begin at *began_us* what *moment*, that of a hold, asks for.

        reported_us: when the host sent the newest report of its canaries, None if none
        came.
        commits_us: how long commits take, usually and at most.
        """
        earliest_s, latest_s = moment.lag_s or (0.0, 0.0)
        self._load, self._reported_us = load, reported_us
        self._after_ack_us = int(moment.into_s * 1e6)
        self._earliest_us, self._latest_us = int(earliest_s * 1e6), int(latest_s * 1e6)
        self._began_us, self._usual_us = began_us, commits_us[0]
        # Of several commits that are in flight, the last is over after about so long.
        self._drain_us = sum(commits_us) // 2
        # The last ack is best so old at the earliest cut: then both ends are met.
        self._best_us = int((HELD_AGE_MAX_S - (latest_s - earliest_s)) / 2 * 1e6)
        # From when the switch is asked until the hold begins, if that is the order.
        self._later_us = self._earliest_us - self._best_us - self._drain_us
        self._state = _State.FREE
        self._since_us = self._quiet_us = 0
        self._asked_us: int | None = None
        self.quiet: list[tuple[int, int]] = []

    def may_ask(self, moment_us: int) -> bool:
        """Return True if it is time to ask the switch for the cut.

        So that at the cut the canaries were heard after the last ack, and it is old
        enough; sooner if it would be too old then; at the latest after some time.
        """
        since_us = moment_us - self._began_us
        if self._later_us >= 0 or since_us > _FIRST_S * 1e6:
            return True
        if self._state is not _State.QUIET:
            return self._earliest_us > self._best_us and since_us >= -self._later_us
        age_us = moment_us - self._quiet_us
        if age_us + self._latest_us >= HELD_AGE_MAX_S * 1e6:
            return True
        reported_us = self._reported_us()
        heard = reported_us is None or reported_us + self._earliest_us > self._quiet_us
        return heard and age_us + self._earliest_us >= self._after_ack_us

    def note_asked(self, moment_us: int) -> None:
        """Note that the switch is asked now."""
        self._asked_us = moment_us

    def end(self, moment_us: int) -> None:
        """Let the sessions go on for good."""
        if self._state is _State.QUIET:
            self.quiet.append((self._quiet_us, moment_us))
        self._state = _State.OVER
        self._load.hold(held=False)

    def step(self, moment_us: int) -> None:
        """Hold the sessions, or let them go on, if the time for that has come."""
        if self._is_too_late(moment_us):
            self.end(moment_us)
        elif self._state is _State.FREE and self._is_hold_due(moment_us):
            self._hold(moment_us)
        elif self._state is _State.DRAINING and self._is_drained():
            self._state, self._quiet_us = _State.QUIET, self._last_ack_us
        elif self._state is _State.QUIET and self._is_due(moment_us):
            self.quiet.append((self._quiet_us, moment_us))
            self._state, self._since_us = _State.RELEASED, moment_us
            self._load.hold(held=False)
        elif self._state is _State.RELEASED and (
            moment_us - self._since_us > _RELEASE_S * 1e6
            or self._load.newest_sent_us() >= self._since_us
        ):
            self._hold(moment_us)

    def _hold(self, moment_us: int) -> None:
        self._state, self._since_us = _State.DRAINING, moment_us
        self._load.hold(held=True)

    def _is_hold_due(self, moment_us: int) -> bool:
        """Return True if the hold must begin for nothing to be in flight at the cut."""
        if self._later_us < 0:
            return True
        asked_us = self._asked_us
        return asked_us is not None and moment_us >= asked_us + self._later_us

    def _is_drained(self) -> bool:
        idle_us = self._load.idle_us()
        return idle_us is not None and idle_us >= self._since_us + _OBEYED_S * 1e6

    @property
    def _last_ack_us(self) -> int:
        return self._load.last_ack_us() or self._load.began_us

    def _is_due(self, moment_us: int) -> bool:
        """Return True if the sessions are to commit once more now.

        The last ack would be too old at the latest cut, and it is the moment from which
        that commit is over before the earliest.
        """
        if self._asked_us is None:
            return False
        latest_us = self._asked_us + self._latest_us
        if latest_us - self._quiet_us < HELD_AGE_MAX_S * 1e6:
            return False
        over_us = moment_us + self._drain_us
        earliest_us = self._asked_us + self._earliest_us
        return earliest_us - self._best_us <= over_us < earliest_us

    def _is_too_late(self, moment_us: int) -> bool:
        """Return True if the power did not go in time, and acks would grow old.

        Also where not all is answered: without the power, nothing will be.
        """
        if self._state not in (_State.DRAINING, _State.QUIET):
            return False
        if self._asked_us is None or moment_us <= self._asked_us + self._latest_us:
            return False
        quiet = self._state is _State.QUIET
        age_us = moment_us - (self._quiet_us if quiet else self._last_ack_us)
        return age_us + self._usual_us >= HELD_AGE_MAX_S * 1e6


class Holding:
    """Runs a Hold in a thread of its own until end()."""

    def __init__(
        self, load: Load, moment: PlannedCut, reported_us: Callable[[], int | None]
    ) -> None:
        """Begin."""
        recent_ms = load.status().recent_ms or load.latency_ms()
        usual, most = (int(1e3 * recent_ms.get(name, 0.0)) for name in ("p50", "max"))
        self._hold = Hold(load, moment, reported_us, now_us(), (usual, most))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hold", daemon=True)
        self._thread.start()

    def may_ask(self) -> bool:
        """Return True if it is time to ask the switch for the cut."""
        return self._hold.may_ask(now_us())

    def note_asked(self) -> None:
        """Note that the switch is asked now."""
        self._hold.note_asked(now_us())

    def end(self) -> None:
        """Let the sessions go on; return once they do.  Idempotent."""
        self._over.set()
        self._thread.join()

    @property
    def quiet_us(self) -> tuple[tuple[int, int], ...]:
        """See model.records.LoadRecord, after end()."""
        return tuple(self._hold.quiet)

    def _run(self) -> None:
        while not self._over.wait(_POLL_S):
            self._hold.step(now_us())
        self._hold.end(now_us())
