"""What a cycle needs from the world, as Protocols; each docstring is the contract.

A campaign speaks to these only.  One adapter per file implements them under
engines/, witness/, power/ and lab/; cli/rig.py alone knows which is which.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dbcheck.core.bystanders import Bystanders
from dbcheck.core.cut import Cut as Cut
from dbcheck.core.cut import PowerState as PowerState
from dbcheck.core.cutclass import CutClass
from dbcheck.core.datadir import DataNames
from dbcheck.core.depth import Completed, Remains
from dbcheck.core.held import HeldCanary as HeldCanary
from dbcheck.core.history import Ack, AckValues, Row
from dbcheck.core.places import Place
from dbcheck.core.server import LogPosition as LogPosition
from dbcheck.core.server import ServerFacts as ServerFacts
from dbcheck.core.target import LogMarks, LogTail, TargetFacts

if TYPE_CHECKING:  # numpy takes every small program of the lab a tenth of a second
    from dbcheck.core.acks import AckArray
    from dbcheck.core.survivors import RowBatch

Json = Mapping[str, Any]


class Shape(enum.Enum):
    """The table a workload writes to."""

    LEDGER = "ledger"  # key, payload and checksum in every row
    CLASSIC = "classic"  # an auto-increment id and nothing else


# --------------------------------------------------------------------- target


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The table before a cycle writes to it.

    rows_by_epoch: epoch -> rows that earlier cycles left; {0: n} if classic.
    row_id_max:    highest id present, 0 if the table is empty.
    weights_by_epoch: epoch -> sum of id times checksum, modulo 2^64; {} if classic.
    different:     ids of rows that the campaign's cycle before this one found changed.
    sound:         epochs of which that cycle read every row, as they are counted here:
                   all but those in *different* were then as they had been written.
    identity:      see Engine.table_identity(), read before the rows were counted.
    """

    rows_by_epoch: Mapping[int, int]
    row_id_max: int
    weights_by_epoch: Mapping[int, int] = field(default_factory=dict)
    different: tuple[int, ...] = ()
    identity: str = ""
    sound: tuple[int, ...] = ()


class Session(Protocol):
    """One client connection of the load, with one operation in flight at most.

    No call blocks.  Every call but close() may raise CommitUnknown if the connection
    broke (the row of an operation in flight is then legally present or absent), and
    EngineError if the server refused and the row is certainly absent.
    """

    def fileno(self) -> int:
        """Return the descriptor that an event loop waits on; the same until close()."""

    def send(self, row: Row) -> bool:
        """Begin to insert *row* in a transaction of its own.

        Return whether all of it was sent; if not, call flush() whenever the
        descriptor is writable, until that returns True.
        """

    def flush(self) -> bool:
        """Send what is left; return whether nothing is."""

    def receive(self) -> int | None:
        """Read what has come, to be called whenever the descriptor is readable.

        Return the auto-increment id once the operation in flight is answered, and
        only if the server said that its one row went in, that the transaction is
        committed and that none is open any more; None as long as more must come.
        """

    def close(self) -> None:
        """End the connection, also in the middle of an operation; never raises."""


