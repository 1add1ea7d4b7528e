"""Protocol of the witness; each docstring is the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dbcheck.model.unobserved import Gap
from dbcheck.model.witness import Json, LogFacts, Watermark, WindowFacts
from dbcheck.rows.acks import Ack, AckValues

if TYPE_CHECKING:  # numpy takes every small program of the lab a tenth of a second
    from dbcheck.rows.acks import AckArray


class LoadLog(Protocol):
    """An open log of one run, as an event loop of the load uses it."""

    @property
    def lockstep(self) -> bool:
        """True if a session may send only after its last ack is confirmed."""

    def append_many(self, acks: Sequence[AckValues]) -> None:
        """Hand over *acks*, in the order in which they came; never block.

        Raise WitnessError if the log can take no more.  What was received cannot be
        held back, so the window takes all of them; it is kept by sending no more
        operations than there is room() for their acks.
        """

    def send_due(self, now_us: int) -> int:
        """Send what is queued if it is time, as *now_us* shows; never block.

        Return when it is to be called again, at the latest.  A log that has threads
        does nothing here.
        """

    def room(self, wanted: int = 1) -> int:
        """Return the number of acks with room now, 0 also if the oldest is too old.

        wanted: if there is room for fewer, fileno() becomes readable once there may be
        room for more.
        Raise WitnessError if the log can take no more.  Only one thread may call
        room(), confirmed() and take_news(), that which watches fileno().
        """

    def confirmed(self) -> int:
        """Return the number of acks, from the first on, that are durable there."""

    def fileno(self) -> int:
        """Return a descriptor for an event loop, -1 once the log is closed.

        It becomes readable at a confirmation, or failure, at least at the first one
        after a room() that was too little or a confirmed() that was not all.
        take_news() makes it unreadable; what a confirmed() after that has seen hides
        no news from it.
        """

    def take_news(self) -> None:
        """Take what fileno() showed; raise WitnessError if the log can take no more."""

    def watermark(self) -> Watermark:
        """Return the part of the log that the witness has confirmed so far."""

    def unconfirmed(self) -> int:
        """Return the number of acks that wait for their confirmation now."""

    def behind_s(self) -> float:
        """Return the oldest unconfirmed ack's age in seconds; 0 if there is none."""

    def window(self) -> WindowFacts:
        """Return the largest window seen so far."""

    def new_gaps(self) -> Sequence[Gap]:
        """Return the times that passed on the witness's clock and not on this one's.

        Its confirmations show them.  Each is returned once, oldest first.
        """

    def close(self) -> Watermark:
        """Wait until everything appended is confirmed, and close the log.

        Raise WitnessError, with all threads and channels ended, if that fails.
        """


class WitnessLog(LoadLog, Protocol):
    """An open log of one run; thread-safe."""

    def append(self, ack: Ack) -> None:
        """Hand over *ack*; block while the window of unconfirmed acks is full.

        In lockstep, block until it is confirmed.  Raise WitnessError if the log can
        take no more.
        """

    def note(self, event: Json) -> None:
        """Log *event* beside the acks and return once it is durable."""

    def abandon(self) -> None:
        """Take no more and wait for no confirmation any more; never raises.

        To be closed all the same; close() raises at once if anything is unconfirmed.
        """


class LogOpener(Protocol):
    """Opens logs of a run; can be pickled for another process."""

    def join(self, run_id: str, number: int) -> LoadLog:
        """Open log *number*, 1 or more, of a run that exists, from any process.

        Raise WitnessError if the run's manifest announces no such log, or if it was
        opened before.
        """


class InheritedLog(LogOpener, Protocol):
    """Opens one log, in a process that inherited *descriptor*."""

    @property
    def descriptor(self) -> int: ...


class SharedLog(Protocol):
    """The log of a process of this client, over a connection that several share."""

    def open(self) -> InheritedLog:
        """Return the opener of the log, for that process; raise WitnessError.

        The first of the logs makes the connection.
        """

    def close(self) -> None:
        """Close this process's copy of the descriptor; idempotent.

        The log ends once no process has a copy.
        """


