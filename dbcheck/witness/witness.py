"""Witnesses that an agent serves: on the client's disk, or over SSH elsewhere."""

from __future__ import annotations

import base64
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from dbcheck.agent import wire
from dbcheck.agent import witness as agent
from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, WitnessError
from dbcheck.model.clocks import measure_ahead
from dbcheck.ports.witness import WitnessHostFacts, WitnessLog
from dbcheck.remote.address import AS_SSH, Address, SshOptions
from dbcheck.remote.channel import AgentProtocol, Channel, Pipe, build_program
from dbcheck.remote.way import run_here
from dbcheck.witness.looplog import InheritedLog
from dbcheck.witness.openlog import OpenLog
from dbcheck.witness.relay import SharedConnection, SharedLog
from dbcheck.witness.window import WindowLimits

# Modules that the program of the agent brings along.
PARTS = ("dbcheck.base.owners", "dbcheck.agent.witness_folders")
PROGRAM = build_program("dbcheck.agent.witness", *PARTS)
REFUSALS: Mapping[str, tuple[ErrorId, str]] = {
    "ENOSPC": (
        ErrorId.WITNESS_DISK_FULL,
        "Make room in the witness's folder; what was confirmed is kept.",
    ),
    "EDQUOT": (
        ErrorId.WITNESS_QUOTA_USED,
        "Raise the quota on the witness; what was confirmed is kept.",
    ),
    "EIO": (
        ErrorId.WITNESS_DISK_FAILS,
        "The witness's disk fails, or its filesystem has become read-only; see its "
        "kernel log. Use another witness.",
    ),
    "EROFS": (
        ErrorId.WITNESS_FILESYSTEM_READ_ONLY,
        "Its filesystem is mounted read-only, or became so after an error: see "
        "the witness's kernel log. Name another folder.",
    ),
    "EACCES": (
        ErrorId.WITNESS_FOLDER_NOT_WRITABLE,
        "Name a folder on the witness that its user may write.",
    ),
    "EPERM": (
        ErrorId.WITNESS_FOLDER_NOT_WRITABLE,
        "Name a folder on the witness that its user may write.",
    ),
    "ENOTDIR": (
        ErrorId.WITNESS_FOLDER_IS_FILE,
        "Name a folder, not a file, on the witness.",
    ),
    "volatile": (
        ErrorId.WITNESS_FOLDER_IN_MEMORY,
        "Name a folder on a disk; a folder in memory is lost with the power.",
    ),
    "not-own": (
        ErrorId.WITNESS_FOLDER_OPEN_TO_OTHERS,
        "Name a folder in the home of the user who logs in there, e.g. "
        "ssh://me@witness/~/dbcheck, or fix this one (chown, chmod go-w).",
    ),
    "no-user": (
        ErrorId.WITNESS_URL_INVALID,
        "Name a folder in the home of a user of the witness, as /~/folder.",
    ),
    "exists": (
        ErrorId.WITNESS_LOG_EXISTS,
        "Another client used this folder: repeat the run with a folder of its own.",
    ),
    "no-log": (
        ErrorId.WITNESS_LOG_UNKNOWN,
        "Repeat the run with a folder of its own on the witness.",
    ),
    "in-use": (
        ErrorId.WITNESS_IN_USE,
        "Wait until that run is over, or end its client; if the client is lost, "
        "end its agent on the witness.",
    ),
    "no-run": (
        ErrorId.RUN_NOT_ON_WITNESS,
        "`dbcheck witness show --witness URL` lists the runs that are there.",
    ),
    "strangers": (
        ErrorId.FOLDER_HOLDS_OTHER_FILES,
        "Check that folder by hand; dbcheck deletes only its own files.",
    ),
}
_PROTOCOL = AgentProtocol(
    program=PROGRAM,
    who="witness",
    failure=WitnessError,
    refusals=REFUSALS,
    ended_hint="Check that host; acks that it had confirmed are safe there.",
)
_RELAYED = replace(_PROTOCOL, program=b"")  # the client's relay has sent it


def open_channel(pipe: Pipe, place: str) -> Channel:
    """Send the agent its program; raise WitnessError unless it answers."""
    return Channel(pipe, place, _PROTOCOL)


MANIFEST_BYTES_MAX = wire.MESSAGE_BYTES_MAX // 2  # one message takes it in base64
TEXT_MAX = 4096  # characters of a path (limits.h); a name is far shorter
ADDRESSES_MAX = 10_000
RunIds = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=100)]],
    msgspec.Meta(max_length=100_000),
]