class Engine(Protocol):
    """One database server.  Every call opens what it needs and leaves nothing open.

    server: the facts of a server, None for any.  Raise OtherServer if the connection
            that does the work reaches another one, or another process of it.
    """

    family: str  # folder under sql/: "postgresql" or "mysql"
    target: str  # the URL without any password
    checkpoints: bool  # a checkpoint can be asked for

    def facts(self) -> ServerFacts:
        """Read the server's facts; raise EngineError if it cannot be reached."""

    def check(self, shape: Shape, *, relaxed: bool = False) -> None:
        """Raise EngineError (with the mend as hint) if this server cannot be tested.

        relaxed: also refuse what relax() would be refused for.
        Nothing is created.  Refuses an unsupported version, a replica, a server
        in recovery or read-only, a missing privilege, a table that is unlogged,
        temporary, not transactional, not dbcheck's, or changed since (a trigger ...).
        """

    def places(self, shape: Shape) -> tuple[Place, ...]:
        """Return the directories that an ack depends on, as far as SQL shows them.

        The data directory comes first; the table need not exist yet.
        """

    def mark_data(self) -> str:
        """Leave a word in the data directory; return it, "" if its files name it."""

    def bystanders(self) -> Bystanders:
        """Return who else uses this server, as far as this account may see."""

    def prepare(self, shape: Shape, *, server: ServerFacts | None = None) -> TableFacts:
        """Create the table if it is not there, and say what it holds."""

    def table_identity(self, shape: Shape, *, server: ServerFacts | None = None) -> str:
        """Return what names the table itself, "" if the server does not tell.

        Restarts, crashes, inserts and deletes keep it.  After TRUNCATE, a rewrite, or
        DROP and CREATE it is another one.  Raise ConnectionLost.
        """

    def names_in_log(self, shape: Shape) -> tuple[str, ...]:
        """Return how the server's log names the table and its files, as far as known.

        A line that has one of them, not followed by more of a name, is about the table.
        """

    def relax(self, *, process: bool) -> str:
        """Prepare the server for relaxed sessions; return in words what relaxes them.

        process: the cut takes the server's process and no more.
        What this changes beyond sessions ends with the server's process, and is
        remembered there before it is changed, for tighten().
        """

    def tighten(self) -> str | None:
        """Undo relax(), also that of a client that died.

        Return in words what was put back, None if there was nothing.
        """

    def open_session(
        self, shape: Shape, *, relaxed: bool = False, server: ServerFacts | None = None
    ) -> Session:
        """Connect for the load; raise EngineError if that is refused.

        relaxed: commits are acked before they are durable, as only a control wants.
        """

    def row(self, shape: Shape, row_id: int) -> Row | None:
        """Return the row with that id over a new connection; classic: only its id."""

    def checkpoint(self) -> str | None:
        """Ask for a checkpoint; return None, or why there was none."""

    def plant_canary(
        self, epoch: int, *, server: ServerFacts | None = None
    ) -> HeldCanary | None:
        """Leave a row that recovery from a crash removes and a shutdown keeps.

        Return what has to be held until the server is back; raise NoCanary.
        """

    def canary(self, epoch: int, *, server: ServerFacts | None = None) -> bool | None:
        """Return whether the canary that was planted is there, None if unknown."""

    def logged(self, since_us: int, *, server: ServerFacts | None = None) -> str | None:
        """Return what the server logged of crashes and shutdowns since then.

        Read over SQL, in lines; None if this server has no such table or the account
        may not read it.  since_us: as ServerFacts.clock_us.
        """

    def ready(self) -> str | None:
        """Try to connect, at most 5 s: None if the server takes queries and is out
        of recovery, else the reason in words.  Never raises."""

    def survivors(
        self, shape: Shape, *, server: ServerFacts | None = None
    ) -> Iterator[RowBatch]:
        """Stream every row of the table in one read-only transaction, in batches.

        Reads the table itself, not an index; *server* is looked at in that very
        transaction.  Raise TableLost if the server says
        that the table is gone or damaged, TableRefused if it does not open a table
        that may be sound, ConnectionLost if the connection broke.
        """

    def drop(self) -> list[str]:
        """Drop what dbcheck created here; return the names."""


class Canaries(Protocol):
    """Writes on the target's host that nobody flushes; see core.depth."""

    @property
    def folder(self) -> str:
        """Where they write."""

    @property
    def nonce(self) -> str:
        """What names this run of them."""

    def completed(self) -> Completed:
        """Return how far they came, as far as is known here."""

    def heard_us(self) -> int | None:
        """Return when their last report came, on the client's clock, or None."""

    def answered(self) -> bool:
        """Whether the host answered stop(), and so had its power until then."""

    def stop(self) -> None:
        """End them; never raises."""


