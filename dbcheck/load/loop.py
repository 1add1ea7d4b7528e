"""Runs many sessions on one event loop, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import takewhile
from queue import SimpleQueue

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    CommitUnknown,
    CommitWarned,
    DbcheckError,
    EngineError,
    LoadError,
    WitnessError,
)
from dbcheck.base.system import clocks_us, now_us
from dbcheck.load.group import END_S, Break, GroupResult, Latencies, Snapshot, add_once
from dbcheck.load.pace import LEASE_S, Lease, Pace
from dbcheck.load.poller import READ, WRITE, Alarm, open_poller
from dbcheck.load.sessions import Sessions
from dbcheck.model.cut import Replaced
from dbcheck.model.unobserved import Gap, Observed, Rounds
from dbcheck.model.watched import WatchTally, make_facts_of_settings
from dbcheck.ports.connection import Session
from dbcheck.ports.witness import LoadLog
from dbcheck.rows.acks import HOUSEKEEPING_SESSION, LOAD_SESSION_MAX, AckValues

log = logging.getLogger(__name__)
SNAPSHOT_S = 0.05
_SNAPSHOT_US = int(SNAPSHOT_S * 1e6)
LOOK_US = 500_000  # between two looks of a session at its own settings
_REPLIES_MAX = 64  # replies taken in one round, so that none of them waits long
_CONNECTING_MAX = 16  # replacements that connect at once
_NO_NEWS_OF_CLIENT = (
    f"the sessions ended by themselves: no news of the client for {LEASE_S:g} s"
)
_YOUNG_US = 1_000_000  # an ack this young shows that a paused load was at work


@dataclass(slots=True)
class Slot:
    """A session and its progress.

    seq, acked: operations sent, and acked.
    waiting:    the last operation was sent, at sent_us, and its reply has not come.
    position:   in lockstep: how many acks the log has, up to that of this session.
    looks:      the last operation also reads the session's settings; the next operation
                that does is sent from look_us on.
    """

    session: Session
    number: int
    fd: int
    seq: int = 0
    acked: int = 0
    waiting: bool = False
    sent_us: int = 0
    position: int = 0
    looks: bool = False
    look_us: int = 0


@dataclass(frozen=True, slots=True)
class _Replacement:
    """The session in place of a lost one; None: there is no such session."""

    gone: Break
    number: int
    session: Session | None = None

    @property
    def unanswered(self) -> int:
        """The number of operations of the lost session that count as unanswered.

        0 or 1; a housekeeping task does not.
        """
        return int(self.gone.in_flight and self.number != HOUSEKEEPING_SESSION)


class Loop:
    """See load.group.SessionGroup.

    In a round, the replies that have come are read first, then the clock.  So an ack
    never looks older than it is, and no server is blamed for losses after the cut.
    A long time between two readings of the clock is noted: see model.unobserved.
    Then the acks go to the log, together, and the next operations to the server, as
    long as the lease lasts.
    A setting that decides how a commit is made may be set in one session alone, also by
    a pooler that lent the connection to others before.  So each session reads its
    settings with its first operation, and then with one in each LOOK_US.
    """

    def __init__(
        self, sessions: Sessions, witness_log: LoadLog, lease: Lease | None = None
    ) -> None:
        """lease: of sessions whose client is on another machine, else None."""
        self._sessions, self._log = sessions, witness_log
        self._lockstep = witness_log.lockstep
        self._lease = lease or Lease()
        self._operation_of = sessions.plan.operation
        self._numbers = sessions.numbers()
        self._slots: dict[int, Slot] = {}
        self._housekeeping: Slot | None = None
        self._ready: deque[Slot] = deque()  # may send, as soon as pace and log allow
        # True if sessions of _ready wait for the rate, and not for the log.
        self._is_paced = False
        self._log_due_us = 0  # when the log is to send, at the latest
        self._round_us = 0  # when the round began, after its replies were read
        self._waiting = 0
        self._held = False
        self._acks = 0
        self._last_ack_us = 0
        # When the newest operation that is acked was sent; no housekeeping task.
        self._sent_us = 0
        self._gap_notes = Rounds(clocks_us())
        self._settings_tally = WatchTally(
            make_facts_of_settings(sessions.before.settings)
        )
        self._latencies = Latencies()
        self._durations_us: list[int] = []
        self._result = GroupResult()
        self._snapshot = Snapshot()
        self._stopping = self._closed = False
        self._replacing = 0
        # Operations in flight whose session broke and is not replaced; no task.
        self._unanswered = 0
        self._replacements: SimpleQueue[_Replacement] = SimpleQueue()
        self._connecting = ThreadPoolExecutor(_CONNECTING_MAX, "session")
        # Set while nothing connects or runs in another thread.  It is waited for in
        # place of Thread.join(), see ProcessGroup.
        self._has_run = threading.Event()
        self._has_run.set()
        self._poller = open_poller()
        self._alarm = Alarm()
        self._closing = threading.Lock()  # the alarm stays open while it is held

    # -------------------------------------------------------- see group.SessionGroup

    def connect(self) -> None:
        self._has_run.clear()
        try:
            for _ in range(self._sessions.count):
                if self._stopping:  # as an interrupt in another thread demands
                    break
                self._add(self._sessions.open_session(), next(self._numbers))
            if self._sessions.has_housekeeping and not self._stopping:
                session = self._sessions.open_housekeeping()
                self._housekeeping = self._add(session, HOUSEKEEPING_SESSION)
        except BaseException:
            for slot in list(self._slots.values()):
                self._drop(slot)
            raise
        finally:
            self._has_run.set()
        self._snapshot = Snapshot(now_us(), running=len(self._slots))

    def start(self, began_us: int) -> None:
        """Let the sessions commit, in a thread of their own."""
        self._pace = Pace(self._sessions.rate, began_us)
        step_us = self._sessions.ramp_s * 1e6 / max(1, len(self._slots))
        self._beginning = deque(
            (began_us + int(number * step_us), slot)
            for number, slot in enumerate(self._slots.values())
        )
        # Before a load in lockstep, all that the log holds is confirmed.
        self._handed_over = self._log.confirmed()
        self._has_run.clear()
        threading.Thread(target=self._run, name="load").start()

    def hold(self, *, held: bool) -> None:
        """Pause the sessions, or resume them; from any thread."""
        self._held = held
        with self._closing:
            if not self._closed:
                self._alarm.set()

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot."""
        return self._snapshot

    def task(self) -> int:
        """Return the number of the task that is under way; from any thread."""
        slot = self._housekeeping
        return slot.seq if slot is not None and slot.waiting else 0

    def end(self, wait_s: float = END_S) -> GroupResult:
        """End every session and thread; return the result; idempotent.

        wait_s: not needed, since nothing here waits for the witness.
        """
        self._stopping = True
        if not self._closed:
            self._alarm.set()
            self._has_run.wait()
            self._close()
        return self._result

    # ------------------------------------------------------------ in the loop's thread

    def _run(self) -> None:
        try:
            self._run_rounds()
        finally:
            self._has_run.set()

    def _run_rounds(self) -> None:
        self._poller.register(self._alarm.fileno(), READ)
        self._poller.register(self._log.fileno(), READ)
        self._gap_notes = Rounds(clocks_us())
        try:
            while (self._slots or self._replacing) and not self._stopping:
                self._run_round()
        except WitnessError as error:
            self._result.witness_error = error
        except Exception as error:  # a defect of ours must not hang the load
            self._result.failure = error
        for slot in list(self._slots.values()):
            self._drop(slot)
        self._publish(now_us())
        looked = self._settings_tally.watched()
        self._result.watched = looked if looked.looks else None
        self._result.observed = Observed(
            self._last_ack_us or None,
            tuple(self._gap_notes.gaps),
            self._sent_us or None,
        )

    def _run_round(self) -> None:
        """Take the replies that have come, and send the operations that may be sent."""
        answered, replies = self._take_replies()
        clocks = clocks_us()
        moment_us, gap = clocks[0], self._gap_notes.passed(clocks)
        self._hand_over_acks(answered, moment_us)
        if gap is not None or self._gap_notes.is_open:
            self._note_gap(gap, moment_us, replies)
        if moment_us > self._lease.until_us:
            raise LoadError(_NO_NEWS_OF_CLIENT, id=ErrorId.LOAD_PROCESS_LOST)
        self._begin_due_sessions(moment_us)
        self._send_ready(moment_us)
        self._round_us, self._log_due_us = moment_us, self._log.send_due(moment_us)
        if moment_us - self._snapshot.clock_us >= _SNAPSHOT_US:
            self._publish(moment_us)

    def _take_replies(self) -> tuple[list[tuple[Slot, int]], int]:
        """Return who was answered with which id, and how many descriptors are ready."""
        ready = self._poller.poll(self._compute_idle_s(), _REPLIES_MAX)
        return self._take(ready), len(ready)

    def _take(self, ready: Sequence[tuple[int, int]]) -> list[tuple[Slot, int]]:
        answered: list[tuple[Slot, int]] = []
        slots = self._slots
        for fd, mask in ready:
            slot = slots.get(fd)
            if slot is None:
                self._handle_wakeup(fd)
                continue
            try:
                if mask & WRITE and slot.session.flush():
                    self._poller.modify(fd, READ)
                row_id = slot.session.receive()
            except EngineError as error:
                self._end_session(slot, error)
                continue
            if row_id is not None:
                answered.append((slot, row_id))
        return answered

    def _hand_over_acks(self, answered: list[tuple[Slot, int]], acked_us: int) -> None:
        """Hand over the acks of one round, if there are any."""
        if not answered:
            return
        if self._gap_notes.is_open:
            newest_us = max(slot.sent_us for slot, _ in answered)
            self._gap_notes.answered(newest_us, acked_us)
        acks: list[AckValues] = []
        ready, durations_us = self._ready, self._durations_us
        newest_us = 0
        for slot, row_id in answered:
            number, seq, sent_us = slot.number, slot.seq, slot.sent_us
            slot.acked = seq
            slot.waiting = False
            if number != HOUSEKEEPING_SESSION:
                durations_us.append(acked_us - sent_us)
                if sent_us > newest_us:
                    newest_us = sent_us
            acks.append((number, seq, row_id, acked_us))
            if slot.looks and (found := slot.session.settings()):
                facts = make_facts_of_settings(found)
                self._settings_tally.add(sent_us, facts, acked_us)
            ready.append(slot)
        if self._lockstep:
            for position, (slot, _) in enumerate(answered, self._handed_over + 1):
                slot.position = position
            self._handed_over += len(acks)
        self._log_acks(acks, newest_us, acked_us)

    def _log_acks(
        self, acks: Sequence[AckValues], newest_us: int, acked_us: int
    ) -> None:
        """Count *acks*, which came at *acked_us*, and hand them to the log.

        newest_us: when the newest of their operations was sent, tasks left out.
        """
        self._sent_us = max(self._sent_us, newest_us)
        self._waiting -= len(acks)
        self._acks += len(acks)
        self._last_ack_us = acked_us
        self._log.append_many(acks)

    def _note_gap(self, gap: Gap | None, moment_us: int, replies: int) -> None:
        """Note the gap before a round, or that its *replies* were all that had come.

        To be called once the replies that had come in the gap are taken.
        """
        if gap is None:
            if replies < _REPLIES_MAX:
                self._gap_notes.emptied(moment_us)
            return
        waiting = sum(
            slot.waiting and slot.sent_us < gap.from_us
            for slot in self._slots.values()
            if slot.number != HOUSEKEEPING_SESSION
        )
        self._gap_notes.add(replace(gap, in_flight=waiting + self._unanswered))

    def _send_ready(self, moment_us: int) -> None:
        """Send as many of the next operations as the log has room for acks."""
        ready = self._ready
        self._is_paced = False
        if not ready or self._held:
            return
        room = self._log.room(self._waiting + len(ready))
        wanted = min(len(ready), room - self._waiting)
        if self._lockstep:
            confirmed = self._log.confirmed()
            free = takewhile(lambda slot: slot.position <= confirmed, ready)
            wanted = min(wanted, sum(1 for _ in free))
        if wanted <= 0:
            return
        granted = self._pace.granted(moment_us, wanted)
        self._is_paced = granted < wanted
        self._waiting += granted
        self._send(granted, moment_us)

    def _send(self, granted: int, moment_us: int) -> None:
        """Send the next operation of as many sessions as are *granted*."""
        ready, operation_of = self._ready, self._operation_of
        for _ in range(granted):
            slot = ready.popleft()
            seq = slot.seq = slot.seq + 1
            slot.sent_us = moment_us
            slot.waiting = True
            if looks := moment_us >= slot.look_us:
                slot.look_us = moment_us + LOOK_US
            slot.looks = looks
            try:
                operation = operation_of(slot.number, seq)
                if not slot.session.send(operation, look=looks):
                    self._poller.modify(slot.fd, READ | WRITE)
            except EngineError as error:
                self._end_session(slot, error)

    def _begin_due_sessions(self, moment_us: int) -> None:
        while self._beginning and self._beginning[0][0] <= moment_us:
            _, slot = self._beginning.popleft()
            if slot.fd in self._slots:
                self._ready.append(slot)

    def _compute_idle_s(self) -> float:
        """Return the seconds that the loop may wait for replies and news of the log.

        While sessions wait for the log the loop must not run, as it would take the
        interpreter from the threads that bring the news of the log.
        """
        log_s = max(0, self._log_due_us - self._round_us) / 1e6
        idle_s = min(SNAPSHOT_S, log_s)
        return min(idle_s, self._pace.wait_s(now_us())) if self._is_paced else idle_s

    def _handle_wakeup(self, fd: int) -> None:
        """Handle what is no reply: news of the log, a new session, the end."""
        if fd != self._alarm.fileno():
            self._log.take_news()
            return
        self._alarm.clear()
        while not self._replacements.empty():
            self._add_replacement(self._replacements.get())

    # -------------------------------------------------------------- sessions that break

    def _end_session(self, slot: Slot, error: EngineError) -> None:
        """Drop a session that broke or was refused, and have it replaced."""
        log.debug("session %d ended: %s", slot.number, error)
        in_flight = self._is_under_way(slot)
        self._drop(slot)
        if not isinstance(error, CommitUnknown):
            self._result.refused.append(slot.number)
            add_once(self._result.refusals, str(error))
            return
        if isinstance(error, CommitWarned):
            self._result.warned += 1
            add_once(self._result.warnings, str(error))
        is_task = slot.number == HOUSEKEEPING_SESSION
        number = HOUSEKEEPING_SESSION if is_task else next(self._numbers)
        gone = Break(slot.number, now_us(), in_flight, error.farewell)
        wanted = _Replacement(gone, number)
        self._replacing += 1
        self._unanswered += wanted.unanswered
        if self._sessions.may_replace and number <= LOAD_SESSION_MAX:
            self._connecting.submit(self._replace, wanted)
        else:
            self._add_replacement(wanted)

    def _is_under_way(self, slot: Slot) -> bool:
        """Return True if a session waits for a reply, False if only for its turn.

        In lockstep its turn comes once the witness has its ack, under a rate in time,
        and soon if the sessions are held.  If no ack is young, the load idles, and
        nothing is at risk any more.
        """
        turns = self._log.lockstep or self._sessions.rate or self._held
        in_turn = slot.acked and turns
        if slot.waiting or not in_turn:
            return slot.waiting
        return now_us() - self._last_ack_us < _YOUNG_US

    def _replace(self, wanted: _Replacement) -> None:
        """Open a session in place of a lost one, in a thread beside the loop."""
        session, may_stay = None, False
        try:
            session = self._sessions.open_session()
            # Asked only now: a connection made before a restart cannot write after it.
            may_stay = self._sessions.is_same_server()
        except DbcheckError as error:
            log.debug("session %d is not replaced: %s", wanted.gone.session, error)
        except Exception as error:  # a defect of ours must not hang the load
            self._result.failure = error
            self._stopping = True
        if session is not None and not may_stay:
            session.close()
            session = None
        with self._closing:
            if not self._closed:
                self._replacements.put(replace(wanted, session=session))
                self._alarm.set()
            elif session is not None:  # an interrupt ended the wait for this thread
                session.close()

    def _add_replacement(self, replacement: _Replacement) -> None:
        self._replacing -= 1
        if replacement.session is not None:
            self._unanswered -= replacement.unanswered
            gone_us = replacement.gone.clock_us
            replaced = Replaced(1, gone_us, gone_us)
            self._result.replaced = self._result.replaced.joined(replaced)
            self._ready.append(self._add(replacement.session, replacement.number))
            return
        self._result.breaks.append(replacement.gone)

    # --------------------------------------------------------------------- housekeeping

    def _add(self, session: Session, number: int) -> Slot:
        slot = Slot(session, number, session.fileno())
        try:
            self._poller.register(slot.fd, READ)
        except BaseException:
            session.close()
            raise
        self._slots[slot.fd] = slot
        return slot

    def _drop(self, slot: Slot) -> None:
        """Close a session and keep its results."""
        self._poller.unregister(slot.fd)
        del self._slots[slot.fd]
        if slot is self._housekeeping:
            self._housekeeping = None
        if slot in self._ready:
            self._ready.remove(slot)
        self._waiting -= slot.waiting
        if slot.seq:
            self._result.sent[slot.number] = slot.seq
        if slot.acked:
            self._result.acked[slot.number] = slot.acked
        slot.session.close()

    def _publish(self, moment_us: int) -> None:
        """Make a new snapshot for other threads."""
        for gap in self._log.new_gaps():
            self._note_gap(gap, moment_us, 0)
        if self._durations_us:
            self._latencies.add(self._durations_us)
            self._durations_us = []
        sent = [slot.sent_us for slot in self._slots.values() if slot.waiting]
        self._snapshot = Snapshot(
            clock_us=moment_us,
            running=len(self._slots) + self._replacing,
            waiting=len(sent),
            newest_sent_us=max(sent, default=0),
            acked=self._acks,
            unconfirmed=self._log.unconfirmed(),
            behind_s=self._log.behind_s(),
            last_ack_us=self._last_ack_us,
            latencies=self._latencies.counts(),
            failed=bool(self._result.failure or self._result.witness_error),
            task=self.task(),
            warned=self._result.warned,
        )

    def _close(self) -> None:
        """Close what is open; the loop's thread has ended, or never began."""
        self._connecting.shutdown(cancel_futures=True)
        for slot in list(self._slots.values()):
            self._drop(slot)
        with self._closing:
            while not self._replacements.empty():
                if (session := self._replacements.get().session) is not None:
                    session.close()
            # Noted first: after an interrupt, its number may be that of another file.
            self._closed = True
            self._poller.close()
            self._alarm.close()
