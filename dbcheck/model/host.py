"""Facts about the target's host, as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from dbcheck.model.depth import Remains


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity that a host reports; "" where it cannot.

    serial:  of the machine (DMI), which only root may read.
    boot_id: another one after each boot (random(4)).
    """

    hostname: str
    machine_id: str
    boot_id: str
    serial: str
    addresses: frozenset[str]


@dataclass(frozen=True, slots=True)
class Expected:
    """Identity that the right host reports; "" where nothing is expected."""

    hostname: Annotated[
        str,
        Meta(description="The host name that the host must report before a cut."),
    ] = ""
    serial: Annotated[
        str, Meta(description="The serial number that it must report.")
    ] = ""
    machine_id: Annotated[
        str, Meta(description="The machine id that it must report.")
    ] = ""


@dataclass(frozen=True, slots=True)
class ClientClocks:
    """Clocks of a client at one moment, in microseconds.

    boot: id of the machine's boot; clocks of two boots cannot be compared.
    clock_us: CLOCK_MONOTONIC, which stands still while the machine is suspended.
    boot_us: CLOCK_BOOTTIME, which goes on while it is suspended (clock_gettime(2)).
    wall_us: the time of day, since the epoch; it may be set.
    """

    boot: str
    clock_us: int
    boot_us: int
    wall_us: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One text that was read on the host.

    of:   the block device or ZFS dataset of the text, "" for the host itself.
    what: name of the reading, see agent.host.tools.
    how:  the file or command, for reports.
    text: what the file held, or what the command printed, even if it then failed.
    why:  the reason if the text could not be read, else "".
    """

    of: str
    what: str
    how: str
    text: str
    why: str


class Readings:
    """All that was read of one host."""

    def __init__(self, found: Iterable[Reading] = ()) -> None:
        """Hold the readings *found*; of several with the same key the first counts."""
        self._found: dict[tuple[str, str], Reading] = {}
        for reading in found:
            self._found.setdefault((reading.of, reading.what), reading)

    def get(self, of: str, what: str) -> Reading | None:
        """Return the reading *what* of *of*, None if it was not tried."""
        return self._found.get((of, what))

    def text(self, of: str, what: str) -> str:
        """Return the text of the reading *what* of *of*, "" if it could not be read."""
        reading = self.get(of, what)
        return "" if reading is None or reading.why else reading.text.strip()

    def named(self, *whats: str) -> list[Reading]:
        """Return the readings with one of the names *whats*, of any device."""
        return [reading for reading in self._found.values() if reading.what in whats]


WRITE_BACK, WRITE_THROUGH = "write back", "write through"  # queue/write_cache


@dataclass(frozen=True, slots=True)
class Layer:
    """One block device under a filesystem.

    kind:        disk, partition, dm, md or loop.
    write_cache: what the kernel assumes, "write back" or "write through"; it sends
                 flushes only with "write back".
    below:       the devices that this one is made of; () for a drive.
    direct:      a loop device that goes past the page cache of its file (O_DIRECT).
    backing:     the filesystem of a loop device's file, "" if it is not known.
    md:          of an array its level, degraded (number of drives that it lacks),
                 policy (how it stays consistent) and backlog (of write-behind), as
                 its files in /sys have them; a missing file is left out.
    foreign:     what provides a disk that is not a drive of this host, e.g. "virtio" or
                 "iSCSI"; "" if nothing shows that.
    """

    name: str
    kind: str
    dm_name: str
    dm_uuid: str
    backing_file: str
    write_cache: str
    fua: str
    below: tuple[str, ...]
    direct: bool = False
    md: Mapping[str, str] = field(default_factory=dict)
    foreign: str = ""
    backing: str = ""


@dataclass(frozen=True, slots=True)
class Drive:
    """A block device with no other device below it.

    unsafe_shutdowns, power_cycles: None if the counter cannot be read.
    """

    name: str
    model: str
    serial: str
    wwid: str
    write_cache: str
    unsafe_shutdowns: int | None
    power_cycles: int | None
    firmware: str = ""


@dataclass(frozen=True, slots=True)
class Volume:
    """One filesystem, and the block devices below it.

    places:     name of each place on this filesystem -> its path, with links followed.
    layers:     from the device that is mounted down to the drives.
    unreadable: fact -> why it could not be read; such a fact is "" or None.
    apart:      "journal" or "realtime section" -> the layer that holds it alone, where
                no file can be put.
    free_bytes: what an ordinary user may still write; None if that is not known.
    device:     the filesystem's device number, e.g. "8:1"; "" if it is not known.  A
                boot may change it.
    """

    places: Mapping[str, str]
    mount_point: str
    filesystem: str
    mount_options: str
    source: str
    filesystem_uuid: str
    layers: tuple[Layer, ...]
    drives: tuple[Drive, ...]
    unreadable: Mapping[str, str]
    apart: Mapping[str, str] = field(default_factory=dict)
    free_bytes: int | None = None
    device: str = ""

    def __post_init__(self) -> None:
        """Refuse a volume without a place on it."""
        if not self.places:
            raise ValueError("a volume without a place on it")

    @property
    def file_drives(self) -> list[str]:
        """The names of the drives that hold the files of this filesystem."""
        if not self.apart:
            return [drive.name for drive in self.drives]
        inner = {name for layer in self.layers for name in layer.below}
        tops = {layer.name for layer in self.layers} - inner
        return self.drives_below(*tops.difference(self.apart.values()))

    def drives_below(self, *names: str) -> list[str]:
        """Return the names of the drives that the layers *names* are, or lie on."""
        below = {layer.name: layer.below for layer in self.layers}
        reached = list(names)
        for name in reached:  # grows while it is walked
            reached += [lower for lower in below.get(name, ()) if lower not in reached]
        return [drive.name for drive in self.drives if drive.name in reached]

    @property
    def medium(self) -> str:
        """The names of the drives, or else the mounted source, for reports."""
        files = ", ".join(self.file_drives) or (
            self.source or self.filesystem or "an unknown drive"
        )
        others = (
            f"{role} on {', '.join(self.drives_below(layer)) or layer}"
            for role, layer in self.apart.items()
        )
        return "; ".join((files, *others))

    @property
    def named(self) -> str:
        """The places of this volume and its drives, for reports: "WAL, undo (sdb)"."""
        return f"{', '.join(self.places)} ({self.medium})"


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """Facts about a server's process that may keep its flushes from its files.

    no_sync:   the option that switches flushes off, "" if none is in force.
    preloaded: what LD_PRELOAD and /etc/ld.so.preload name (ld.so(8)).
    replaced:  path of an object that it has mapped, other than the C library -> the
               flush functions that the object defines in place of the C library's.
    unread:    why not all of preloaded and replaced could be read, "" if all could.
    no_sync_unread: why it is not known whether an option switches flushes off, "" if
               it is.
    """

    no_sync: str
    preloaded: tuple[str, ...]
    replaced: Mapping[str, tuple[str, ...]]
    unread: str
    no_sync_unread: str = "only its command line was looked at"


# In a control group of Docker, Podman and Kubernetes; the first digits are what the
# engine's own lists show, and what its commands take (docker ps, podman ps, crictl ps).
_CONTAINER_ID = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")


@dataclass(frozen=True, slots=True)
class Container:
    """The container of a server, or a service with mounts or a root of its own.

    The server's paths are looked up as this process of it finds them.

    process: its id on the host.
    cgroup:  its control group (cgroups(7)), "" if it has none.
    """

    process: int
    cgroup: str

    @property
    def named(self) -> str:
        """The short id that container engines use, else the control group."""
        ids = _CONTAINER_ID.findall(self.cgroup)
        return ids[-1] if ids else self.cgroup or f"process {self.process}"


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The target's host, and what its server's places lie on.

    clock_us:   the host's clock, microseconds since the epoch.
    uptime_s:   seconds since the host's kernel started; None if unknown.
    booted_us:  when the kernel started, by the host's clock; None if unknown.
    made:       inode and birth of the data directory (".") and of files that a
                server never replaces, by name.
    changed:    name of a file that a server never writes once its data were made ->
                the file's ctime, nanoseconds since 1970.
    volumes:    what the places lie on; the data directory's volume comes first.
    unseen:     name of a place -> why it could not be inspected.
    unreadable: fact -> why it could not be read; such a fact is "" or None.
    process:    the server's process; None if it was not looked at.
    seen_otherwise: name of a place, or of its files -> what the server's process finds
                at its path, if it is not what the host's agent finds there.
    view_unread: why it is not known what the server's process finds at the paths, "" if
                it is known.
    container:  None if the server finds its paths as the host itself does.
    """

    hostname: str
    machine_id: str
    boot_id: str
    addresses: frozenset[str]
    clock_us: int
    uptime_s: float | None
    data_directory: str
    made: Mapping[str, str]
    volumes: tuple[Volume, ...]
    unseen: Mapping[str, str]
    unreadable: Mapping[str, str]
    process: ServerProcess | None = None
    seen_otherwise: Mapping[str, str] = field(default_factory=dict)
    view_unread: str = "it was not looked at"
    changed: Mapping[str, int] = field(default_factory=dict)
    booted_us: int | None = None
    container: Container | None = None

    def __post_init__(self) -> None:
        """Refuse facts without the data directory's volume."""
        if not self.volumes:
            raise ValueError("no volume holds the data directory")

    @property
    def data(self) -> Volume:
        """The volume of the data directory."""
        return self.volumes[0]


