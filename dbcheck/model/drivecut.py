"""What a host that kept running showed of a cut of its drives alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CutDrive:
    """One drive that lost its power.

    names:       the block devices that had its serial before the cut, by the kernel's
                 names; several if it has several paths.
    gone:        the host had no such block device just before the power came back.
    names_after: the same of those that had the serial once the power was back; () if
                 none had.
    """

    names: tuple[str, ...]
    gone: bool
    names_after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remounted:
    """One filesystem on these drives.

    taken_off: the host held it in memory no more, mounted or not, before the power came
               back.  lazily: it was detached while something still used it.
    checked:   what the check of the filesystem printed, "" if none ran.
    mounted_on: the device that it was mounted from once the drive was back, by the
               kernel's name; "" if it was not.
    """

    point: str
    filesystem: str
    serial: str
    taken_off: bool
    lazily: bool
    checked: str
    mounted_on: str


@dataclass(frozen=True, slots=True)
class DriveCut:
    """What the host's agent saw, from the cut until the server was started again.

    drives:  by serial.
    gone_us: when the host was first seen without any of them, on the client's clock in
             microseconds; None if that was not seen before the server was ended.
    killed:  the server's processes that were there when it was to be killed.
    left:    those that were still there when its filesystem was taken off.
    failure: why a filesystem did not come back, "" if each did.
    not_started: how the command failed that starts the server, "" if it did not.
    """

    drives: Mapping[str, CutDrive]
    mounts: tuple[Remounted, ...]
    gone_us: int | None
    killed: tuple[int, ...]
    left: tuple[int, ...]
    failure: str = ""
    not_started: str = ""
