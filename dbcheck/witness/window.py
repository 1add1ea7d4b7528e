"""A bounded queue of the acks that were received and are not yet confirmed."""

from __future__ import annotations

import copy
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, UsageError, WitnessError
from dbcheck.base.setting import Setting
from dbcheck.model.witness import WindowFacts
from dbcheck.rows.acks import Ack, AckValues

Batch = list[AckValues] | bytes  # acks, or the JSON of one event


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """The limits of the witness's lag behind the sessions.

    age_s:     sessions wait when the oldest unconfirmed ack is older than this.
    silence_s: the witness is taken for dead when that ack is older than this.
    """

    acks: Annotated[
        int,
        Meta(ge=1),
        Setting(
            "--window",
            help="Most acks of a process that may wait for the witness; at this number "
            "its sessions wait.",
        ),
    ] = limits.WINDOW_ACKS
    age_s: float = limits.BEHIND_S
    silence_s: float = limits.WITNESS_SILENCE_S
    lockstep: Annotated[
        bool,
        Setting(
            "--lockstep", help="Each session waits until the witness has its last ack."
        ),
    ] = False

    def __post_init__(self) -> None:
        """Refuse limits under which nothing could be logged."""
        if self.acks < 1 or not 0 < self.age_s <= self.silence_s:
            raise UsageError(
                f"a window of {self.acks} acks, {self.age_s:g} s, silence "
                f"{self.silence_s:g} s is invalid",
                id=ErrorId.ACK_WINDOW_INVALID,
                hint="Allow at least one ack, and no more age than silence.",
            )


