"""Takes a server off drives whose power is cut alone, and puts it back.

The client calls the agent on the host (agent/host/drives.py and remount.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import NoneType
from typing import TypeVar

from dbcheck.agent import wire
from dbcheck.agent.host import serve as host_agent
from dbcheck.agent.host.drives import GONE_ID
from dbcheck.remote.channel import REPLY_TIMEOUT_S, Channel

T = TypeVar("T")

Names = Mapping[str, tuple[str, ...]]  # serial -> the drives that have it


@dataclass(frozen=True, slots=True)
class DriveMount:
    """One mount from a drive.

    inner:  what of the filesystem is mounted, "/" for all of it.
    nsid:   of an NVMe drive's namespace, "" for other drives.
    number: of the partition, "0" for the drive itself.
    name, device: the kernel's, such as "sda1" and "8:1".
    shown:  /sys shows that the kernel holds the filesystem in memory.
    """

    id: int
    point: str
    inner: str
    type: str
    options: str
    serial: str
    nsid: str
    number: str
    name: str
    device: str
    shown: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """Mounts and users of drives.

    root:      the user who logs in is root.
    twins:     drives that have one serial.
    busy:      what uses them otherwise than by a mount.
    directory: the data directory, with links followed; account: its owner; folder: its
               st_dev and st_ino.
    places:    the directories that an ack depends on, with links followed.
    on_them:   the data directory lies on one of the drives.
    notes_on_them: the folder of the notes (agent.host.remount) if it lies on one of
               the drives, else "".
    exposed:   why another account could exchange a mount point or a note; () in a note
               that an older dbcheck wrote.
    """

    root: bool
    drives: Names
    twins: tuple[str, ...]
    mounts: tuple[DriveMount, ...]
    busy: tuple[str, ...]
    directory: str
    places: tuple[str, ...]
    account: int
    folder: tuple[int, int]
    on_them: bool
    notes_on_them: str
    exposed: tuple[str, ...] = ()

    def without_mounts(self) -> Survey:
        """Return the survey as it is once the host holds none of the mounts.

        The kernel gives the id of a mount to a later one, so from then on whatever is
        mounted there was mounted anew.
        """
        mounts = (replace(m, id=GONE_ID - n) for n, m in enumerate(self.mounts))
        return replace(self, mounts=tuple(mounts))


@dataclass(frozen=True, slots=True)
class Noted:
    """Note of a cut that has to be put back, and the directory's server now.

    server: the server's processes.  newer: all these processes were started after the
            note was written.
    path:   of the note, on the host.
    """

    seen: Survey
    server: tuple[int, ...]
    newer: bool
    path: str


@dataclass(frozen=True, slots=True)
class _Note:
    """Answer of agent.host.remount.read_note(); the other fields are as in Noted.

    seen:      the survey that the note holds, None if there is no note.
    same_boot: the host was not started since the note was written.
    """

    seen: Survey | None
    same_boot: bool = True
    server: tuple[int, ...] = ()
    newer: bool = False
    path: str = ""


@dataclass(frozen=True, slots=True)
class EndedServer:
    """Answer of agent.host.remount.end_server().

    killed: the server's processes before it.  left: processes that did not end.
    """

    killed: tuple[int, ...]
    left: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TakenOff:
    """Answer of agent.host.remount.take_off(); off, lazy: in the order of the mounts.

    off:     the kernel has released the mount's filesystem.
    lazy:    the mount was detached while it was in use.
    holders: the processes that still use one of the mounts.
    refused: mount point -> why the mount was left alone.
    """

    off: tuple[bool, ...]
    lazy: tuple[bool, ...]
    holders: tuple[str, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PutBack:
    """Answer of agent.host.remount.put_back() for one mount.

    device:  the name of the device that has the filesystem, "" if none was found.
    checked: what the check of the filesystem printed, "" if there was none.
    failure: why the filesystem is not mounted, "" if it is.
    damaged: what the drive holds is the reason of the failure.
    """

    device: str
    checked: str
    failure: str
    damaged: bool


class DriveControl:
    """Takes a server off its drives and puts it back; each call may raise HostError."""

    def __init__(self, channel: Channel) -> None:
        """Take over *channel*, to close it."""
        self._channel = channel

    def survey(
        self, serials: Sequence[str], directory: str, places: Sequence[str], notes: str
    ) -> Survey:
        """Survey the mounts and users of the drives that have these serials.

        directory: of the server's data; places: the other directories that an ack
        depends on.
        notes: the folder of agent.host.remount.
        """
        return self._answer(
            Survey,
            host_agent.SURVEY,
            0,
            serials=serials,
            directory=directory,
            places=places,
            notes=notes,
        )

    def await_drives(
        self, serials: Sequence[str], *, present: bool, time_s: float = 0.0
    ) -> Names:
        """Wait until all drives with these serials are there, or none; return them.

        After *time_s* return what is there then.
        """
        asked = {"serials": serials, "present": present, "time_s": time_s}
        kind = dict[str, tuple[str, ...]]
        return self._answer(kind, host_agent.AWAIT_DRIVES, time_s, **asked)

    def end_server(
        self, seen: Survey, commands: Sequence[Sequence[str]], time_s: float
    ) -> EndedServer:
        """Kill the server."""
        return self._answer(
            EndedServer,
            host_agent.END_SERVER,
            time_s * len(commands),
            directory=seen.directory,
            account=seen.account,
            folder=seen.folder,
            commands=commands,
            time_s=time_s,
        )

    def take_off(self, mounts: Sequence[DriveMount], time_s: float) -> TakenOff:
        """Force the filesystems off; time_s: see agent.host.remount.take_off()."""
        asked = {"mounts": [asdict(mount) for mount in mounts], "time_s": time_s}
        most_s = time_s * (len(mounts) + 1)
        return self._answer(TakenOff, host_agent.TAKE_OFF, most_s, **asked)

    def check_still_held(self, mounts: Sequence[DriveMount]) -> tuple[bool, ...]:
        """Return for each mount whether the host still holds its filesystem."""
        asked = {"mounts": [asdict(mount) for mount in mounts]}
        return self._answer(tuple[bool, ...], host_agent.STILL_HELD, 0, **asked)

    def put_back(
        self, mounts: Sequence[DriveMount], time_s: float
    ) -> tuple[PutBack, ...]:
        """Check and mount the filesystems, in the order of the mounts."""
        asked = {"mounts": [asdict(mount) for mount in mounts], "time_s": time_s}
        most_s = 2 * time_s * len(mounts)
        return self._answer(tuple[PutBack, ...], host_agent.PUT_BACK, most_s, **asked)

    def start(self, command: Sequence[str], time_s: float) -> tuple[int, str]:
        """Run the command that starts the server; return its exit code and output."""
        asked = {"command": command, "time_s": time_s}
        return self._answer(tuple[int, str], host_agent.START_SERVER, time_s, **asked)

    def write_note(self, folder: str, seen: Survey) -> None:
        """Store durably on the host what put_back() will need."""
        asked = {"folder": folder, "seen": asdict(seen)}
        self._answer(NoneType, host_agent.WRITE_NOTE, 0, **asked)

    def read_note(self, folder: str, serials: Sequence[str]) -> Noted | None:
        """Return the note about the drives with these serials, None if none is stored.

        If the host was started since it was written, its survey is without_mounts().
        """
        asked = {"folder": folder, "serials": serials}
        note = self._answer(_Note, host_agent.READ_NOTE, 0, **asked)
        if note.seen is None:
            return None
        seen = note.seen if note.same_boot else note.seen.without_mounts()
        return Noted(seen, note.server, note.newer, note.path)

    def remove_note(self, folder: str, serials: Sequence[str]) -> None:
        """Delete the note."""
        asked = {"folder": folder, "serials": serials}
        self._answer(NoneType, host_agent.REMOVE_NOTE, 0, **asked)

    def is_alive(self) -> bool:
        """Return True if the host can still be asked, as far as is known here."""
        return self._channel.is_alive()

    def close(self) -> None:
        """End the channel; never raises."""
        self._channel.close()

    def _answer(self, kind: type[T], verb: int, most_s: float, **question: object) -> T:
        """Return the answer; most_s: how long it may take beside REPLY_TIMEOUT_S."""
        self._channel.ask(verb, **question)
        reply = self._channel.expect(wire.RESULT, REPLY_TIMEOUT_S + most_s)
        return self._channel.understood(kind, self._channel.decoded(reply))
