"""The event loop with its inner round in C, where that could be built; see _rounds.c.

It does what Loop does, which is its oracle: the same tests run on both.  An operation
is sent and taken for acked in C, for many sessions in one call, as long as all is as it
should be.  What is not goes to the session in Python, and so does each operation that
reads settings.
"""

from __future__ import annotations

import logging
import select
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dbcheck.load.loop import Loop, Slot
from dbcheck.load.pace import Lease
from dbcheck.load.poller import READ, WRITE
from dbcheck.load.sessions import Sessions
from dbcheck.model.unobserved import Gap
from dbcheck.ports.connection import Session, Taken, WiredSession
from dbcheck.ports.witness import LoadLog
from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.batches import Batches
from dbcheck.rows.plans.plan import InsertPlan

if TYPE_CHECKING:
    from dbcheck.load._rounds import Rounds

log = logging.getLogger(__name__)
_PREPARED_BYTES = 16 << 20  # payloads that are made beforehand, of all sessions
_ROWS_MAX = 512  # that are made at once for one session: half a millisecond
_ROWS_MIN = 16  # fewer at once cost as much as the loop in C saves


def load_rounds() -> type[Rounds] | None:
    """Return the part in C; None if it was not built, or not for this system.

    None, too, if its source lies beside it and is another one: in a checkout the source
    may be newer, and with it the rules of an ack.
    """
    try:
        from dbcheck.load._rounds import Rounds
    except ImportError:
        return None
    source = Path(__file__).with_name("_rounds.c")
    built_from = getattr(Rounds, "SOURCE", None)  # None: built before it had one
    if source.exists() and zlib.crc32(source.read_bytes()) >> 1 != built_from:
        log.warning("%s differs from what was built: run make extension", source)
        return None
    return Rounds


def make_loop(
    sessions: Sessions, witness_log: LoadLog, lease: Lease | None = None
) -> Loop:
    """Return the quickest loop that can run *sessions*; see Loop."""
    plan, rounds = sessions.plan, load_rounds()
    batches = plan.batches() if type(plan) is InsertPlan else None
    # In lockstep each session waits for the witness, and not for the client.
    if not (rounds and batches and hasattr(select, "epoll")) or witness_log.lockstep:
        return Loop(sessions, witness_log, lease)
    if count_rows_at_once(sessions.count, batches.bytes_per_row) < _ROWS_MIN:
        return Loop(sessions, witness_log, lease)
    return CompiledLoop(sessions, witness_log, lease, rounds=rounds, batches=batches)


def count_rows_at_once(sessions: int, bytes_per_row: float) -> int:
    """Return for how many operations each session gets its rows made beforehand."""
    room = _PREPARED_BYTES / max(1, sessions) / bytes_per_row
    return min(_ROWS_MAX, int(room))


