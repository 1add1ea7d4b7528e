"""The load of a cycle as a whole, and the decision that the server is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from dbcheck.core.ended import BROKEN, SILENT
from dbcheck.errors import LoadError
from dbcheck.load.crew import END_S, Crew, Look, Told, together
from dbcheck.load.latency import percentiles_ms
from dbcheck.load.loop import now_us
from dbcheck.ports.listener import LoadStatus

STALLED, UNSEEN = "stalled", "unseen"


class Load:
    """Sessions that commit one operation after the other until the server is gone.

    One broken session proves nothing: it is replaced by a new session number as
    long as the same server process still answers.  The server is gone when every
    session broke and none could be replaced, or when every session that waits for a
    reply has waited for more than *silence_s* seconds: a power cut sends no RST.

    Nothing may be written to a server that has restarted, since its survivors must be
    read first.  (PostgreSQL stays the same process when it recovers from the crash of
    one of its backends; its rows are told apart by their keys.)

    After end(): parts says by crew what the sessions went through; gone, gone_us and
    in_flight what was seen of the server's end; gone is "" if nothing was.
    """

    def __init__(self, crews: Sequence[Crew], silence_s: float) -> None:
        self._crews, self._silence_s = crews, silence_s
        self.parts: list[Told] = []
        self.gone, self.gone_us, self.in_flight = "", 0, 0
        self.began_us = 0
        self._rates = [(0, 0)]

    def begin(self) -> None:
        """Connect every session, then let them all commit at once.

        Raise EngineError, with nothing left open, if one cannot connect.
        """
        try:
            with ThreadPoolExecutor(len(self._crews)) as pool:
                list(pool.map(lambda crew: crew.connect(), self._crews))
        except BaseException:
            self.end()
            raise
        self.began_us = now_us()
        self._rates = [(self.began_us, 0)]
        for crew in self._crews:
            crew.start(self.began_us)

    def poll(self) -> bool:
        """Look whether the server is gone; return True once the load is over."""
        looks = self._looks()
        if any(look.failed for look in looks) or not any(
            look.running for look in looks
        ):
            self.end()
            result = self.result
            if result.broken and not (result.failure or result.witness_error):
                self.gone, self.gone_us = BROKEN, result.broken_us
                self.in_flight = result.in_flight
            return True
        waiting = [look for look in looks if look.waiting]
        if not waiting or not self._is_silent(waiting):
            return False
        self.gone, self.in_flight = SILENT, sum(look.waiting for look in waiting)
        self.gone_us = self.last_ack_us() or self.began_us
        self.end()
        return True

    def end(self, wait_s: float = END_S) -> None:
        """Break what is still connected and wait for every thread; idempotent.

        wait_s: for a part to tell what it went through.  After an interrupt, to be
        called again: no process may go on loading.
        """
        for crew in self._crews[len(self.parts) :]:
            self.parts.append(crew.end(wait_s))

    def hold(self, *, held: bool) -> None:
        """Have all sessions send nothing more, or go on: no commit is flushed then."""
        for crew in self._crews:
            crew.hold(held=held)

    @property
    def result(self) -> Told:
        """What the sessions of all parts that have ended went through."""
        return together(self.parts)

    @property
    def is_whole(self) -> bool:
        """Whether every part told what it sent: none is lost, no interrupt hid one."""
        lost = any(isinstance(part.failure, LoadError) for part in self.parts)
        return len(self.parts) == len(self._crews) and not lost

    def last_ack_us(self) -> int | None:
        """Return when the last ack of all came, None if there was none."""
        return max((look.last_ack_us for look in self._looks()), default=0) or None

    def status(self) -> LoadStatus:
        """Describe the load as it is now."""
        looks = self._looks()
        moment, acked = now_us(), sum(look.acked for look in looks)
        self._rates = [r for r in self._rates if r[0] > moment - 1_200_000][-8:] or [
            (moment, acked)
        ]
        then, before = self._rates[0]
        self._rates.append((moment, acked))
        seconds = (moment - then) / 1e6
        return LoadStatus(
            seconds=(moment - self.began_us) / 1e6,
            acked=acked,
            witnessed=acked - sum(look.unconfirmed for look in looks),
            rate=(acked - before) / seconds if seconds > 0.05 else 0.0,
            latency_ms=self.latency_ms(),
            sessions=sum(look.running for look in looks),
            behind_s=self.behind_s(),
        )

    def behind_s(self) -> float:
        """Return how long the oldest ack of any log has waited for the witness."""
        return max((look.behind_s for look in self._looks()), default=0.0)

    def latency_ms(self) -> Mapping[str, float]:
        """Return the percentiles of the commit latency so far, in milliseconds."""
        return percentiles_ms(look.latencies for look in self._looks())

    def _looks(self) -> list[Look]:
        return [crew.look() for crew in self._crews]

    def _is_silent(self, waiting: Sequence[Look]) -> bool:
        """Say whether no operation was sent, nor answered, for too long.

        Each look is as old as its clock says: what it did not see is no silence.
        """
        seen_us = min(look.clock_us for look in waiting)
        newest_us = max(look.newest_sent_us for look in waiting)
        return seen_us - newest_us > self._silence_s * 1e6
