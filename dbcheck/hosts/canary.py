"""The client's side of the canaries: how far they came, as far as is known here."""

from __future__ import annotations

import logging
import struct
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from dbcheck.agent import wire
from dbcheck.agent.host import serve as host_agent
from dbcheck.base.errors import HostError
from dbcheck.base.system import now_us
from dbcheck.model.depth import RECENT_S, Completed, Counted
from dbcheck.remote.channel import REPLY_TIMEOUT_S, Channel

log = logging.getLogger(__name__)

_REPORTS_MAX = 1 << 15  # the reports of several seconds
_END_S = 3.0
_CLOCK_MAX_US = 1 << 60  # 36,000 years

T = TypeVar("T")

# A report: when it came, by this clock, and when the host sent it, by the host's clock,
# in microseconds; its numbers.
_Report = tuple[int, int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Pace:
    """Rate of the canaries' writes; the defaults leave a busy server alone.

    direct_per_s, buffered_per_s: the most writes per second.
    report_us:   the least time between two reports of the host.
    rings:       how many direct writes are on their way at once.
    ring_blocks: blocks of 4 KiB of a ring, overwritten in turn.
    file_bytes:  of buffered records, before the next file; two are kept.
    """

    direct_per_s: int = 3500
    buffered_per_s: int = 1500
    report_us: int = 100
    rings: int = 4
    ring_blocks: int = 1024
    file_bytes: int = 4 << 20

    @property
    def interval_us(self) -> int:
        """A ring writes no two blocks within less time than this."""
        return 1_000_000 * self.rings // self.direct_per_s


@dataclass(frozen=True, slots=True)
class _Started:
    """The host's answer to the request to start."""

    folder: str


@dataclass(frozen=True, slots=True)
class _Ended:
    """The host's answer to the request to stop; direct: by ring."""

    buffered: int
    direct: tuple[int, ...]
    stopped: str


class Canaries:
    """The running canaries of one host; ended by stop(), or with the host."""

    def __init__(
        self, channel: Channel, data_directory: str, folder: str, nonce: str, pace: Pace
    ) -> None:
        """Have canaries started over *channel*, to close it; raise HostError."""
        self._channel = channel
        self.nonce = nonce
        self._reports: deque[_Report] = deque(maxlen=_REPORTS_MAX)
        self._noting = threading.Lock()
        self._layout = host_agent.report_layout(pace.rings)
        self._numbers = 1 + pace.rings
        self._interval_us = pace.interval_us
        # The most by which this clock may be ahead of the host's, None before a report.
        self._ahead_us: int | None = None
        self._failure, self._answered = "", False
        try:
            channel.ask(
                host_agent.START_CANARIES,
                data_directory=data_directory,
                folder=folder,
                nonce=nonce,
                direct_per_s=pace.direct_per_s,
                buffered_per_s=pace.buffered_per_s,
                report_us=pace.report_us,
                rings=pace.rings,
                ring_blocks=pace.ring_blocks,
                file_bytes=pace.file_bytes,
            )
            self.folder = self._next_result(_Started).folder
        except BaseException:
            channel.close()
            raise
        self._thread = threading.Thread(
            target=self._listen, name="canaries", daemon=True
        )
        self._thread.start()

    @property
    def failure(self) -> str:
        """Reason why the canaries ended before stop(), "" if none is known."""
        return self._failure

    def answered(self) -> bool:
        """True if the host answered stop(), and so had its power until then."""
        return self._answered

    def completed(self, until_us: int | None = None) -> Completed:
        """Return the numbers completed by *until_us* on the client's monotonic clock.

        until_us: None for all that was ever reported.  A report that arrives after a
        cut is about writes from before it, as the host is gone; so None is right for a
        cut.
        """
        with self._noting:
            reports = list(self._reports)
        if until_us is not None:
            reports = [report for report in reports if report[0] <= until_us]
        last = before = (0,) * self._numbers
        if reports:
            last = tuple(map(max, zip(*(report[2] for report in reports), strict=True)))
        for moment_us, _, numbers in reports:
            if moment_us > reports[-1][0] - RECENT_S * 1e6:
                break
            before = numbers
        buffered, *direct = map(Counted, last, before)
        return Completed(
            buffered, tuple(direct), self._as_of_us(reports), self._interval_us
        )

    def last_progress_us(self) -> int | None:
        """Return the time of the first report with the last block of each ring.

        None without a report.  A host that keeps running goes on to report, also if its
        drive has no power.
        """
        with self._noting:
            reports = list(self._reports)
        for moment_us, _, numbers in reports:
            if numbers[1:] == reports[-1][2][1:]:
                return moment_us
        return None

    def _as_of_us(self, reports: Sequence[_Report]) -> int | None:
        """Return the sending time of the last of *reports*, on the client's clock.

        It does not matter how late that report came: the quickest of all reports shows
        how far the clocks are apart.
        """
        if not reports or self._ahead_us is None:
            return None
        return reports[-1][1] + self._ahead_us

    def heard_us(self) -> int | None:
        """Return the arrival time of the last report; None if there was none."""
        with self._noting:
            return self._reports[-1][0] if self._reports else None

    def reported_us(self) -> int | None:
        """Return the last report's sending time on the client's clock, or None."""
        with self._noting:
            return self._as_of_us(self._reports)

    def stop(self) -> None:
        """End the canaries; never raises.  It takes seconds if the host is gone."""
        try:
            self._channel.ask(host_agent.STOP_CANARIES)
        except HostError as error:
            log.debug("the canaries are gone: %s", error)
        else:
            self._thread.join(_END_S)
        self._channel.close()
        self._thread.join(_END_S)

    def _listen(self) -> None:
        """Take reports until the canaries are stopped or the host is gone."""
        try:
            ended = self._next_result(_Ended, timeout_s=None)
            self._failure, self._answered = ended.stopped, True
            # However late this comes, the canaries wrote hardly longer than they
            # reported.
            came_us, sent_us, _ = (self._reports or [(now_us(), 0, ())])[-1]
            self._note(came_us, sent_us, (ended.buffered, *ended.direct))
        except HostError as error:
            self._failure = str(error)

    def _next_result(
        self, wanted: type[T], timeout_s: float | None = REPLY_TIMEOUT_S
    ) -> T:
        """Return the answer to a request; note the reports that come before it."""
        while True:
            kind, payload = self._channel.receive(timeout_s)
            if kind == wire.RESULT:
                return self._channel.understood(wanted, self._channel.decoded(payload))
            if kind != host_agent.COMPLETED:
                raise self._channel.invalid_reply()
            came_us = now_us()
            try:
                sent_us, *completed = self._layout.unpack(payload)
            except struct.error:
                raise self._channel.invalid_reply() from None
            if sent_us > _CLOCK_MAX_US:
                raise self._channel.invalid_reply()
            ahead_us = came_us - sent_us
            if self._ahead_us is None or ahead_us < self._ahead_us:
                self._ahead_us = ahead_us
            self._note(came_us, sent_us, tuple(completed))
            if timeout_s is not None and len(self._reports) == _REPORTS_MAX:
                raise self._channel.invalid_reply()  # it would report for ever

    def _note(self, came_us: int, sent_us: int, completed: tuple[int, ...]) -> None:
        """Note a report; raise HostError if it is of other canaries."""
        if len(completed) != self._numbers or min(completed) < 0:
            raise self._channel.invalid_reply()
        with self._noting:
            self._reports.append((came_us, sent_us, completed))
