"""Counts the cores that this process may use, which may be fewer than the machine has.

A scheduler's affinity (taskset, a cpuset) takes cores away, and the quota of a control
group takes time on them: a container with two of 64 cores sees all 64, and is held back
once its processes have used two cores' worth of time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ROOT = Path("/")
_UNIFIED, _LEGACY = "cgroup2", "cgroup"  # filesystems of cgroups v2 and v1


def count_free_cores(root: Path = _ROOT) -> int:
    """Return the number of whole cores that this process may use, at least 1.

    root: the folder that holds proc and sys.  What cannot be read there limits nothing.
    """
    cores = float(_count_assigned_cores())
    for folder in _list_cpu_groups(root):
        cores = min([cores, *_read_quotas(folder)])
    return max(1, int(cores))


def _count_assigned_cores() -> int:
    """Return the number of cores that the scheduler gives to this process.

    macOS has no affinity.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _list_cpu_groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that this process is in, and of theirs.

    A group is held to the quotas of all groups around it (cgroups(7)).  A container
    may see only its own groups, mounted in the place of the machine's.
    """
    groups = dict(_read_groups(root))
    for kind, mounted_group, point in _read_mounts(root):
        if (group := groups.get(kind)) is None:
            continue
        folder = root / point.lstrip("/")
        try:
            inside = PurePosixPath(group).relative_to(mounted_group)
        except ValueError:  # the mount shows other groups, among them this container's
            inside = PurePosixPath()
        if ".." in inside.parts:
            inside = PurePosixPath()
        yield folder
        for part in inside.parts:
            folder /= part
            yield folder


def _read_groups(root: Path) -> Iterator[tuple[str, str]]:
    """Yield this process's group of each kind of filesystem: /proc/self/cgroup.

    Its lines are "number:controllers:group", without controllers in version 2.
    """
    for line in _read_lines(root / "proc/self/cgroup"):
        _, controllers, group, *_ = (*line.split(":", 2), "", "")
        if not controllers:
            yield _UNIFIED, group
        elif "cpu" in controllers.split(","):
            yield _LEGACY, group


def _read_mounts(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the filesystems with quotas of cores: kind, group and point of each mount.

    Of /proc/self/mountinfo (proc(5)): "... group point options - kind source options".
    """
    for line in _read_lines(root / "proc/self/mountinfo"):
        mount, _, filesystem = line.partition(" - ")
        fields = mount.split()
        kind, _, options, *_ = (*filesystem.split(), "", "", "")
        is_ours = kind == _UNIFIED or (kind == _LEGACY and "cpu" in options.split(","))
        if is_ours and len(fields) > 4:
            yield kind, fields[3], fields[4]


def _read_quotas(folder: Path) -> Iterator[float]:
    """Yield how many cores' time the group of *folder* may use, if it is limited."""
    for line in _read_lines(folder / "cpu.max"):  # "max 100000", "200000 100000"
        yield from _divide(*line.split())
    quotas = _read_lines(folder / "cpu.cfs_quota_us")  # -1 without a limit
    periods = _read_lines(folder / "cpu.cfs_period_us")
    for quota, period in zip(quotas, periods, strict=False):
        yield from _divide(quota, period)


def _divide(quota: str = "", period: str = "", *_: str) -> Iterator[float]:
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        yield int(quota) / int(period)


def _read_lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
