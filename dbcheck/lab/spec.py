"""The configuration of a lab, as plain values that can be written to a file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.base.setting import Setting
from dbcheck.config.validated import one_of, require_valid
from dbcheck.model.cut import LabCut, PowerScope

ENGINES = ("postgresql", "mariadb", "mysql", "myrocks")
FILESYSTEMS = ("xfs", "ext4")
NO_CONTAINER, LAYER = "none", "layer"
CONTAINERS = (NO_CONTAINER, "volume", LAYER)
PERSONALITIES = (
    "honest",
    "lying",
    "fickle",
    "failing",
    "reordering",
    "write-through",
)
KEPT_WRITES = (
    "none",
    "all",
    "prefix",
    "suffix",
    "torn",
    "but-one",
    "writes",
    "pages",
    "blocks",
    "random",
)
DATA_DRIVE, LOG_DRIVE = "files", "log"  # names of drives, and of their mount points
LAB_CUTS = tuple(each.value for each in LabCut)
POWER_SCOPES = tuple(each.value for each in PowerScope)
WRITE_CACHES = ("auto", "write back", "write through")
# Mount options that name a device, which mount(8) as root would write to
# (xfs(5), ext4(5)).
_DEVICE_OPTIONS = frozenset({"logdev", "rtdev", "journal_dev", "journal_path"})
XFS_BYTES_MIN = 300 << 20  # mkfs.xfs refuses less
CHANGEABLE = frozenset(  # settings that a running drive can change
    {"flush_ms", "write_ms", "kept_writes", "seed", "forget_at_bytes", "forget_bytes"}
)
TIME_MAX = 60_000  # of each time of a drive, in the unit of its field
MIB = 1 << 20
SECTOR_BYTES = 512

_DriveTime = Annotated[float, Meta(ge=0, le=TIME_MAX)]
_Count = Annotated[int, Meta(ge=0)]
_Sectors = Annotated[int, Meta(ge=0, multiple_of=SECTOR_BYTES)]  # in bytes


@dataclass(frozen=True, slots=True)
class DriveSpec:
    """One virtual drive.

    personality:   a fickle drive draws at each power-on whether it is honest or lying.
                   A lying and a write-through drive answer a flush at once, as they
                   have nothing to wait for; a fickle drive never does, so the time of
                   its answer does not show whether it lies.
    size_bytes:    capacity, a multiple of 1 MiB; memory is used as it is written.
    cache_bytes:   the oldest writes above this size are destaged at once.  A write that
                   is stable before an older one takes room until both are stable.
    kept_writes:   drive/model.py explains each value.
    seed:          decides which writes survive a cut, and when a fickle drive lies.
    newest_bytes:  a flush covers at least one write.

    These faults may be added to any personality; with 0 the drive has no such fault.
    lost_above_bytes: a write-through drive does not make them stable, either.
    tear_bytes:    the blocks count from the start of the drive; a write-through drive
                   does not make the rest of a write stable either.
    forget_bytes:  a cut takes them, however long they were stable.
    """

    personality: Annotated[
        str,
        one_of(PERSONALITIES),
        Setting(
            "--drive",
            help="How the drive handles a flush: as promised, not at all (lying), one "
            "of the two at each power-on (fickle), not at all from some moment on "
            "(failing), for the newest writes only (reordering); write-through needs "
            "none.",
        ),
    ] = "honest"
    size_bytes: Annotated[int, Meta(ge=MIB, multiple_of=MIB)] = 1 << 30
    flush_ms: Annotated[
        _DriveTime,
        Setting(
            "--flush-ms",
            "MS",
            help="Milliseconds that a flush takes, but on a lying or write-through "
            "drive.",
        ),
    ] = 1.0
    write_ms: Annotated[
        _DriveTime, Setting("--write-ms", "MS", help="Milliseconds that a write takes.")
    ] = 0.0
    destage_age_s: Annotated[
        _DriveTime,
        Setting(
            "--destage-s",
            "S",
            help="Seconds after which a cached write is stable; 0: never by itself.",
        ),
    ] = 1.0
    cache_bytes: Annotated[
        int,
        Meta(ge=0),
        Setting(
            "--cache-mib",
            "MIB",
            scale=MIB,
            low=1,
            high=1024,
            help="Size of the drive's volatile cache, in MiB.",
        ),
    ] = 64 * MIB
    kept_writes: Annotated[
        str,
        one_of(KEPT_WRITES),
        Setting(
            "--kept-writes",
            help="Which unflushed writes a cut keeps: none, all, the oldest (prefix), "
            "the newest (suffix), the oldest and a part of the next (torn), all but "
            "one, any whole writes, any pages of 16384 bytes, any blocks of 4096 "
            "bytes, any sectors of 512 bytes (random).",
        ),
    ] = "none"
    seed: int = 0
    lie_fraction: Annotated[
        float,
        Meta(ge=0, le=1),
        Setting(
            "--lie-fraction",
            "SHARE",
            help="Share of its power-ons at which a fickle drive lies.",
        ),
    ] = 0.25
    honest_flushes: Annotated[
        _Count,
        Setting(
            "--honest-flushes",
            help="Flushes that a failing drive honours after each start of the server, "
            "before it lies.",
        ),
    ] = 500
    newest_bytes: Annotated[
        _Count,
        Setting(
            "--newest-bytes",
            "BYTES",
            help="What a reordering drive flushes of the writes since the last flush: "
            "the newest of so many bytes.",
        ),
    ] = 256 << 10
    lost_above_bytes: Annotated[
        _Count,
        Setting(
            "--lost-above",
            "BYTES",
            help="A flush leaves out writes of more than so many bytes, also on a "
            "write-through drive; 0: none.",
        ),
    ] = 0
    tear_bytes: Annotated[
        _Sectors,
        Setting(
            "--tear-at",
            "BYTES",
            help="A flush covers of each write only the first of the drive's blocks of "
            "so many bytes, e.g. 512, 4096 or 16384; 0: all of it.",
        ),
    ] = 0
    forget_at_bytes: Annotated[
        _Sectors,
        Setting(
            "--forget-at", "BYTES", help="Where the range begins that --forget names."
        ),
    ] = 0
    forget_bytes: Annotated[
        _Sectors,
        Setting(
            "--forget",
            "BYTES",
            help="After each cut so many bytes of the drive read as zeros, flushed or "
            "not; 0: none.",
        ),
    ] = 0

    def changed(self, changes: Mapping[str, Any]) -> DriveSpec:
        """Return the spec of this drive, which runs, with these settings changed.

        Raise LabError if a setting is not CHANGEABLE.
        """
        if fixed := changes.keys() - CHANGEABLE:
            raise LabError(
                f"a running drive cannot change its {', '.join(sorted(fixed))}",
                id=ErrorId.DRIVE_SETTING_FIXED,
                hint=f"What can be changed is {', '.join(sorted(CHANGEABLE))}.",
            )
        return dataclasses.replace(self, **changes)

    def __post_init__(self) -> None:
        """Refuse values that no drive could have."""
        require_valid(self, "a drive")
        end = self.forget_at_bytes + self.forget_bytes
        if end > self.size_bytes:
            raise UsageError(
                f"a drive of {self.size_bytes} bytes cannot forget those up to {end}",
                id=ErrorId.DRIVE_RANGE_INVALID,
                hint="Name a range within the drive.",
            )


@dataclass(frozen=True, slots=True)
class LabSpec:
    """One lab: a server, the storage under it and the witness beside it.

    drive:         not used if the cut is "process".
    cut:           drive (a real filesystem on the virtual drive) or process (a plain
                   folder; the cut is SIGKILL and shows only what survives a kill).
    mount_options: an option that names another device is refused.
    write_cache:   "auto" tells the kernel what the drive has.  "write through" stands
                   for a layer between filesystem and drive that swallows the flushes.
    settings:      server settings, name -> value, that override dbcheck's own.
    log_drive:     a second drive has the log; a flush of one leaves the other as it is.
    container:     see servers.container.Container.
    galera:        the server, MariaDB, is a node of a Galera cluster; its settings name
                   the other nodes.
    patroni:       the server, PostgreSQL, is started and promoted by Patroni.
    patroni_4:     that is Patroni 4, and not Debian's.
    network:       the server has a place in a network of its cluster.
    """

    engine: Annotated[str, one_of(ENGINES)]
    cut: Annotated[str, one_of(LAB_CUTS)] = "drive"
    filesystem: Annotated[
        str,
        one_of(FILESYSTEMS),
        Setting("--fs", help="The filesystem on the drive."),
    ] = "xfs"
    mount_options: Annotated[
        str,
        Setting(
            "--mount-options",
            "OPTIONS",
            help="How to mount it, as mount -o takes it, e.g. barrier=0.",
        ),
    ] = ""
    write_cache: Annotated[
        str,
        one_of(WRITE_CACHES),
        Setting(
            "--write-cache",
            help="What the kernel assumes of the drive's cache (queue/write_cache); "
            "with write through it sends no flushes.",
        ),
    ] = "auto"
    drive: DriveSpec = DriveSpec()
    settings: Mapping[str, str] = field(default_factory=dict)
    log_drive: Annotated[
        bool,
        Setting(
            "--log-drive",
            help="Put the server's log (WAL, redo log) on a second such drive, which "
            "has a cache of its own.",
        ),
    ] = False
    power_scope: Annotated[
        str,
        one_of(POWER_SCOPES),
        Setting(
            "--power-scope",
            help="What loses its power: the host, or drive, the drive alone, under a "
            "server that keeps running.",
        ),
    ] = "host"
    container: Annotated[
        str,
        one_of(CONTAINERS),
        Setting(
            "--container",
            help="Run the server in a container: with namespaces of its own, data at a "
            "path that the host does not have, and a published port.  The data are on "
            "a volume, or in the container's writable layer (overlayfs).",
        ),
    ] = NO_CONTAINER
    galera: bool = False
    patroni: bool = False
    patroni_4: bool = False
    network: bool = False

    def __post_init__(self) -> None:
        """Refuse values that no lab has or that contradict, and too small a drive."""
        require_valid(self, "a lab")
        if self.galera and self.engine != "mariadb":
            raise UsageError(
                f"{self.engine} servers are not nodes of a Galera cluster",
                id=ErrorId.TOPOLOGY_NOT_FOR_ENGINE,
                hint="Use the engine mariadb.",
            )
        if self.patroni and self.engine != "postgresql":
            raise UsageError(
                f"Patroni does not manage {self.engine} servers",
                id=ErrorId.TOPOLOGY_NOT_FOR_ENGINE,
                hint="Use the engine postgresql.",
            )
        self._check_drives()
        self._check_mount_options()

    @property
    def contained(self) -> bool:
        """Whether the server is in a container."""
        return self.container != NO_CONTAINER

    def _check_drives(self) -> None:
        if self.log_drive and self.cut != "drive":
            raise UsageError(
                "a lab that kills a process has no virtual drive, so no log drive",
                id=ErrorId.DRIVE_CUT_NEEDED,
                hint="Leave it out, or cut the drive (cut: drive).",
            )
        if self.power_scope == "drive" and self.cut != "drive":
            raise UsageError(
                "a lab that kills a process has no virtual drive that could lose power",
                id=ErrorId.DRIVE_CUT_NEEDED,
                hint="Leave out the power scope, or cut the drive (cut: drive).",
            )
        if self.power_scope == "drive" and self.contained:
            raise UsageError(
                "a drive alone cannot be cut below a server in a container",
                id=ErrorId.CONTAINER_ON_CUT_DRIVE,
                hint="Cut the whole host.",
            )
        small = self.drive.size_bytes < XFS_BYTES_MIN
        if self.cut == "drive" and self.filesystem == "xfs" and small:
            raise UsageError(
                f"a drive of {self.drive.size_bytes // MIB} MiB is too small for xfs",
                id=ErrorId.DRIVE_TOO_SMALL,
                hint=f"Take {XFS_BYTES_MIN // MIB} MiB or more, or ext4.",
            )

    def _check_mount_options(self) -> None:
        if not self.mount_options.isprintable() or {*'"\\'} & {*self.mount_options}:
            raise UsageError(
                f"the mount options {self.mount_options!r} hold a quotation mark, a"
                " backslash or a control character",
                id=ErrorId.LAB_DECIDES_SETTING,
                hint="Leave that character out: mount(8) could take the lab's own"
                " options (nosuid, nodev) for a part of yours.",
            )
        for option in self.mount_options.split(","):
            if option.partition("=")[0].strip() in _DEVICE_OPTIONS:
                raise UsageError(
                    f"the mount option {option} names a device that is not the lab's",
                    id=ErrorId.LAB_DECIDES_SETTING,
                    hint="Leave it out: a lab uses its own drives alone.",
                )

    def to_values(self) -> dict[str, Any]:
        """Return the spec as plain values."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Return the spec as JSON."""
        return json.dumps(self.to_values())

    @classmethod
    def from_json(cls, text: str) -> LabSpec:
        """Return the spec that to_json wrote."""
        values: dict[str, Any] = json.loads(text)
        return cls(**{**values, "drive": DriveSpec(**values["drive"])})