class TargetHost(Protocol):
    """The host that the server runs on; every call may raise HostError."""

    def reach(self) -> None:
        """Connect, unless that was done; every other call does so by itself."""

    def facts(self, data_directory: str, places: Sequence[Place] = ()) -> TargetFacts:
        """Describe the host, and what the data directory and *places* lie on."""

    def data_names(self, data_directory: str) -> DataNames:
        """Return what the files in it say of whose data it holds."""

    def mark_log(self, path: str) -> LogMarks:
        """Return where the log, or each log of a folder, ends now."""

    def read_log(self, path: str, marks: LogMarks) -> LogTail:
        """Return what was logged since the marks."""

    def shutdown_record(self, boot_id: str, since_us: int) -> str:
        """Return what it recorded of an orderly shutdown of that boot, or ""."""

    def start_canaries(self, data_directory: str) -> Canaries:
        """Start canaries on the filesystem of the data directory."""

    def read_canaries(self, folder: str, nonce: str) -> Remains:
        """Return what is left of them."""

    def remove_canaries(self, folder: str) -> None:
        """Delete their folder."""

    def close(self) -> None:
        """End the connection; the next call makes a new one; never raises."""


# -------------------------------------------------------------------- witness


@dataclass(frozen=True, slots=True)
class Watermark:
    """How much of a log the witness holds durably.

    frames, acks: how many, from the start of the log.
    digest:       the hash chain after that many frames, in hex.
    """

    frames: int
    acks: int
    digest: str


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """The largest gap between the acks received and those confirmed.

    acks: how many were unconfirmed at once.  age_s: the oldest one's age.
    """

    acks: int
    age_s: float


