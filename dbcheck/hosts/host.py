"""The target's host, over SSH or this very host, and a host ready to reset itself."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec

from dbcheck.agent.host import serve as host_agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.hosts.canary import Canaries, Pace
from dbcheck.hosts.counting import AskedPlace, CountersSample, Counting, Look
from dbcheck.hosts.drives import DriveControl
from dbcheck.hosts.volumes import VolumeControl
from dbcheck.model.depth import Ranges, Remains, Ring
from dbcheck.model.flushes import Method, Sample, Shape, Timed
from dbcheck.model.host import (
    Identity,
    LogMarks,
    LogTail,
    Reading,
    Readings,
    TargetFacts,
    Volume,
)
from dbcheck.model.places import DATA, FoundData, Place
from dbcheck.model.watched import Folders
from dbcheck.remote.address import AS_SSH, SshOptions
from dbcheck.remote.channel import AgentProtocol, Channel, Pipe, build_program
from dbcheck.remote.way import HERE, LOCAL, find_way
from dbcheck.server_log.lines import unwrap_lines
from dbcheck.server_log.postgresql import merge_early_log

_REPLY_S = 1.0
PARTS = (  # modules of the agent's program; each imports only modules before it
    "dbcheck.agent.host.open",
    "dbcheck.agent.host.folder",
    "dbcheck.agent.host.canary",
    "dbcheck.agent.host.volumes",
    "dbcheck.agent.host.tools",
    "dbcheck.agent.host.servers",
    "dbcheck.agent.host.process",
    "dbcheck.agent.host.mounts",
    "dbcheck.agent.host.container",
    "dbcheck.agent.host.data",
    "dbcheck.agent.host.view",
    "dbcheck.agent.host.devices",
    "dbcheck.agent.host.facts",
    "dbcheck.agent.host.timing",
    "dbcheck.agent.host.drives",
    "dbcheck.agent.host.remount",
    "dbcheck.agent.host.journal",
    "dbcheck.agent.host.log",
)
PROGRAM = build_program("dbcheck.agent.host.serve", *PARTS)
LOG_BYTES_MAX = 1 << 20
T = TypeVar("T")
REFUSALS: Mapping[str, tuple[ErrorId, str]] = {
    "ENOENT": (
        ErrorId.HOST_PATH_MISSING,
        "Check the path, and that the user who logs in there may see it.",
    ),
    "EACCES": (
        ErrorId.HOST_PERMISSION_MISSING,
        "Log in there as root or as the server's own account.",
    ),
    "EPERM": (
        ErrorId.HOST_PERMISSION_MISSING,
        "Log in there as root or as the server's own account.",
    ),
    "EXDEV": (
        ErrorId.DATA_IN_CONTAINER_ALONE,
        "Keep the data on a volume of the container engine or a bind mount: what a "
        "container keeps for itself is removed with it.",
    ),
    "ENOSPC": (
        ErrorId.HOST_DISK_FULL,
        "Make room on that filesystem. `dbcheck clean` drops the rows of earlier "
        "runs; a campaign must begin anew after it, and dbcheck golive --resume begins"
        " its step anew.",
    ),
    "EROFS": (
        ErrorId.HOST_FILESYSTEM_READ_ONLY,
        "Mount it read-write there; the kernel's log (dmesg) says whether an error"
        " made it read-only.",
    ),
    "folder": (
        ErrorId.CANARY_FOLDER_NOT_WRITABLE,
        "Log in there as a user who may write beside the data directory, or "
        "name a folder on its filesystem.",
    ),
    "strangers": (
        ErrorId.FOLDER_HOLDS_OTHER_FILES,
        "Check that folder by hand; dbcheck deletes only its own files.",
    ),
    "owner": (
        ErrorId.CANARY_FOLDER_OF_OTHER_USER,
        "Log in there as the user to whom that filesystem assigns new files. If "
        "the folder was replaced, find out who can write beside the data directory.",
    ),
    "log": (
        ErrorId.SERVER_LOG_NOT_FOUND,
        "Name the log itself with --server-log: a file, or a folder of files.",
    ),
    "volumes": (
        ErrorId.VALUE_INVALID,
        "Name one folder on each volume.",
    ),
    "in-use": (
        ErrorId.CANARIES_IN_USE,
        "Wait until the other run is over, or end its client.",
    ),
    "device": (
        ErrorId.DRIVE_AMBIGUOUS,
        "One drive must have that serial, and a device in /dev; remove what "
        "else is there.",
    ),
    "others": (
        ErrorId.HOST_FOLDER_OF_OTHERS,
        "Make that folder root's alone there: chown root, chmod go-w.",
    ),
    "note": (
        ErrorId.CUT_NOTE_NOT_WRITABLE,
        "Make that folder one on another drive, with room, that root can write: "
        "what a cut of drives alone has to put back is noted there.",
    ),
    "note-read": (
        ErrorId.CUT_NOTE_UNREADABLE,
        "Put the host back by hand: end the server, unmount its filesystems, "
        "use the switch, mount them, start the server. Then delete that file.",
    ),
    "trigger": (
        ErrorId.SYSRQ_NOT_ALLOWED,
        "Only the host's own root may write it; in a container it is read-only.",
    ),
    "sudo": (
        ErrorId.SYSRQ_NOT_ALLOWED,
        "Log in as root, or allow it in sudoers(5): NOPASSWD: "
        "/usr/bin/tee /proc/sysrq-trigger",
    ),
}
_PROTOCOL = AgentProtocol(
    program=PROGRAM,
    who="host",
    failure=HostError,
    refusals=REFUSALS,
    ended_hint="Check that host. If canaries were running, their files stay there.",
)
_METHODS = {
    Method.FSYNC: "fsync",
    Method.FDATASYNC: "fdatasync",
    Method.DSYNC: "dsync",
    Method.DIRECT: "direct",
    Method.RWF_DSYNC: "rwf_dsync",
}


class ArmedReset:
    """A host that resets itself at the next message.

    identity: the identity that it reported just before.
    """

    def __init__(self, channel: Channel, trigger: str) -> None:
        """Have the host hold *trigger* open; take over *channel*, to close it.

        Raise HostError, also if the user there may not write to the trigger.
        """
        self._channel = channel
        try:
            self.identity = channel.answer(Identity, host_agent.IDENTITY)
            channel.request(host_agent.ARM, trigger=trigger)
        except BaseException:
            channel.close()
            raise

    def is_alive(self) -> bool:
        """Return True if the host can still be reached, as far as is known here."""
        return self._channel.is_alive()

    def reset(self) -> None:
        """Send the one message; a host that resets cannot answer any more."""
        self._channel.ask(host_agent.RESET)
        with contextlib.suppress(HostError):
            self._channel.receive(_REPLY_S)

    def close(self) -> None:
        """End the channel; never raises."""
        self._channel.close()


@dataclass(frozen=True, slots=True)
class Cleared:
    """Folders of earlier runs' canaries: those removed, and those kept.

    kept: folder -> why it was not removed.
    """

    removed: tuple[str, ...]
    kept: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Run:
    """Facts that the canaries stored about themselves."""

    nonce: str
    ring_blocks: Annotated[int, msgspec.Meta(ge=1)]
    attributes: int = 0


@dataclass(frozen=True, slots=True)
class _Logged:
    """A part of a log from the host's agent, see agent.host.log.read_since()."""

    text: str
    truncated: bool
    rewound: bool
    early: str = ""


