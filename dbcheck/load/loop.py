"""Runs many sessions on one event loop, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import takewhile
from queue import SimpleQueue

from dbcheck.core.history import SESSION_MAX, AckValues
from dbcheck.core.schedule import Schedule
from dbcheck.errors import CommitUnknown, DbcheckError, EngineError, WitnessError
from dbcheck.load.crew import END_S, Look, Told, note
from dbcheck.load.latency import Latencies
from dbcheck.load.pace import Pace
from dbcheck.load.poller import READ, WRITE, Alarm, open_poller
from dbcheck.load.team import Team
from dbcheck.ports.engine import Session
from dbcheck.ports.witness import WitnessLog

log = logging.getLogger(__name__)

LOOK_S = 0.05
_REPLIES_MAX = 64  # taken in one round, so that the first of them need not wait long
_CONNECTING_MAX = 16  # replacements at once
_YOUNG_US = 1_000_000  # for so long after an ack a load that is held back goes on


def now_us() -> int:
    """Return the client's monotonic clock in microseconds."""
    return time.monotonic_ns() // 1000


@dataclass(slots=True)
class _Lane:
    """A session and how far it is.

    seq, acked: operations sent, and acked.
    waiting:    the last one was sent, at sent_us, and its reply has not come.
    place:      in lockstep: how many acks the log has, up to that of this session.
    """

    session: Session
    number: int
    fd: int
    seq: int = 0
    acked: int = 0
    waiting: bool = False
    sent_us: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True)
class _Arrival:
    """What came of the replacement of a session that broke at broken_us."""

    session: Session | None
    number: int
    broken_us: int
    in_flight: bool
    farewell: str