@dataclass(frozen=True, slots=True)
class LogTail:
    """Lines that a server logged since a mark.

    truncated: more was logged than *text* holds.  rewound: the log does not continue
    what it was at the mark, so the text may begin with older lines.
    """

    text: str
    truncated: bool
    rewound: bool


# Prefixes of a data directory, used instead of a log's path: the server logs by way of
# syslog, or to standard error, which its host takes to a file or to the journal.
JOURNAL, STDERR = "journal:", "stderr:"
# Prefix of a data directory, "/", and a folder: what PostgreSQL logs to standard error
# before its logging collector starts, and the collector's files.  No path has "//".
COLLECTOR = "collector:"
LogMarks = Mapping[str, Sequence[int]]  # path -> see agent.host.log.mark_files()


@dataclass(frozen=True, slots=True)
class VolumeCanaries:
    """Canaries on another volume than that of the data directory.

    folder, nonce: where the canaries write, and what names them; "" without canaries.
    failure: why there are no canaries, "" if there are.
    """

    folder: str
    nonce: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class HostBefore:
    """Report of the target's host before the load.

    canary_folder, canary_nonce: where the canaries write, and what names them.
    log_path: path of the server's log, "" if none was named; log_marks: where it ended.
    elsewhere: the canaries of each volume but the first, in the order of the facts.
    """

    facts: TargetFacts
    canary_folder: str
    canary_nonce: str
    log_path: str
    log_marks: LogMarks
    elsewhere: tuple[VolumeCanaries, ...] = ()

    def __post_init__(self) -> None:
        """Refuse canaries unless there is one pair for each volume but the first."""
        if len(self.elsewhere) != len(self.facts.volumes) - 1:
            raise ValueError("canaries and volumes do not match")

    @property
    def canary_folders(self) -> tuple[str, ...]:
        """Every folder that canaries were left in."""
        folders = (
            self.canary_folder,
            *(canaries.folder for canaries in self.elsewhere),
        )
        return tuple(folder for folder in folders if folder)


@dataclass(frozen=True, slots=True)
class HostAfter:
    """Report of the target's host after recovery; None where it could not.

    failure: why the first reading that failed did so, "" if none failed.
    remains_elsewhere: remains of the canaries of HostBefore.elsewhere, in its order; ()
             if they could not be read.
    clocks:  the client's clocks when the facts were read; None if they were not.
    left:    the folders in which canaries still lie; () if all were removed.
    shut_down: what the host itself recorded of an orderly shutdown, "" if nothing;
             None if its records could not be asked for.
    """

    facts: TargetFacts | None
    remains: Remains | None
    log: LogTail | None
    failure: str
    remains_elsewhere: tuple[Remains | None, ...] = ()
    clocks: ClientClocks | None = field(default=None, compare=False)
    left: tuple[str, ...] = ()
    shut_down: str | None = ""