@dataclass(frozen=True, slots=True)
class WitnessHostFacts:
    """Identity of the witness's host, and the behaviour of its disk.

    An item that cannot be read there is "" (or empty).  booted_us: when its kernel
    started by its own clock, microseconds since the epoch; None if that is not known.
    file_server: the host that the folder's files are on, if that is another one.
    ahead_us: by how much its clock is ahead of this machine's, see model.clocks; 0 if
              it is not known to differ.
    """

    hostname: str
    machine_id: str
    boot_id: str
    addresses: frozenset[str]
    folder: str
    filesystem: str
    free_bytes: int
    clock_us: int
    booted_us: int | None = None
    file_server: str = ""
    ahead_us: int = 0


class WitnessLock(Protocol):
    """The lock of a witness, which is this client's until its connection ends."""

    def require(self) -> None:
        """Raise WitnessError unless this client still has the lock."""

    def release(self) -> None:
        """Let other clients use the witness; never raises."""


class Witness(LogOpener, Protocol):
    """A folder, on a host that does not share the target's fate, that holds logs.

    A run has log 0 and, if its load runs in several processes, one more for each.
    A witness can be pickled for such a process; the copy is connected to nothing.
    """

    kind: str  # "ssh" or "file"
    url: str  # as given by the user; holds no secret

    def facts(self) -> WitnessHostFacts:
        """Describe the host and make sure that the folder can be written."""

    def probe(self, count: int) -> Sequence[float]:
        """Append and fsync *count* times there; return each duration in seconds."""

    def create(self, run_id: str, manifest: bytes) -> WitnessLog:
        """Store the manifest durably and open log 0; raise if the run exists.

        The manifest, which is JSON, says how many logs there will be: {"logs": 1}.
        """

    def join(self, run_id: str, number: int) -> WitnessLog:
        """Open a log as LogOpener does; it is thread-safe."""

    def share(self, run_id: str, numbers: Sequence[int]) -> Sequence[SharedLog]:
        """Return each of these logs, for a process of this client.

        All of them share one connection, which ends when the last of them is closed.
        """

    def runs(self) -> Sequence[str]:
        """Return the ids of the runs all of whose logs are there, oldest first.

        Every log is opened before the first session of a load commits.
        """

    def unjudged(self) -> Sequence[str]:
        """Return the ids of those runs that note_judged() was not called for."""

    def note_judged(self, run_id: str) -> None:
        """Note durably that the rows of a run were read; raise WitnessError."""

    def manifest(self, run_id: str) -> bytes:
        """Return the stored manifest; raise WitnessError if there is none."""

    def read(self, run_id: str, number: int = 0) -> Iterator[bytes]:
        """Stream the raw bytes of a log; raise WitnessError if it is not there."""

    def remove(self, run_id: str) -> None:
        """Delete the folder of a run; raise WitnessError if a log of it is open."""

    def lock(self) -> WitnessLock | None:
        """Keep other clients' campaigns away; return None if one of them does so.

        Each target has a witness's folder of its own, so this locks the target.
        """

    def close(self) -> None:
        """End the connection; never raises."""


class LogReader(Protocol):
    """Reads a copy of a log; each call verifies what it reads.

    Raise LogDamaged if it is not log *number* of the run, is damaged before its
    tail, or holds less than *confirmed*, which the client saw confirmed.
    by_witness: date acks by the witness's clock, see model.witness; else they have
    the clock of the machine that received them.
    """

    def facts(
        self,
        path: Path,
        run_id: str,
        number: int,
        confirmed: Watermark | None,
        *,
        by_witness: bool = False,
        take: Callable[[AckArray], None] | None = None,
    ) -> LogFacts:
        """Read the whole log; return what it holds.

        take: is called with the acks as they are read, as acks() yields them.
        """

    def acks(
        self,
        path: Path,
        run_id: str,
        number: int,
        confirmed: Watermark | None,
        *,
        by_witness: bool = False,
    ) -> Iterator[AckArray]:
        """Stream the acks, in the order in which the client sent them."""

    def bytes_max(self, acks: int) -> int:
        """Return the greatest length in bytes of a log of at most *acks* acks."""
