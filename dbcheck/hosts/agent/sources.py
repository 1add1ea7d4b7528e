"""Finds the block devices that a filesystem is made of.

This file is sent to the target's host, see serve.py: Python 3.8, no more than the
standard library and remote/wire.py.

The number of a filesystem's device (stat(2), st_dev) names the one that it was mounted
from, also where udev gave that another name since, and where the kernel calls it
/dev/root.  Btrfs and bcachefs lie on several devices, and have numbers that name none.
Of such a filesystem all are known, or none: one that is missing in a list would count
as one that holds nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct

BLOCK = "/sys/class/block"
NUMBERED = "/sys/dev/block"
BTRFS = "/sys/fs/btrfs"
# linux/btrfs.h: BTRFS_IOC_FS_INFO gives the highest id of a device, how many there are,
# and the filesystem's UUID.
FS_INFO, FS_INFO_BYTES, FS_INFO_HEAD = 0x8400941F, 1024, "=8xQ16s"
# Between the devices of bcachefs, as in /dev/sda:/dev/sdb (fs/bcachefs/fs.c,
# bch2_show_devname).  Names below /dev/disk/by-path have colons as well.
BETWEEN = re.compile(r":(?=/)")


def sources(mount: dict[str, str], number: str, path: str) -> tuple[list[str], str]:
    """Return the sysfs folders of a filesystem's devices, or [] and why.

    mount: as mount_of() returns it.  number: of its device, MAJOR:MINOR.  path: of a
    folder on it.
    """
    kind, source = mount["type"] or "unknown", mount["source"]
    if kind == "btrfs":
        return btrfs(source, (path, mount["point"]))
    link = os.path.join(NUMBERED, number)
    if os.path.exists(link):
        return [os.path.realpath(link)], ""
    # Whoever mounts a FUSE filesystem names its source.
    if source.startswith("/dev/") and not kind.startswith("fuse"):
        return named(kind, source)
    return [], f"{kind} on {source or '?'}: no block device found"


def named(kind: str, source: str) -> tuple[list[str], str]:
    """Do what sources() does, by the names in the table of mounts."""
    found = []
    for device in BETWEEN.split(source):
        folder = block_folder(device)
        if not folder:
            return [], f"{kind} on {source}: no block device {device} found"
        found.append(folder)
    return list(dict.fromkeys(found)), ""


def btrfs(source: str, paths: tuple[str, ...]) -> tuple[list[str], str]:
    """Do what sources() does; paths: folders on it, of which one can be opened."""
    about = f"btrfs on {source}"
    filesystem, count = "", 0
    for path in paths:
        with contextlib.suppress(OSError):
            filesystem, count = btrfs_id(path)
            break
    if not filesystem:
        filesystem = btrfs_of(os.path.basename(block_folder(source)))
    folder = os.path.join(BTRFS, filesystem, "devices")
    try:
        names = sorted(os.listdir(folder)) if filesystem else []
    except OSError as error:
        return [], f"{about}: {folder}: {error.strerror}"
    if not names:
        return [], f"{about}: no block device found"
    if count > len(names):
        return [], f"{about}: {len(names)} of its {count} devices are there"
    return [os.path.realpath(os.path.join(folder, name)) for name in names], ""


def btrfs_id(path: str) -> tuple[str, int]:
    """Return the UUID of a Btrfs, and how many devices it has; raise OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(path, flags)
    try:
        info = fcntl.ioctl(folder, FS_INFO, bytes(FS_INFO_BYTES))
    finally:
        os.close(folder)
    count, name = struct.unpack_from(FS_INFO_HEAD, info)
    return re.sub("(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-", name.hex()), count


def btrfs_of(device: str) -> str:
    """Return the UUID of the mounted Btrfs that a device is a part of, "" if none."""
    with contextlib.suppress(OSError):  # there is none in this kernel
        for name in os.listdir(BTRFS):
            if device and os.path.exists(os.path.join(BTRFS, name, "devices", device)):
                return name
    return ""


def block_folder(device: str) -> str:
    """Return the sysfs folder of a device, by its path or name; "" if there is none."""
    with contextlib.suppress(OSError):  # not in every container's /dev
        number = os.stat(device).st_rdev if device.startswith("/") else 0
        link = os.path.join(NUMBERED, f"{os.major(number)}:{os.minor(number)}")
        if number and os.path.exists(link):
            return os.path.realpath(link)
    folder = os.path.join(BLOCK, os.path.basename(os.path.realpath(device)))
    return os.path.realpath(folder) if os.path.exists(folder) else ""
