"""Facts about the target's host, as plain values."""

from __future__ import annotations

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

    boot: names the machine's boot; clocks of two boots cannot be compared.
    clock_us: CLOCK_MONOTONIC, which stands still while the machine is suspended.
    boot_us: CLOCK_BOOTTIME, which does not (clock_gettime(2)).
    wall_us: the time of day, since the epoch; it may be set.
    """

    boot: str
    clock_us: int
    boot_us: int
    wall_us: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One text that was read on the host.

    of:   the block device or ZFS dataset that it is about, "" the host itself.
    what: names it, see agent.host.tools.
    how:  the file or command, for reports.
    text: what it held; of a tool also what it printed before it failed.
    why:  the reason if it could not be read, else "".
    """

    of: str
    what: str
    how: str
    text: str
    why: str


class Readings:
    """All that was read of one host."""

    def __init__(self, found: Iterable[Reading] = ()) -> None:
        """Hold what was *found*; of readings with one name the first counts."""
        self._found: dict[tuple[str, str], Reading] = {}
        for each in found:
            self._found.setdefault((each.of, each.what), each)

    def get(self, of: str, what: str) -> Reading | None:
        """Return one of them, None if nothing of that name was tried."""
        return self._found.get((of, what))

    def text(self, of: str, what: str) -> str:
        """Return its text, "" if it could not be read."""
        found = self.get(of, what)
        return "" if found is None or found.why else found.text.strip()

    def named(self, *whats: str) -> list[Reading]:
        """Return those with one of these names, whatever they are of."""
        return [each for each in self._found.values() if each.what in whats]


WRITE_BACK, WRITE_THROUGH = "write back", "write through"  # queue/write_cache


@dataclass(frozen=True, slots=True)
class Layer:
    """One block device under a filesystem.

    kind:        disk, partition, dm, md or loop.
    write_cache: what the kernel assumes, "write back" or "write through"; without
                 the former it sends no flush.
    below:       the devices that this one is made of; () for a drive.
    direct:      a loop device that goes past the page cache of its file (O_DIRECT).
    backing:     the filesystem of that file, "" if it is not known.
    md:          of an array its level, degraded (number of drives that it lacks),
                 policy (how it stays consistent) and backlog (of write-behind), as
                 its files in /sys have them; what is not there is left out.
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
    """A device with none below it; None where its counters cannot be read."""

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

    places:     name of a place -> its path, with links followed, for each on it.
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
        """The drives that its files lie on, by name."""
        if not self.apart:
            return [drive.name for drive in self.drives]
        inner = {name for layer in self.layers for name in layer.below}
        tops = {layer.name for layer in self.layers} - inner
        return self.drives_below(*tops.difference(self.apart.values()))

    def drives_below(self, *names: str) -> list[str]:
        """Return the drives that the layers *names* lie on, or are, by name."""
        below = {layer.name: layer.below for layer in self.layers}
        reached = list(names)
        for name in reached:  # grows while it is walked
            reached += [each for each in below.get(name, ()) if each not in reached]
        return [drive.name for drive in self.drives if drive.name in reached]

    @property
    def medium(self) -> str:
        """The drives by name, else what is mounted, for reports."""
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
        """The places on it and its drives, for reports, e.g. "WAL, undo (sdb)"."""
        return f"{', '.join(self.places)} ({self.medium})"


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """Facts of a server's process that may keep its flushes from its files.

    no_sync:   the option that switches them off, "" if none is in force.
    preloaded: what LD_PRELOAD and /etc/ld.so.preload name (ld.so(8)).
    replaced:  path of an object that it has mapped, other than the C library -> the
               flushes that this defines in the place of the C library's.
    unread:    why not all of it could be read, "" if it could.
    no_sync_unread: why it is not known whether an option switches them off, "" if it
               is.
    """

    no_sync: str
    preloaded: tuple[str, ...]
    replaced: Mapping[str, tuple[str, ...]]
    unread: str
    no_sync_unread: str = "only its command line was looked at"


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The target's host, and what its server's places lie on.

    clock_us:   the host's clock, microseconds since the epoch.
    uptime_s:   since its kernel started, in seconds; None if unknown.
    booted_us:  when its kernel started, by its clock; None if unknown.
    made:       inode and birth of the data directory (".") and of files that a
                server never replaces, by name.
    changed:    ctime of files that a server never writes once its data were made, by
                name; nanoseconds since 1970.
    volumes:    what the places lie on, that of the data directory first.
    unseen:     name of a place -> why it could not be inspected.
    unreadable: fact -> why it could not be read; such a fact is "" or None.
    process:    of the server; None if it was not looked at.
    seen_otherwise: name of a place, or of its files -> what the server's process finds
                at its path, where that is not what the host's agent finds there.
    view_unread: why it is not known what it finds there, "" if it is.
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

    truncated: there was more.  rewound: a log does not continue what it was at the
    mark, so the text may begin with older lines.
    """

    text: str
    truncated: bool
    rewound: bool


# Before a data directory, instead of a path: its server logs by way of syslog, or to
# standard error, which its host takes to a file or to the journal.
JOURNAL, STDERR = "journal:", "stderr:"
# Before a data directory, "/", and a folder: what PostgreSQL logs to standard error
# before its logging collector starts, and the collector's files.  No "//" is in either.
COLLECTOR = "collector:"
LogMarks = Mapping[str, Sequence[int]]  # path -> see agent.host.log.mark_files()


@dataclass(frozen=True, slots=True)
class VolumeCanaries:
    """Canaries on another volume than that of the data directory.

    folder, nonce: where they write, and what names them; "" if there are none.
    failure: why there are none, "" if there are.
    """

    folder: str
    nonce: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class HostBefore:
    """Report of the target's host before the load.

    canary_folder, canary_nonce: where the canaries write, and what names them.
    log_path: of the server's log, "" if none was named; log_marks: where it ended.
    elsewhere: the canaries of each volume but the first, in the order of the facts.
    """

    facts: TargetFacts
    canary_folder: str
    canary_nonce: str
    log_path: str
    log_marks: LogMarks
    elsewhere: tuple[VolumeCanaries, ...] = ()

    def __post_init__(self) -> None:
        """Refuse canaries whose number is not that of the volumes."""
        if len(self.elsewhere) != len(self.facts.volumes) - 1:
            raise ValueError("canaries and volumes do not match")

    @property
    def canary_folders(self) -> tuple[str, ...]:
        """Every folder that canaries were left in."""
        folders = (self.canary_folder, *(each.folder for each in self.elsewhere))
        return tuple(folder for folder in folders if folder)


@dataclass(frozen=True, slots=True)
class HostAfter:
    """Report of the target's host after recovery; None where it could not.

    failure: why the first thing that failed did so, "" if nothing did.
    remains_elsewhere: of HostBefore.elsewhere, each; () if they could not be read.
    clocks: the client's when the facts were read; None if they were not.
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
