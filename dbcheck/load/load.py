"""The load of a cycle as a whole, and the decision that the server is gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from dbcheck.base.errors import LoadError
from dbcheck.base.system import now_us
from dbcheck.load.group import (
    END_S,
    Break,
    Counts,
    GroupResult,
    SessionGroup,
    Snapshot,
    add_counts,
    add_once,
    merge,
    percentiles_ms,
)
from dbcheck.model.cut import Gone
from dbcheck.ports.listener import LoadStatus
from dbcheck.rows.acks import HOUSEKEEPING_SESSION

RECENT_US = 1_200_000  # the rate and the recent latency are of this time
_SAMPLES = 8  # most samples of this time that are kept

# A session that broke so long before the last ack of all did not break by the cut.
EARLY_US = 1_000_000


class _Sample(NamedTuple):
    """The progress of the load at one moment; latencies: of all commits so far."""

    clock_us: int
    acked: int
    latencies: Counts


class Load:
    """Sessions that commit one operation after the other until the server is gone.

    One broken session proves nothing: it is replaced by a new session number as
    long as the same server process still answers.  The server is gone when every
    session broke and none could be replaced, or when every session that waits for a
    reply has waited for more than *silence_s* seconds: a power cut sends no RST.

    Nothing may be written to a server that has restarted, since its survivors must be
    read first.  (PostgreSQL stays the same process when it recovers from the crash of
    one of its backends; its rows differ by their keys.)

    After end(): results holds the result of each group; gone, gone_us, in_flight and
    task_at_end (the number of the task that was under way, or 0) hold what was seen of
    the server's end.
    """

    def __init__(self, groups: Sequence[SessionGroup], silence_s: float) -> None:
        self._groups, self._silence_s = groups, silence_s
        self.results: list[GroupResult] = []
        self.gone, self.gone_us, self.in_flight = Gone.NEVER, 0, 0
        self.task_at_end = 0
        self.began_us = 0
        self._recent: deque[_Sample] = deque(maxlen=_SAMPLES)

    def begin(self) -> None:
        """Connect every session, then let them all commit at once.

        Raise EngineError, with nothing left open, if one cannot connect.
        """
        try:
            with ThreadPoolExecutor(len(self._groups)) as pool:
                list(pool.map(lambda group: group.connect(), self._groups))
        except BaseException:
            self.end()
            raise
        self.began_us = now_us()
        self._recent.append(_Sample(self.began_us, 0, add_counts(())))
        for group in self._groups:
            group.start(self.began_us)

    def poll(self) -> bool:
        """Check whether the server is gone; return True once the load is over."""
        snapshots = self._snapshots()
        if any(snapshot.failed for snapshot in snapshots) or not any(
            snapshot.running for snapshot in snapshots
        ):
            self.end()
            result = self.result
            if result.breaks and not (result.failure or result.witness_error):
                last = self._last_breaks()
                self.gone, self.gone_us = (
                    Gone.BROKEN,
                    min(broken.clock_us for broken in last),
                )
                self.in_flight = sum(broken.in_flight for broken in last)
                if any(broken.session == HOUSEKEEPING_SESSION for broken in last):
                    self.task_at_end = result.unanswered(HOUSEKEEPING_SESSION)
            return True
        waiting = [snapshot for snapshot in snapshots if snapshot.waiting]
        if not waiting or not self._is_silent(waiting):
            return False
        self.gone, self.in_flight = (
            Gone.SILENT,
            sum(snapshot.waiting for snapshot in waiting),
        )
        self.gone_us = self.last_ack_us() or self.began_us
        self.task_at_end = self.task()
        self.end()
        return True

    def end(self, wait_s: float = END_S) -> None:
        """Break what is still connected and wait for every thread; idempotent.

        wait_s: how long to wait for the result of a group.  After an interrupt, to be
        called again: no process may continue to load.
        """
        for group in self._groups[len(self.results) :]:
            self.results.append(group.end(wait_s))

    def hold(self, *, held: bool) -> None:
        """Pause all sessions, or resume them: while paused no commit is flushed."""
        for group in self._groups:
            group.hold(held=held)

    def task(self) -> int:
        """Return the number of the task that is under way, 0 if none is."""
        return max(group.task() for group in self._groups)

    @property
    def result(self) -> GroupResult:
        """The results of all groups that have ended, as one."""
        return merge(self.results)

    @property
    def is_whole(self) -> bool:
        """True if the result of every group came: none is lost or was interrupted."""
        lost = any(isinstance(result.failure, LoadError) for result in self.results)
        return len(self.results) == len(self._groups) and not lost

    @property
    def farewells(self) -> list[str]:
        """The server's messages to the sessions that it ended, each once."""
        messages: list[str] = []
        for broken in self._last_breaks():
            add_once(messages, broken.farewell)
        return messages

    @property
    def lost_early(self) -> list[int]:
        """The numbers of the sessions that ended while the load went on.

        They broke and were not replaced, or the server refused an operation.
        """
        result = self.result
        lost_sessions = {
            broken.session for broken in result.breaks if self._is_early(broken)
        }
        return sorted(lost_sessions | set(result.refused))

    def _last_breaks(self) -> list[Break]:
        """Return the breaks that ended the load; all if no ack followed any."""
        breaks = self.result.breaks
        return [broken for broken in breaks if not self._is_early(broken)] or breaks

    def _is_early(self, broken: Break) -> bool:
        """Return True if the server answered others long after that session broke."""
        return broken.clock_us < (self.last_ack_us() or 0) - EARLY_US

    def last_ack_us(self) -> int | None:
        """Return the time of the last ack, None if there was none."""
        return (
            max((snapshot.last_ack_us for snapshot in self._snapshots()), default=0)
            or None
        )

    def newest_sent_us(self) -> int:
        """Return the sending time of the newest unanswered operation, or 0."""
        return max(
            (snapshot.newest_sent_us for snapshot in self._snapshots()), default=0
        )

    def idle_us(self) -> int | None:
        """Return the time up to which nothing is in flight, None if something is."""
        snapshots = self._snapshots()
        if any(snapshot.waiting for snapshot in snapshots):
            return None
        return min((snapshot.clock_us for snapshot in snapshots), default=None)

    def acked(self) -> int:
        """Return the least number of acks that came; from any thread."""
        return sum(snapshot.acked for snapshot in self._snapshots())

    def answered(self) -> int:
        """Return the number of answered commits, also those with a warning."""
        return sum(snapshot.acked + snapshot.warned for snapshot in self._snapshots())

    def status(self) -> LoadStatus:
        """Describe the load as it is now."""
        snapshots = self._snapshots()
        acked = sum(snapshot.acked for snapshot in snapshots)
        now = _Sample(
            now_us(), acked, add_counts(snapshot.latencies for snapshot in snapshots)
        )
        while self._recent and self._recent[0].clock_us <= now.clock_us - RECENT_US:
            self._recent.popleft()
        then = self._recent[0] if self._recent else now
        self._recent.append(now)
        seconds = (now.clock_us - then.clock_us) / 1e6
        return LoadStatus(
            seconds=(now.clock_us - self.began_us) / 1e6,
            acked=acked,
            witnessed=acked - sum(snapshot.unconfirmed for snapshot in snapshots),
            rate=(acked - then.acked) / seconds if seconds > 0.05 else 0.0,
            latency_ms=percentiles_ms(now.latencies),
            recent_ms=percentiles_ms(now.latencies - then.latencies),
            sessions=sum(snapshot.running for snapshot in snapshots),
            behind_s=self.behind_s(),
        )

    def behind_s(self) -> float:
        """Return the age of the oldest unconfirmed ack of any log, in seconds."""
        return max((snapshot.behind_s for snapshot in self._snapshots()), default=0.0)

    def latency_ms(self) -> Mapping[str, float]:
        """Return the percentiles of the commit latency so far, in milliseconds."""
        return percentiles_ms(
            add_counts(snapshot.latencies for snapshot in self._snapshots())
        )

    def _snapshots(self) -> list[Snapshot]:
        return [group.snapshot() for group in self._groups]

    def _is_silent(self, waiting: Sequence[Snapshot]) -> bool:
        """Return True if no operation was sent, nor answered, for too long.

        Each snapshot is as old as its clock says; silence after it is not counted.
        """
        seen_us = min(snapshot.clock_us for snapshot in waiting)
        newest_us = max(snapshot.newest_sent_us for snapshot in waiting)
        return seen_us - newest_us > self._silence_s * 1e6
