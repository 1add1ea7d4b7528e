"""What a lab is made of, as plain values that can be written to a file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbcheck.errors import UsageError

ENGINES = ("postgresql", "mariadb", "mysql")
FILESYSTEMS = ("xfs", "ext4")
PERSONALITIES = ("honest", "lying", "fickle", "write-through")
SURVIVORS = ("none", "all", "prefix", "torn", "writes", "blocks", "random")
RUNGS = ("drive", "process")
WRITE_CACHES = ("auto", "write back", "write through")
XFS_BYTES_MIN = 300 << 20  # mkfs.xfs refuses less
TIME_MAX = 60_000  # of a drive, in the unit of each


def _require(value: str, allowed: tuple[str, ...], what: str) -> None:
    if value not in allowed:
        raise UsageError(
            f"no {what} is called {value!r}", hint=f"Known are {', '.join(allowed)}."
        )


def _require_number(value: object, most: float, what: str) -> None:
    """Refuse what is no number of 0 to *most*; NaN is none."""
    if type(value) not in (int, float) or not 0 <= value <= most:  # type: ignore[operator]
        raise UsageError(
            f"{what} cannot be {value!r}", hint=f"Give a number from 0 to {most:g}."
        )


@dataclass(frozen=True, slots=True)
class DriveSpec:
    """One virtual drive.

    personality:   honest (a flush makes every earlier write stable), lying (a
                   flush is answered and ignored), fickle (at each power-on it draws
                   which of the two it is), write-through (no volatile cache).
    size_bytes:    capacity, a multiple of 1 MiB; memory is used as it is written.
    flush_ms, write_ms: how long a flush, a write takes, in milliseconds, at most
                   TIME_MAX, as destage_age_s.  A lying
                   and a write-through drive have nothing to wait for and answer a
                   flush at once; a fickle one never shows by it what it is.
    destage_age_s: a cached write becomes stable after so many seconds; 0 = never.
    cache_bytes:   more than this is destaged at once, oldest first.
    survivors:     what a cut leaves of the cached writes, a kind of SURVIVORS
                   (drive_survivors.py says what each is).
    seed:          decides what survives, and what a fickle drive is.
    lie_fraction:  share of its power-ons, 0 to 1, at which a fickle drive lies.
    """

    personality: str = "honest"
    size_bytes: int = 1 << 30
    flush_ms: float = 1.0
    write_ms: float = 0.0
    destage_age_s: float = 1.0
    cache_bytes: int = 64 << 20
    survivors: str = "none"
    seed: int = 0
    lie_fraction: float = 0.25

    def __post_init__(self) -> None:
        """Refuse values that no drive could have."""
        _require(self.personality, PERSONALITIES, "drive")
        _require(self.survivors, SURVIVORS, "kind of survivors")
        for name in ("size_bytes", "cache_bytes", "seed"):
            if type(value := getattr(self, name)) is not int:
                raise UsageError(f"a drive's {name} is a whole number, not {value!r}")
        if self.size_bytes <= 0 or self.size_bytes % (1 << 20):
            raise UsageError(
                f"a drive of {self.size_bytes} bytes is not a multiple of 1 MiB"
            )
        if self.cache_bytes < 0:
            raise UsageError("a drive's cache cannot be smaller than nothing")
        for name in ("flush_ms", "write_ms", "destage_age_s"):
            _require_number(getattr(self, name), TIME_MAX, f"a drive's {name}")
        what = "the share of its power-ons at which a drive lies"
        _require_number(self.lie_fraction, 1, what)


@dataclass(frozen=True, slots=True)
class LabSpec:
    """One lab: a server, the storage under it and the witness beside it.

    drive:         of no consequence on the rung called process.
    rung:          drive (a real filesystem on the virtual drive) or process (a
                   plain folder; the cut is SIGKILL and proves no more than that).
    mount_options: as mount -o takes them, e.g. "barrier=0".
    write_cache:   what the kernel is told of the drive's cache (queue/write_cache):
                   auto is the truth.  With "write through" it sends no flushes, as
                   when a layer between filesystem and drive swallows them.
    settings:      server settings, name -> value, over dbcheck's durable ones.
    """

    engine: str
    rung: str = "drive"
    filesystem: str = "xfs"
    mount_options: str = ""
    write_cache: str = "auto"
    drive: DriveSpec = DriveSpec()
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names that mean nothing, and a drive that is too small."""
        _require(self.engine, ENGINES, "engine")
        _require(self.rung, RUNGS, "rung")
        _require(self.filesystem, FILESYSTEMS, "filesystem")
        _require(self.write_cache, WRITE_CACHES, "write cache")
        small = self.drive.size_bytes < XFS_BYTES_MIN
        if self.rung == "drive" and self.filesystem == "xfs" and small:
            raise UsageError(
                f"a drive of {self.drive.size_bytes >> 20} MiB is too small for xfs",
                hint=f"Take {XFS_BYTES_MIN >> 20} MiB or more, or ext4.",
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