@dataclass(frozen=True, slots=True)
class _FoundCanaries:
    """Survivors from the host's agent, see agent.host.canary.read_survivors()."""

    run: _Run | None
    buffered: Ranges
    first: int
    rings: tuple[Ring, ...]


@dataclass(frozen=True, slots=True)
class _Printed:
    """Output of a tool, or why it could not be run."""

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class _Found:
    """Data directories, see agent.host.data.find_data()."""

    found: tuple[FoundData, ...]


@dataclass(frozen=True, slots=True)
class _Timed:
    """Writes of one shape, see agent.host.timing."""

    took_ns: tuple[int, ...]
    before: CountersSample
    after: CountersSample
    why: str


class TargetHost:
    """A host that answers questions; for any thread, and across its power cuts.

    place names it in errors.  is_local: it is the machine that dbcheck runs on.
    """

    def __init__(
        self,
        place: str,
        open_pipe: Callable[[bytes], Pipe],
        close: Callable[[], None] = lambda: None,
        *,
        is_local: bool = False,
    ) -> None:
        """Reach nothing yet; *open_pipe* starts a Python that waits for a program."""
        self.place, self.is_local = place, is_local
        self._open_pipe = open_pipe
        self._close = close
        self._channel: Channel | None = None
        self._asking = threading.Lock()

    def reach(self) -> None:
        """Have an agent there that answers; raise HostError."""
        with self._asking:
            self._agent()

    def identity(self) -> Identity:
        """Identify the host that answers now, over a new connection; raise HostError.

        Another connection of this object is ended first: its host may be gone.
        """
        self.close()
        try:
            return self._request(Identity, host_agent.IDENTITY)
        finally:
            self.close()

    def arm_reset(self, trigger: str) -> ArmedReset:
        """Have the host hold *trigger* open, the file that resets it; raise HostError.

        The user there must be allowed to write to it.  The caller closes what is
        returned, and then this host.
        """
        try:
            return ArmedReset(self._open(), trigger)
        except BaseException:
            self.close()
            raise

    def facts(
        self, data_directory: str, places: Sequence[Place] = (), process: int = 0
    ) -> TargetFacts:
        """Describe the host, and what the data directory and *places* lie on.

        process: whose view of the paths counts, see model.places.FoundData.
        Raise HostError, also if the data directory is not there.
        """
        asked = _make_request(data_directory, places)
        return self._request(
            TargetFacts, host_agent.FACTS, places=asked, process=process
        )

    def readings(self, volumes: Sequence[Volume]) -> Readings:
        """Read the host's files and tools about the devices of *volumes*."""
        layers = {layer.name: layer for volume in volumes for layer in volume.layers}
        devices = [n for n, layer in layers.items() if layer.kind != "partition"]
        datasets = [volume.source for volume in volumes if volume.filesystem == "zfs"]
        asked = {"devices": devices, "datasets": list(dict.fromkeys(datasets))}
        found = self._request(tuple[Reading, ...], host_agent.READ_TOOLS, **asked)
        return Readings(found)

    def counting(self, devices: Sequence[str]) -> Counting:
        """Open the counters of block devices; raise HostError.  Close what is returned.

        It has a channel of its own: after a cut, a wait for its answer delays no
        other request.
        """
        return Counting(self._open(), devices)

    def look(
        self,
        facts: TargetFacts,
        data_directory: str,
        places: Sequence[Place],
        known: dict[str, Folders],
    ) -> Look:
        """Look at mounts and devices that *facts* show, and at the places.

        known: where the places lay before, see counting.Look.
        It has a channel of its own, as counting() has.  Close what is returned.  Raise
        HostError.
        """
        return Look(self._open(), facts, _make_request(data_directory, places), known)

    def drives(self) -> DriveControl:
        """Open the control that takes the server off drives; raise HostError.

        It has a channel of its own.  Close what is returned.
        """
        return DriveControl(self._open())

    def volumes(self) -> VolumeControl:
        """Open the control of canaries on several volumes; raise HostError.

        It has a channel of its own.  Close what is returned.
        """
        return VolumeControl(self._open())

    def file_windows(
        self, folder: str, devices: Sequence[str], writes: int
    ) -> tuple[Sample, ...]:
        """Write and flush a file without a name in *folder*; count what devices do.

        The samples are taken before the first write, after each flush and after each
        wait that follows, 1 + 2 * writes in all.  Raise HostError.
        """
        asked = {"folder": folder, "devices": devices, "writes": writes}
        found = self._request(
            tuple[CountersSample, ...], host_agent.COUNT_FLUSH_REQUESTS, **asked
        )
        return tuple(sample.decoded for sample in found)

    def time_writes(
        self,
        folder: str,
        shape: Shape,
        devices: Sequence[str],
        count: int,
        time_s: float,
    ) -> Timed:
        """Time writes to a file without a name in *folder*; raise HostError.

        count: how many, or fewer if they take longer than *time_s* seconds together.
        devices: their counters are read before and after.
        """
        found = self._request(
            _Timed,
            host_agent.TIME_WRITES,
            folder=folder,
            method=_METHODS[shape.method],
            size=shape.size,
            offset=shape.offset,
            devices=devices,
            count=count,
            time_s=time_s,
        )
        before, after = found.before.decoded, found.after.decoded
        return Timed(found.took_ns, before, after, found.why)

    def fileio(
        self, folder: str, at_once: int, *, flushed: bool, time_s: int
    ) -> tuple[str, str]:
        """Return fio's output on random writes in *folder*, or why it cannot run.

        See agent.host.timing; raise HostError.
        """
        asked = {"at_once": at_once, "flushed": flushed, "time_s": time_s}
        found = self._request(_Printed, host_agent.FILEIO, folder=folder, **asked)
        return found.text, found.why

    def find_data(self, data_directory: str) -> tuple[FoundData, ...]:
        """Find the directories at that path: the host's own, and those in containers.

        The host's own comes first.  Raise HostError if there is none.
        """
        found = self._request(_Found, host_agent.FIND_DATA, path=data_directory)
        return found.found

    def find_log(self, path: str, process: int) -> str:
        """Return the host's path of a log that a process has at *path*.

        Raise HostError, also if the host has no path to it.
        """
        return self._request(str, host_agent.FIND_LOG, path=path, process=process)

    def mark_log(self, path: str) -> LogMarks:
        """Note the present end of the log *path*, or of each log of a folder."""
        return self._request(dict[str, tuple[int, ...]], host_agent.MARK_LOG, path=path)

    def read_log(
        self, path: str, marks: LogMarks, limit_bytes: int = LOG_BYTES_MAX
    ) -> LogTail:
        """Read the log since *marks*, also where it was rotated."""
        found = self._request(
            _Logged, host_agent.READ_LOG, path=path, marks=marks, limit=limit_bytes
        )
        early = unwrap_lines(found.early)
        text = merge_early_log(unwrap_lines(found.text), early)
        return LogTail(text, found.truncated, found.rewound)

    def shutdown_record(self, boot_id: str, since_us: int) -> str:
        """Return the host's record of an orderly shutdown of that boot, or ""."""
        return self._request(
            str, host_agent.SHUTDOWN, boot_id=boot_id, since_us=since_us
        )

    def start_canaries(
        self, data_directory: str, *, folder: str = "", pace: Pace | None = None
    ) -> Canaries:
        """Start canaries on the filesystem of *data_directory*; raise HostError.

        folder: "" chooses one beside the data directory, else inside it; what an
        earlier run left there is replaced.
        """
        nonce = secrets.token_hex(16)
        return Canaries(self._open(), data_directory, folder, nonce, pace or Pace())

    def read_canaries(self, folder: str, nonce: str) -> Remains:
        """Read the survivors of the canaries that *nonce* names."""
        found = self._request(_FoundCanaries, host_agent.READ_CANARIES, folder=folder)
        missing = ""
        if found.run is None:
            missing = f"{folder} does not hold the file that was made durable there"
        elif found.run.nonce != nonce:
            missing = f"{folder} holds the canaries of another run"
        run = found.run or _Run("", 1)
        try:
            return Remains(
                missing,
                found.buffered,
                found.first,
                found.rings,
                run.ring_blocks,
                run.attributes,
            )
        except ValueError as error:
            raise HostError(
                f"{self.place}: the canaries in {folder}: {error}",
                id=ErrorId.AGENT_REPLY_INVALID,
            ) from None

    def remove_canaries(self, folder: str) -> None:
        """Delete the folder if it is there and holds canaries alone."""
        self._request(type(None), host_agent.REMOVE_CANARIES, folder=folder)

    def clear_canaries(self, data_directory: str) -> Cleared:
        """Delete what earlier runs left beside *data_directory*, or inside it."""
        return self._request(Cleared, host_agent.CLEAR_CANARIES, path=data_directory)

    def close(self) -> None:
        """End the connection; never raises.

        The next request makes a new one.  Call it after a cut: the host that comes
        back knows nothing of the old one, which would only time out.
        """
        with self._asking:
            if self._channel is not None:
                self._channel.close()
                self._channel = None
        self._close()

    def _request(self, kind: type[T], verb: int, **question: object) -> T:
        with self._asking:
            agent = self._agent()
            try:
                return agent.answer(kind, verb, **question)
            except BaseException:  # its answer would be taken for that of the next
                agent.close()
                self._channel = None
                raise

    def _agent(self) -> Channel:
        """Return the agent that is kept, or a new one if that died with a cut."""
        if self._channel is not None and not self._channel.is_alive():
            self._channel.close()
            self._channel = None
        if self._channel is None:
            self._channel = self._open()
        return self._channel

    def _open(self) -> Channel:
        return Channel(self._open_pipe(PROGRAM), self.place, _PROTOCOL)


def _make_request(data_directory: str, places: Sequence[Place]) -> list[AskedPlace]:
    """Return the request about the places, the data directory first."""
    files = [name for place in places if place.name == DATA for name in place.files]
    others = [
        (place.name, place.path, place.files) for place in places if place.name != DATA
    ]
    return [(DATA, data_directory, files), *others]


def open_host(url: str, options: SshOptions = AS_SSH) -> TargetHost:
    """Return the host at *url*, see remote.way; nothing is connected yet.

    Raise UsageError if the URL is invalid.
    """
    way = find_way(url, options)
    is_local = url == LOCAL
    place = HERE if is_local else url
    return TargetHost(place, way.run, way.close, is_local=is_local)