class WitnessLog(Protocol):
    """An open log of one run; thread-safe."""

    def append(self, ack: Ack) -> None:
        """Hand over *ack*; block while the window of unconfirmed acks is full.

        In lockstep, block until it is confirmed.  Raise WitnessError if the log can
        take no more.
        """

    @property
    def lockstep(self) -> bool:
        """Whether a session may send only after its last ack is confirmed."""

    def append_many(self, acks: Sequence[AckValues]) -> None:
        """Hand over *acks*, in the order in which they came; never block.

        Raise WitnessError if the log can take no more.  What was received cannot be
        held back, so the window takes all of them; it is kept by sending no more
        operations than there is room() for their acks.
        """

    def room(self, wanted: int = 1) -> int:
        """Return how many acks there is room for now, 0 also if the oldest is too old.

        wanted: if they are fewer, there is to be news once they may be more.
        Raise WitnessError if the log can take no more.  Only one thread may call
        room() and confirmed(), that which watches fileno().
        """

    def confirmed(self) -> int:
        """Return how many acks, from the first one on, the witness holds durably."""

    def fileno(self) -> int:
        """Return a descriptor for an event loop, -1 once the log is closed.

        It becomes readable at the first confirmation, or failure, after a room()
        that was too little or a confirmed() that was not all.  room() alone makes it
        unreadable, so that what a confirmed() after it has seen hides no news from it.
        """

    def note(self, event: Json) -> None:
        """Log *event* beside the acks and return once it is durable."""

    def watermark(self) -> Watermark:
        """Return what the witness has confirmed so far."""

    def unconfirmed(self) -> int:
        """Return how many acks are waiting for their confirmation now."""

    def behind_s(self) -> float:
        """Return how long the oldest unconfirmed ack has waited; 0 if there is none."""

    def window(self) -> WindowFacts:
        """Return the largest window seen so far."""

    def abandon(self) -> None:
        """Take no more and wait for no confirmation any more; never raises.

        To be closed all the same; close() raises at once if anything is unconfirmed.
        """

    def close(self) -> Watermark:
        """Wait until everything appended is confirmed, and close the log.

        Raise WitnessError, with all threads and channels ended, if that fails.
        """


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What tells one host from another, and how its disk behaves.

    An item that cannot be read there is "" (or empty).
    """

    hostname: str
    machine_id: str
    boot_id: str
    addresses: frozenset[str]
    folder: str
    filesystem: str
    free_bytes: int
    clock_us: int


class Witness(Protocol):
    """A folder, on a host that does not share the target's fate, that holds logs.

    A run has log 0 and, if its load runs in several processes, one more for each.
    A witness can be pickled for such a process; the copy is connected to nothing.
    """

    kind: str  # "ssh" or "file"
    url: str  # as given by the user; holds no secret

    def facts(self) -> HostFacts:
        """Describe the host and make sure that the folder can be written."""

    def probe(self, count: int) -> Sequence[float]:
        """Append and fsync *count* times there; return each duration in seconds."""

    def create(self, run_id: str, manifest: bytes) -> WitnessLog:
        """Store the manifest durably and open log 0; raise if the run exists.

        The manifest, which is JSON, says how many logs there will be: {"logs": 1}.
        """

    def join(self, run_id: str, number: int) -> WitnessLog:
        """Open log *number*, 1 or more, of a run that exists, from any process.

        Raise WitnessError if the run's manifest announces no such log, or if it was
        opened before.
        """

    def runs(self) -> Sequence[str]:
        """Return the ids of the runs all of whose logs are there, oldest first.

        Every log is opened before the first session of a load commits.
        """

    def manifest(self, run_id: str) -> bytes:
        """Return the stored manifest; raise WitnessError if there is none."""

    def read(self, run_id: str, number: int = 0) -> Iterator[bytes]:
        """Stream the raw bytes of a log; raise WitnessError if it is not there."""

    def remove(self, run_id: str) -> None:
        """Delete the folder of a run; raise WitnessError if a log of it is open."""

    def close(self) -> None:
        """End the connection; never raises."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a stored log holds.

    torn_bytes: length of an incomplete last frame, 0 if there is none.
    newest_us:  when the newest ack of the load came, on the client's clock; None if
                there is none.
    events:     what WitnessLog.note() logged, in order.
    """

    frames: int
    acks: int
    torn_bytes: int
    newest_us: int | None
    events: Sequence[Json]


class LogReader(Protocol):
    """Reads a copy of a log; each call verifies what it reads.

    Raise LogDamaged if it is not log *number* of the run, is damaged before its
    tail, or holds less than *confirmed*, which the client saw confirmed.
    """

    def facts(
        self, path: Path, run_id: str, number: int, confirmed: Watermark | None
    ) -> LogFacts:
        """Read the whole log and say what it holds."""

    def acks(
        self, path: Path, run_id: str, number: int, confirmed: Watermark | None
    ) -> Iterator[AckArray]:
        """Stream the acks, in the order in which the client sent them."""

    def bytes_max(self, acks: int) -> int:
        """Return how long a log that holds so many acks, or fewer, can be."""


# ---------------------------------------------------------------------- power


class PowerSwitch(Protocol):
    """Cuts and restores the power of one target.  Calls block."""

    kind: str
    attended: bool  # a human pulls the plug: wait as long as it takes
    cut_class: CutClass  # what its cuts take the power from, if known or declared

    def state(self) -> PowerState:
        """Read the state from the device, never from memory."""

    def cut(self) -> Cut:
        """Drop power with no warning to the operating system.

        Return once state() is OFF or, if attended, once the human was asked;
        raise PowerError if the power did not go.
        """

    def restore(self) -> float | None:
        """Apply power.  Return once state() is ON; the system may still be booting.

        Return for how many seconds it was off before, None if the switch has not
        measured that.
        """

    def failure(self) -> str | None:
        """Say why the target will certainly not come back, or None.

        Raise PowerError if that is the switch's own fault: the target is not to blame.
        """


# ------------------------------------------------------------------- listener


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """The load at one moment, for a live view.

    seconds:    since the load began.
    acked:      acks received; witnessed: of these, confirmed by the witness.
    rate:       acks per second over the last second.
    latency_ms: percentile ("p50", "p99", "max") -> commit latency, milliseconds.
    sessions:   connected now.
    behind_s:   how long the oldest ack has waited for the witness.
    """

    seconds: float
    acked: int
    witnessed: int
    rate: float
    latency_ms: Mapping[str, float]
    sessions: int
    behind_s: float = 0.0


class Listener(Protocol):
    """Is told how a cycle goes on; must return at once and never raise."""

    def phase(self, name: str, detail: str) -> None:
        """Note that a phase began, by its name in report.progress."""

    def load(self, status: LoadStatus) -> None:
        """Note how the load goes, about four times a second."""