class CompiledLoop(Loop):
    """See load.group.SessionGroup.

    A session is lent to the part in C once its first operation is acked, and taken back
    whenever the session in Python is to do something.  The part in C counts the
    operations of a lent session; they are copied to its slot before that is read.
    """

    def __init__(
        self,
        sessions: Sessions,
        witness_log: LoadLog,
        lease: Lease | None,
        *,
        rounds: type[Rounds],
        batches: Batches,
    ) -> None:
        super().__init__(sessions, witness_log, lease)
        self._make_rounds, self._batches = rounds, batches
        self._rounds: Rounds | None = None  # until the first session is wired
        self._wired: dict[int, WiredSession] = {}  # by descriptor
        self._lent: set[int] = set()
        self._acked: list[int] = []  # descriptors whose acks are not handed over
        self._rows_at_once = count_rows_at_once(sessions.count, batches.bytes_per_row)

    # ----------------------------------------------------------------- lending sessions

    def _add(self, session: Session, number: int) -> Slot:
        slot = super()._add(session, number)
        if number == HOUSEKEEPING_SESSION or not isinstance(session, WiredSession):
            return slot
        wire = session.wire(partial(self._note_notice, slot.fd))
        if wire is None or not isinstance(self._poller, select.epoll):
            return slot
        if self._rounds is None:
            epoll_fd = self._poller.fileno()
            self._rounds = self._make_rounds(
                epoll_fd, wire.calls, wire.statement, wire.tag, wire.parameters
            )
        self._rounds.add(slot.fd, wire.connection, number)
        self._wired[slot.fd] = session
        return slot

    def _note_notice(self, fd: int) -> None:
        """Have the session judge its operation: the server may have warned."""
        if self._rounds is not None:
            self._rounds.notice(fd)

    def _lend(self, slot: Slot) -> None:
        """Lend a session whose last operation is acked."""
        if self._rounds is not None and slot.fd in self._wired:
            self._rounds.proceed(slot.fd, slot.seq, slot.look_us)
            self._lent.add(slot.fd)

    def _take_back(self, fd: int, taken: Sequence[Taken] = ()) -> None:
        """Let the session go on in Python, with what was *taken* of its answer."""
        if self._rounds is None or fd not in self._lent:
            return
        self._lent.discard(fd)
        slot = self._slots[fd]
        slot.seq, slot.acked, slot.sent_us, slot.waiting = self._rounds.withdraw(fd)
        slot.looks = False
        if slot.waiting:
            self._wired[fd].resume(taken)

    def _read_progress(self) -> None:
        """Tell the slots how far the lent sessions have come."""
        if self._rounds is None:
            return
        for fd in self._lent:
            slot = self._slots[fd]
            slot.seq, slot.acked, slot.sent_us, slot.waiting = self._rounds.progress(fd)

    def _drop(self, slot: Slot) -> None:
        self._take_back(slot.fd)
        if self._wired.pop(slot.fd, None) is not None and self._rounds is not None:
            self._rounds.remove(slot.fd)
        super()._drop(slot)

    def _note_gap(self, gap: Gap | None, moment_us: int, replies: int) -> None:
        if gap is not None:
            self._read_progress()
        super()._note_gap(gap, moment_us, replies)

    def _publish(self, moment_us: int) -> None:
        self._read_progress()
        super()._publish(moment_us)

    # ----------------------------------------------------------------------- the rounds

    def _take_replies(self) -> tuple[list[tuple[Slot, int]], int]:
        if self._rounds is None:
            return super()._take_replies()
        self._acked, others = self._rounds.receive(self._compute_idle_s())
        if not others:
            return [], len(self._acked)
        for fd, _, taken in others:
            self._take_back(fd, taken or ())
        answered = self._take([(fd, mask) for fd, mask, _ in others])
        return answered, len(self._acked) + len(others)

    def _hand_over_acks(self, answered: list[tuple[Slot, int]], acked_us: int) -> None:
        if self._acked and self._rounds is not None:
            acks, durations_us, sent_us = self._rounds.acknowledge(acked_us)
            if self._gap_notes.is_open:
                self._gap_notes.answered(sent_us, acked_us)
            self._durations_us += durations_us
            self._ready.extend([self._slots[fd] for fd in self._acked])
            self._acked = []
            self._log_acks(acks, sent_us, acked_us)
        if answered:
            super()._hand_over_acks(answered, acked_us)
            for slot, _ in answered:
                self._lend(slot)

    def _send(self, granted: int, moment_us: int) -> None:
        rounds, ready, lent = self._rounds, self._ready, self._lent
        if rounds is None:
            super()._send(granted, moment_us)
            return
        fds = [ready.popleft().fd for _ in range(granted)]
        unsent: list[int] = []
        if not lent.issuperset(fds):
            unsent = [fd for fd in fds if fd not in lent]
            fds = [fd for fd in fds if fd in lent]
        if rest := rounds.send(fds, moment_us):
            unsent += self._send_rest(rounds, rest, moment_us)
        if unsent:
            ready.extendleft(self._slots[fd] for fd in reversed(unsent))
            super()._send(len(unsent), moment_us)

    def _send_rest(
        self, rounds: Rounds, rest: list[tuple[int, int]], moment_us: int
    ) -> list[int]:
        """Go on with what was not sent; return what the sessions are to send."""
        if lacking := [fd for fd, how in rest if how == rounds.NO_ROW]:
            for fd in lacking:
                self._prepare_rows(rounds, fd)
            rest = [(fd, how) for fd, how in rest if how != rounds.NO_ROW]
            rest += rounds.send(lacking, moment_us)
        unsent: list[int] = []
        for fd, how in rest:
            self._take_back(fd)
            if how == rounds.PART_SENT:
                self._poller.modify(fd, READ | WRITE)
            elif how == rounds.REFUSED:
                self._end_session(self._slots[fd], self._wired[fd].refused())
            else:
                unsent.append(fd)
        return unsent

    def _prepare_rows(self, rounds: Rounds, fd: int) -> None:
        """Make the values of the session's next operations."""
        first = rounds.progress(fd)[0] + 1
        number = self._slots[fd].number
        batch = self._batches.make(number, first, self._rows_at_once)
        rounds.prepare(fd, first, *self._wired[fd].pack(batch))