T = TypeVar("T")


class WitnessLock:
    """The lock of a witness's folder; see ports.witness.WitnessLock."""

    def __init__(self, channel: Channel, folder: str) -> None:
        """Lock *folder* over *channel*; release() closes the channel."""
        self._channel, self._folder = channel, folder

    def take(self) -> bool:
        """Lock the folder through the agent; return True if it has the lock."""
        return self._channel.answer(bool, agent.LOCK, folder=self._folder)

    def require(self) -> None:
        if not self.take():
            raise WitnessError(
                f"another client is using {self._folder}",
                id=ErrorId.WITNESS_IN_USE,
                hint="Wait until its campaign has ended, then continue with --resume.",
            )

    def release(self) -> None:
        self._channel.close()


class AgentWitness(ABC):
    """A folder that is served by an agent; see ports.witness.Witness.

    Every request has an agent for itself while it lasts, so requests may come from any
    thread, and a run's log may be read while another run's log is written.  One idle
    agent is kept for the next request, as the start of an agent takes a tenth of a
    second.  A witness can be pickled, for another process; the copy is connected to
    nothing.
    """

    kind: str

    def __init__(
        self, url: str, folder: str, limits: WindowLimits, *, volatile: bool
    ) -> None:
        """Serve the absolute path *folder*; connect to nothing yet.

        volatile: accept a folder in memory, which no power cut spares.
        """
        self.url = url
        self._folder = folder
        self._limits = limits
        self._volatile = volatile
        self._idle: Channel | None = None
        self._idle_lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": None, "_idle_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._idle_lock = threading.Lock()

    @abstractmethod
    def _open_pipe(self) -> Pipe:
        """Start an agent that waits for its program; raise HostError."""

    def facts(self) -> WitnessHostFacts:
        asked_us = wire.clock_us()
        facts = self._request(WitnessHostFacts, agent.FACTS)
        ahead_us = measure_ahead(facts.clock_us, asked_us, wire.clock_us())
        texts = (facts.hostname, facts.machine_id, facts.boot_id, *facts.addresses)
        longest = max(map(len, (*texts, facts.folder, facts.filesystem)))
        if longest > TEXT_MAX or len(facts.addresses) > ADDRESSES_MAX:
            raise WitnessError(
                f"{self.url} reports a host description that is too long to be valid",
                id=ErrorId.WITNESS_NOT_PLAUSIBLE,
                hint="Check which host answers there, or use another witness.",
            )
        return replace(facts, ahead_us=ahead_us)

    def probe(self, count: int) -> Sequence[float]:
        durations = self._request(
            list[float], agent.PROBE, count=count, volatile=self._volatile
        )
        if len(durations) != count:
            raise WitnessError(
                f"{self.url} reports {len(durations)} writes instead of {count}",
                id=ErrorId.WITNESS_NOT_PLAUSIBLE,
                hint="Check which host answers there, or use another witness.",
            )
        return durations

    def create(self, run_id: str, manifest: bytes) -> WitnessLog:
        """Store the manifest durably and open a new log; raise if the run exists."""
        if len(manifest) > MANIFEST_BYTES_MAX:
            raise WitnessError(
                f"a manifest of {len(manifest)} bytes is too long",
                id=ErrorId.MANIFEST_TOO_LONG,
                hint="Use a smaller workload, or fewer sessions.",
            )
        channel = self._borrow()
        try:
            channel.ask(
                agent.CREATE,
                folder=self._folder,
                run=run_id,
                volatile=self._volatile,
                manifest=base64.b64encode(manifest).decode(),
            )
            return OpenLog(channel, run_id, 0, self._limits)
        except BaseException:
            channel.close()
            raise

    def join(self, run_id: str, number: int) -> WitnessLog:
        """Open log *number*, 1 or more, of a run; raise if it was opened before."""
        channel = self._borrow()
        try:
            channel.ask(agent.JOIN, folder=self._folder, run=run_id, log=number)
            return OpenLog(channel, run_id, number, self._limits)
        except BaseException:
            channel.close()
            raise

    def share(self, run_id: str, numbers: Sequence[int]) -> Sequence[SharedLog]:
        connection = SharedConnection(
            self._borrow,
            {number: agent.make_token(run_id, number) for number in numbers},
            InheritedLog(-1, self.url, self._folder, self._limits, _RELAYED),
        )
        return [SharedLog(connection, number) for number in numbers]

    def runs(self) -> Sequence[str]:
        """Return the ids of the runs whose logs are there, oldest first."""
        return self._request(RunIds, agent.RUNS)

    def unjudged(self) -> Sequence[str]:
        return self._request(RunIds, agent.RUNS, unjudged=True)

    def note_judged(self, run_id: str) -> None:
        self._request(type(None), agent.JUDGED, run=run_id)

    def manifest(self, run_id: str) -> bytes:
        content = bytearray()
        for part in self._stream(agent.MANIFEST, run_id):
            content += part
            if len(content) > MANIFEST_BYTES_MAX:
                raise WitnessError(
                    f"{self.url} sends a manifest of run {run_id} that is longer than"
                    f" the {MANIFEST_BYTES_MAX} bytes that a client can store",
                    id=ErrorId.WITNESS_COPY_CHANGED,
                    hint="Find out who changed it on the witness.",
                )
        return bytes(content)

    def read(self, run_id: str, number: int = 0) -> Iterator[bytes]:
        return self._stream(agent.READ, run_id, log=number)

    def remove(self, run_id: str) -> None:
        """Delete the folder of a run; raise WitnessError if a log of it is in use."""
        self._request(type(None), agent.REMOVE, run=run_id)

    def lock(self) -> WitnessLock | None:
        channel = self._borrow()
        lock = WitnessLock(channel, self._folder)
        try:
            if lock.take():
                return lock
        except BaseException:
            channel.close()
            raise
        self._give_back(channel)
        return None

    def close(self) -> None:
        idle = self._take_idle()
        if idle is not None:
            idle.close()

    def _request(self, kind: type[T], verb: int, **question: object) -> T:
        channel = self._borrow()
        try:
            answer = channel.answer(kind, verb, folder=self._folder, **question)
        except BaseException:
            channel.close()
            raise
        self._give_back(channel)
        return answer

    def _stream(self, verb: int, run_id: str, **question: object) -> Iterator[bytes]:
        channel = self._borrow()
        try:
            yield from channel.stream(verb, folder=self._folder, run=run_id, **question)
        except BaseException:  # also if the caller stops early
            channel.close()
            raise
        self._give_back(channel)

    def _borrow(self) -> Channel:
        """Return the channel of the idle agent, or of a new one."""
        idle = self._take_idle()
        if idle is not None:
            if idle.is_alive():
                return idle
            idle.close()
        try:
            pipe = self._open_pipe()
        except HostError as error:
            raise WitnessError(str(error), id=error.id, hint=error.hint) from error
        return open_channel(pipe, self.url)

    def _give_back(self, channel: Channel) -> None:
        with self._idle_lock:
            if self._idle is None:
                self._idle = channel
                return
        channel.close()

    def _take_idle(self) -> Channel | None:
        with self._idle_lock:
            idle, self._idle = self._idle, None
            return idle


