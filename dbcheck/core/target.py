"""What is known of the target's host, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbcheck.core.depth import Remains


@dataclass(frozen=True, slots=True)
class Layer:
    """One block device under the data directory.

    kind:        disk, partition, dm, md or loop.
    write_cache: what the kernel believes, "write back" or "write through"; without
                 the former it sends no flush.
    below:       the devices that this one is made of; () for a drive.
    """

    name: str
    kind: str
    dm_name: str
    dm_uuid: str
    backing_file: str
    write_cache: str
    fua: str
    below: tuple[str, ...]


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


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The target's host and what its data directory lies on.

    clock_us:   the host's clock, microseconds since the epoch.
    uptime_s:   since its kernel started, in seconds; None if unknown.
    made:       inode and birth of the data directory (".") and of files that a
                server never replaces, by name.
    layers:     from the device that is mounted down to the drives.
    unreadable: fact -> why it could not be read; such a fact is "" or None.
    """

    hostname: str
    machine_id: str
    boot_id: str
    addresses: frozenset[str]
    clock_us: int
    uptime_s: float | None
    data_directory: str
    made: Mapping[str, str]
    mount_point: str
    filesystem: str
    mount_options: str
    source: str
    filesystem_uuid: str
    layers: tuple[Layer, ...]
    drives: tuple[Drive, ...]
    unreadable: Mapping[str, str]

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> TargetFacts:
        """Return the facts that dataclasses.asdict(), or the host's agent, gave."""
        layers = (
            Layer(**{**layer, "below": tuple(layer["below"])})
            for layer in values["layers"]
        )
        changed = {
            "addresses": frozenset(values["addresses"]),
            "layers": tuple(layers),
            "drives": tuple(Drive(**drive) for drive in values["drives"]),
        }
        return cls(**{**values, **changed})


@dataclass(frozen=True, slots=True)
class LogTail:
    """What a server logged since a mark.

    truncated: there was more.  rewound: a log is shorter than it was at the mark,
    so the text may begin with older lines.
    """

    text: str
    truncated: bool
    rewound: bool


LogMarks = Mapping[str, Sequence[int]]  # path -> inode, size


@dataclass(frozen=True, slots=True)
class HostBefore:
    """What the target's host told before the load.

    canary_folder, canary_nonce: where the canaries write, and what names them.
    log_path: of the server's log, "" if nobody named it; log_marks: where it ended.
    """

    facts: TargetFacts
    canary_folder: str
    canary_nonce: str
    log_path: str
    log_marks: LogMarks


@dataclass(frozen=True, slots=True)
class HostAfter:
    """What the target's host told after recovery; None where it could not.

    failure: why the first thing that failed did so, "" if nothing did.
    """

    facts: TargetFacts | None
    remains: Remains | None
    log: LogTail | None
    failure: str