class Wakeup:
    """A descriptor that becomes readable once, for an event loop that waits on it."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._armed = self._is_set = False

    def fileno(self) -> int:
        """Return the descriptor, to be polled for reading; -1 once it is closed."""
        return self._reader

    def arm(self) -> None:
        """Let the next set() make the descriptor readable."""
        self._armed = True

    def clear(self) -> None:
        """Make the descriptor unreadable.

        Look for changes only afterwards: a change after clear() sets it again.
        """
        if self._is_set:
            os.read(self._reader, 1)
        self._is_set = False

    def set(self) -> None:
        """Make the descriptor readable if it is armed, and disarm it."""
        if not self._armed or self._reader < 0:
            return
        if not self._is_set:
            os.write(self._writer, b"!")
        self._armed, self._is_set = False, True

    def close(self) -> None:
        """Close the descriptor; idempotent."""
        if self._reader >= 0:
            os.close(self._reader)
            os.close(self._writer)
        self._reader, self._is_set = -1, False


class Window:
    """A queue from many sessions to one writer; thread-safe.

    Entries (acks and events) leave the queue by take() in the order in which they came,
    and count as unconfirmed until confirm().  After fail() every call raises that waits
    or adds something.  Close the window when it is not used any more.
    """

    def __init__(
        self, limits: WindowLimits, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._now = now
        lock = threading.Lock()
        self._lock = lock
        # For sessions: acks were confirmed, or the window failed.
        self._changed = threading.Condition(lock)
        # For the writer: there is something to take, or nothing will come any more.
        self._entry_queued = threading.Condition(lock)
        self._waiting = 0  # sessions that wait on _changed
        # For an event loop, as _changed is for sessions; used under the same lock.
        self.ready = Wakeup()
        self._batches: list[Batch] = []
        self._acks: list[AckValues] = []  # the batch that still grows
        self._acks_put = self._events_put = 0
        self._acks_confirmed = self._events_confirmed = 0
        # Batches taken: number of entries put until then, time of the first entry.
        self._taken: deque[tuple[int, float]] = deque()
        self._first_s: float | None = None  # when the first entry not yet taken came
        self._acks_largest = 0
        self._age_largest_s = 0.0
        self._closed = False
        self._failure: DbcheckError | None = None

    def put(self, ack: Ack) -> None:
        """Add *ack*; block while the window is full, in lockstep until confirmed."""
        with self._lock:
            if not self._room():
                self._wait_until(lambda: self._room() > 0)
            self._add_acks((ack,))
            if self._limits.lockstep:
                number = self._acks_put
                self._wait_until(lambda: self._acks_confirmed >= number)

    def put_many(self, acks: Sequence[AckValues]) -> None:
        """Add *acks*, even if there is no room for them; never blocks."""
        with self._lock:
            self._add_acks(acks)

    def room(self, wanted: int = 1) -> int:
        """Return the number of acks that fit now; raise if the window failed.

        If fewer than *wanted* fit, ready becomes readable once more may fit.
        """
        with self._lock:
            self._fail_if_silent()
            self._raise_failure()
            self.ready.clear()
            room = self._room()
            if room < wanted:
                self.ready.arm()
            return room

    def confirmed(self) -> int:
        """Return the number of confirmed acks; *ready* shows when it grows."""
        with self._lock:
            if self._acks_confirmed < self._acks_put:
                self.ready.arm()
            if self._failure is not None:
                self.ready.set()  # nothing else will set it
            return self._acks_confirmed

    def put_event(self, body: bytes) -> None:
        """Add an event, behind all acks put so far; return once it is confirmed."""
        with self._lock:
            self._require_open()
            if self._acks:
                self._batches.append(self._acks)
                self._acks = []
            self._batches.append(body)
            self._events_put += 1
            number = self._events_put
            self._note_time_of_first()
            self._wait_until(lambda: self._events_confirmed >= number)

    def take(self) -> list[Batch]:
        """Return all queued batches; wait for one; [] if none will come."""
        with self._lock:
            while not (self._acks or self._batches):
                if self._failure or self._closed:
                    return []
                self._entry_queued.wait()
            batches = self._batches
            if self._acks:
                batches.append(self._acks)
            self._batches, self._acks = [], []
            if self._first_s is not None:
                entries = self._acks_put + self._events_put
                self._taken.append((entries, self._first_s))
            self._first_s = None
            return batches

    def confirm(self, acks: int, events: int) -> None:
        """Note how many acks and events are durable in all; wake the waiting sessions.

        Raise WitnessError if fewer were put, or if more were confirmed before.
        """
        with self._lock:
            if not (
                self._acks_confirmed <= acks <= self._acks_put
                and self._events_confirmed <= events <= self._events_put
            ):
                raise WitnessError(
                    f"the witness confirms {acks} acks and {events} events, "
                    f"{self._acks_put} and {self._events_put} were sent",
                    id=ErrorId.WITNESS_NOT_PLAUSIBLE,
                    hint="Check which host answers there, or use another witness.",
                )
            self._age_largest_s = max(self._age_largest_s, self._age_s())
            self._acks_confirmed = acks
            self._events_confirmed = events
            while self._taken and self._taken[0][0] <= acks + events:
                self._taken.popleft()
            self.ready.set()
            if self._waiting:
                self._changed.notify_all()

    def fail(self, failure: DbcheckError) -> None:
        """Let every call raise *failure* from now on; the first failure stays."""
        with self._lock:
            self._set_failure(failure)

    def is_drained(self) -> bool:
        """Return True if nothing is queued that take() would return."""
        return not (self._acks or self._batches)

    def accept_no_more(self) -> None:
        """Let take() return what is queued, and nothing after it."""
        with self._lock:
            self._closed = True
            self._entry_queued.notify()

    def finish(self) -> None:
        """Accept no more, and wait until everything is confirmed."""
        self.accept_no_more()
        with self._lock:
            self._wait_until(lambda: self._entries_unconfirmed() == 0)

    def is_finished(self) -> bool:
        """Return True if nothing is unconfirmed and nothing more is accepted."""
        with self._lock:
            return self._closed and self._entries_unconfirmed() == 0

    def unconfirmed(self) -> int:
        """Return the number of unconfirmed acks."""
        with self._lock:
            return self._acks_put - self._acks_confirmed

    def facts(self) -> WindowFacts:
        """Return the largest number and age of unconfirmed acks so far."""
        with self._lock:
            age_s = max(self._age_largest_s, self._age_s())
            return WindowFacts(self._acks_largest, age_s)

    def age_s(self) -> float:
        """Return the age of the oldest unconfirmed entry, an upper estimate."""
        with self._lock:
            return self._age_s()

    def fail_if_silent(self) -> None:
        """Fail if nothing was confirmed for so long that the witness must be dead."""
        with self._lock:
            self._fail_if_silent()

    def close(self) -> None:
        """Close the descriptors of ready."""
        with self._lock:
            self.ready.close()

    # All below: the lock is held.

    def _add_acks(self, acks: Sequence[AckValues]) -> None:
        self._require_open()
        if not acks:
            return
        self._acks += acks
        self._acks_put += len(acks)
        self._note_time_of_first()
        unconfirmed = self._acks_put - self._acks_confirmed
        if unconfirmed > self._acks_largest:
            self._acks_largest = unconfirmed

    def _entries_unconfirmed(self) -> int:
        put = self._acks_put + self._events_put
        return put - self._acks_confirmed - self._events_confirmed

    def _note_time_of_first(self) -> None:
        if self._first_s is None:
            self._first_s = self._now()
            self._entry_queued.notify()

    def _age_s(self) -> float:
        """Return the age of the oldest unconfirmed entry, an upper estimate."""
        first_s = self._taken[0][1] if self._taken else self._first_s
        return 0.0 if first_s is None else self._now() - first_s

    def _room(self) -> int:
        if self._age_s() >= self._limits.age_s:
            return 0
        return max(0, self._limits.acks - self._acks_put + self._acks_confirmed)

    def _fail_if_silent(self) -> None:
        if self._age_s() >= self._limits.silence_s:
            self._set_failure(_silent_witness_error(self._limits.silence_s))

    def _wait_until(self, is_done: Callable[[], bool]) -> None:
        """Wait until *is_done*; raise if the window fails, or the witness is silent."""
        self._waiting += 1
        try:
            while not is_done():
                self._raise_failure()
                self._fail_if_silent()
                if self._failure is None:
                    self._changed.wait(self._limits.silence_s - self._age_s())
        finally:
            self._waiting -= 1

    def _require_open(self) -> None:
        self._raise_failure()
        if self._closed:
            raise WitnessError(
                "the witness log is closed", id=ErrorId.WITNESS_LOG_CLOSED
            )

    def _raise_failure(self) -> None:
        if self._failure is not None:
            # A copy for each call: several threads must not share a traceback.
            raise copy.copy(self._failure)

    def _set_failure(self, failure: DbcheckError) -> None:
        self._failure = self._failure or failure
        self.ready.set()
        self._changed.notify_all()
        self._entry_queued.notify_all()


def _silent_witness_error(silence_s: float) -> WitnessError:
    return WitnessError(
        f"the witness has confirmed nothing for {silence_s:g} s",
        id=ErrorId.WITNESS_NOT_CONFIRMING,
        hint="Check its disk and the network to it. What it has confirmed is kept, and "
        "the run can be reconciled.",
    )