class FileWitness(AgentWitness):
    """Runs the agent as a child process, which dies with the client."""

    kind = "file"

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        limits: WindowLimits | None = None,
        volatile: bool = False,
        python: str = processes.PYTHON,
    ) -> None:
        """Keep logs in the absolute path *folder*; *python* runs the agent."""
        limits = limits or WindowLimits()
        super().__init__(url, str(folder), limits, volatile=volatile)
        self._python = python

    def _open_pipe(self) -> Pipe:
        return run_here(PROGRAM, self._python)


class SshWitness(AgentWitness):
    """Runs an agent on a remote host for each request, over one connection."""

    kind = "ssh"

    def __init__(
        self,
        url: str,
        address: Address,
        folder: str,
        *,
        options: SshOptions = AS_SSH,
        limits: WindowLimits | None = None,
        volatile: bool = False,
    ) -> None:
        """Keep logs in the absolute path *folder* there; connect when first asked."""
        super().__init__(url, folder, limits or WindowLimits(), volatile=volatile)
        # paramiko takes 100 ms to import, and a file witness does not need it.
        from dbcheck.remote.ssh import SshHost

        self._host = SshHost(url, address, options)

    def _open_pipe(self) -> Pipe:
        return self._host.run(PROGRAM)

    def close(self) -> None:
        super().close()
        self._host.close()