class Loop:
    """See load.crew.Crew.

    In a round, the replies that have come are read; then the clock is: an ack never
    looks older than it is, by which no server is blamed for what it lost after the cut.
    Then the acks go to the log, together, and the next operations to the server.
    """

    def __init__(self, team: Team, schedule: Schedule, witness_log: WitnessLog) -> None:
        self._team, self._row_of, self._log = team, schedule.row, witness_log
        self._numbers = team.numbers()
        self._lanes: dict[int, _Lane] = {}
        self._ready: deque[_Lane] = deque()  # may send, as soon as pace and log allow
        self._is_paced = False  # some of them wait for the rate, and not for the log
        self._waiting = 0
        self._held = False
        self._acks = 0
        self._last_ack_us = 0
        self._latencies = Latencies()
        self._durations_us: list[int] = []
        self._told = Told()
        self._look, self._looked_s = Look(), 0.0
        self._stopping = self._closed = False
        self._replacing = 0
        self._arrivals: SimpleQueue[_Arrival] = SimpleQueue()
        self._connecting = ThreadPoolExecutor(_CONNECTING_MAX, "session")
        # Nothing connects or runs in another thread; and not join(): see ProcessCrew.
        self._has_run = threading.Event()
        self._has_run.set()
        self._poller = open_poller()
        self._alarm = Alarm()
        self._closing = threading.Lock()  # the alarm stays open while it is held

    # ------------------------------------------------------------- see load.crew.Crew

    def connect(self) -> None:
        """Open every session; raise EngineError, with none left open, if one fails."""
        self._has_run.clear()
        try:
            for _ in range(self._team.count):
                if self._stopping:  # as an interrupt in another thread demands
                    break
                self._add(self._team.open_session(), next(self._numbers))
        except BaseException:
            for lane in list(self._lanes.values()):
                self._drop(lane)
            raise
        finally:
            self._has_run.set()
        self._look = Look(now_us(), running=len(self._lanes))

    def start(self, began_us: int) -> None:
        """Let them commit, in a thread of their own."""
        self._pace = Pace(self._team.rate, began_us)
        step_us = self._team.ramp_s * 1e6 / max(1, len(self._lanes))
        self._beginning = deque(
            (began_us + int(place * step_us), lane)
            for place, lane in enumerate(self._lanes.values())
        )
        # Before a load in lockstep, all that the log holds is confirmed.
        self._handed_over = self._log.confirmed()
        self._has_run.clear()
        threading.Thread(target=self._run, name="load").start()

    def hold(self, *, held: bool) -> None:
        """Send nothing more, or go on; from any thread."""
        self._held = held
        with self._closing:
            if not self._closed:
                self._alarm.set()

    def look(self) -> Look:
        """Return the newest look at the sessions."""
        return self._look

    def end(self, wait_s: float = END_S) -> Told:
        """End every session and thread; return what they told; idempotent.

        wait_s: not needed, since nothing here waits for the witness.
        """
        self._stopping = True
        if not self._closed:
            self._alarm.set()
            self._has_run.wait()
            self._close()
        return self._told

    # ------------------------------------------------------------ in the loop's thread

    def _run(self) -> None:
        try:
            self._rounds()
        finally:
            self._has_run.set()

    def _rounds(self) -> None:
        self._poller.register(self._alarm.fileno(), READ)
        self._poller.register(self._log.fileno(), READ)
        try:
            while (self._lanes or self._replacing) and not self._stopping:
                self._round()
        except WitnessError as error:
            self._told.witness_error = error
        except Exception as error:  # a defect of ours must not hang the load
            self._told.failure = error
        for lane in list(self._lanes.values()):
            self._drop(lane)
        self._look_around(now_us())

    def _round(self) -> None:
        """Take what has come, and send what may be sent."""
        done: list[tuple[_Lane, int]] = []
        for fd, mask in self._poller.poll(self._idle_s(), _REPLIES_MAX):
            lane = self._lanes.get(fd)
            if lane is None:
                self._heard(fd)
                continue
            try:
                if mask & WRITE and lane.session.flush():
                    self._poller.modify(fd, READ)
                row_id = lane.session.receive()
            except EngineError as error:
                self._ended(lane, error)
                continue
            if row_id is not None:
                done.append((lane, row_id))
        moment_us = now_us()
        if done:
            self._take(done, moment_us)
        self._begin_due(moment_us)
        self._send_ready(moment_us)
        if moment_us - self._look.clock_us >= LOOK_S * 1e6:
            self._look_around(moment_us)

    def _take(self, done: list[tuple[_Lane, int]], acked_us: int) -> None:
        """Hand over the acks of one round."""
        acks: list[AckValues] = []
        for lane, row_id in done:
            lane.acked = lane.seq
            lane.waiting = False
            self._durations_us.append(acked_us - lane.sent_us)
            acks.append((lane.number, lane.seq, row_id, acked_us))
            self._ready.append(lane)
        self._waiting -= len(acks)
        self._acks += len(acks)
        self._last_ack_us = acked_us
        if self._log.lockstep:
            for place, (lane, _) in enumerate(done, self._handed_over + 1):
                lane.place = place
            self._handed_over += len(acks)
        self._log.append_many(acks)

    def _send_ready(self, moment_us: int) -> None:
        """Send the next operations, as many as the log has room for their acks."""
        ready = self._ready
        self._is_paced = False
        if not ready or self._held:
            return
        room = self._log.room(self._waiting + len(ready))
        wanted = min(len(ready), room - self._waiting)
        if self._log.lockstep:
            confirmed = self._log.confirmed()
            free = takewhile(lambda lane: lane.place <= confirmed, ready)
            wanted = min(wanted, sum(1 for _ in free))
        if wanted <= 0:
            return
        granted = self._pace.granted(moment_us, wanted)
        self._is_paced = granted < wanted
        for _ in range(granted):
            lane = ready.popleft()
            lane.seq += 1
            row = self._row_of(lane.number, lane.seq)
            lane.sent_us = moment_us
            lane.waiting = True
            self._waiting += 1
            try:
                if not lane.session.send(row):
                    self._poller.modify(lane.fd, READ | WRITE)
            except EngineError as error:
                self._ended(lane, error)

    def _begin_due(self, moment_us: int) -> None:
        while self._beginning and self._beginning[0][0] <= moment_us:
            _, lane = self._beginning.popleft()
            if lane.fd in self._lanes:
                self._ready.append(lane)

    def _idle_s(self) -> float:
        """Return how long the loop may wait for replies and for news of the log.

        While sessions wait for the log it must not run: it would take the interpreter
        from the threads that bring the news.
        """
        return min(LOOK_S, self._pace.wait_s(now_us())) if self._is_paced else LOOK_S

    def _heard(self, fd: int) -> None:
        """Take what came beside the replies: news of the log, a session, the end."""
        if fd != self._alarm.fileno():
            self._log.room()
            return
        self._alarm.clear()
        while not self._arrivals.empty():
            self._arrived(self._arrivals.get())

    # -------------------------------------------------------------- sessions that break

    def _ended(self, lane: _Lane, error: EngineError) -> None:
        """Take leave of a session that broke or was refused."""
        log.debug("session %d ended: %s", lane.number, error)
        in_flight = self._is_under_way(lane)
        self._drop(lane)
        if not isinstance(error, CommitUnknown):
            note(self._told.refusals, str(error))
            return
        number = next(self._numbers)
        gone = _Arrival(None, number, now_us(), in_flight, error.farewell)
        self._replacing += 1
        if self._team.may_replace and number <= SESSION_MAX:
            self._connecting.submit(self._replace, gone)
        else:
            self._arrived(gone)

    def _is_under_way(self, lane: _Lane) -> bool:
        """Say whether a session waits for a reply, or only for its turn.

        In lockstep that comes once the witness has its ack, under a rate in its time,
        and while they are held soon.  If no ack is young, it idles, and nothing is at
        risk any more.
        """
        turns = self._log.lockstep or self._team.rate or self._held
        in_turn = lane.acked and turns
        if lane.waiting or not in_turn:
            return lane.waiting
        return now_us() - self._last_ack_us < _YOUNG_US

    def _replace(self, gone: _Arrival) -> None:
        """Open a session in place of one, in a thread beside the loop."""
        session, may_stay = None, False
        try:
            session = self._team.open_session()
            # Asked only now: a connection made before a restart cannot write after it.
            may_stay = self._team.is_same_server()
        except DbcheckError as error:
            log.debug("session %d is not replaced: %s", gone.number, error)
        except Exception as error:  # a defect of ours must not hang the load
            self._told.failure = error
            self._stopping = True
        if session is not None and not may_stay:
            session.close()
            session = None
        with self._closing:
            if not self._closed:
                self._arrivals.put(replace(gone, session=session))
                self._alarm.set()
            elif session is not None:  # an interrupt ended the wait for this thread
                session.close()

    def _arrived(self, arrival: _Arrival) -> None:
        self._replacing -= 1
        if arrival.session is not None:
            self._ready.append(self._add(arrival.session, arrival.number))
            return
        self._told.note_broken(arrival.broken_us, in_flight=arrival.in_flight)
        note(self._told.farewells, arrival.farewell)

    # --------------------------------------------------------------------- housekeeping

    def _add(self, session: Session, number: int) -> _Lane:
        lane = _Lane(session, number, session.fileno())
        try:
            self._poller.register(lane.fd, READ)
        except BaseException:
            session.close()
            raise
        self._lanes[lane.fd] = lane
        return lane

    def _drop(self, lane: _Lane) -> None:
        """Close a session and keep what it did."""
        self._poller.unregister(lane.fd)
        del self._lanes[lane.fd]
        if lane in self._ready:
            self._ready.remove(lane)
        self._waiting -= lane.waiting
        if lane.seq:
            self._told.sent[lane.number] = lane.seq
        if lane.acked:
            self._told.acked[lane.number] = lane.acked
        lane.session.close()

    def _look_around(self, moment_us: int) -> None:
        """Publish how the sessions are."""
        if self._durations_us:
            self._latencies.add(self._durations_us)
            self._durations_us = []
        sent = [lane.sent_us for lane in self._lanes.values() if lane.waiting]
        self._look = Look(
            clock_us=moment_us,
            running=len(self._lanes) + self._replacing,
            waiting=len(sent),
            newest_sent_us=max(sent, default=0),
            acked=self._acks,
            unconfirmed=self._log.unconfirmed(),
            behind_s=self._log.behind_s(),
            last_ack_us=self._last_ack_us,
            latencies=self._latencies.counts(),
            failed=bool(self._told.failure or self._told.witness_error),
        )

    def _close(self) -> None:
        """Close what is open; the loop's thread has ended, or never began."""
        self._connecting.shutdown(cancel_futures=True)
        for lane in list(self._lanes.values()):
            self._drop(lane)
        with self._closing:
            while not self._arrivals.empty():
                if (session := self._arrivals.get().session) is not None:
                    session.close()
            # Noted first: after an interrupt, its number may be that of another file.
            self._closed = True
            self._poller.close()
            self._alarm.close()
