"""Drives by their serials, and the filesystems that are mounted from them.

A drive may have another name once it had no power, so none is known by its name.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import stat
import struct
import time
from collections.abc import Container, Sequence
from typing import Any

from dbcheck.agent.host.devices import (
    BETWEEN,
    BLOCK,
    BTRFS,
    find_block_folder,
    read_scsi_serial,
)
from dbcheck.agent.host.mounts import (
    Mounted,
    explain_exposure,
    read_mounts,
    resolve_links,
)
from dbcheck.agent.wire import Refusal, read_first_line, read_lines, unescape

SWAPS = "/proc/swaps"
# The filesystems of which the kernel shows, by a folder, that it holds one in memory
# (Documentation/ABI/testing/sysfs-fs-xfs, sysfs-fs-ext4), and the driver's name.
HELD = {"xfs": "xfs", "ext4": "ext4", "ext3": "ext4", "ext2": "ext4"}
HELD_IN = "/sys/fs"
POLL_S = 0.01
GONE_ID = -2  # and below: ids that no mount has, nor one that is not known (-1)
# linux/loop.h: LOOP_GET_STATUS64 gives device and inode of the file behind it first.
LOOP_GET_STATUS64, LOOP_INFO_BYTES = 0x4C05, 232


def find_drives(serials: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of the drives, not partitions, that have each serial."""
    found: dict[str, list[str]] = {serial: [] for serial in serials}
    for name in sorted(os.listdir(BLOCK)):
        for serial in list_serials(name).intersection(found):
            found[serial].append(name)
    return found


def list_serials(name: str) -> set[str]:
    """List the serials and ids of a drive, which stay when its name changes.

    That is the serial of NVMe and virtio, of SCSI and so of libata (page 0x80), the
    WWID, and of a loop device the file behind it.  A partition has none, and none has
    a component of a multipath device, such as nvme0c0n1, which cannot be opened
    (Documentation/ABI/stable/sysfs-block, hidden).
    """
    folder = os.path.join(BLOCK, name)
    if os.path.exists(os.path.join(folder, "partition")):
        return set()
    if read_first_line(os.path.join(folder, "hidden")) == "1":
        return set()
    files = ("device/serial", "serial", "device/wwid", "wwid")
    found = {read_first_line(os.path.join(folder, file)).strip() for file in files}
    found.add(read_scsi_serial(os.path.join(folder, "device")))
    if os.path.exists(os.path.join(folder, "loop")):
        found.add(identify_loop_file(name))
    return found - {""}


def identify_loop_file(name: str) -> str:
    """Return "loop:DEVICE:INODE" of the file behind a loop device, "" if none is."""
    try:
        descriptor = os.open("/dev/" + name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        info = fcntl.ioctl(descriptor, LOOP_GET_STATUS64, bytes(LOOP_INFO_BYTES))
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return "loop:{}:{}".format(*struct.unpack_from("<QQ", info))


def await_drives(
    serials: Sequence[str], present: bool, time_s: float
) -> dict[str, list[str]]:
    """Wait until all drives are there, or none; return find_drives()."""
    ends_s = time.monotonic() + time_s
    while True:
        found = find_drives(serials)
        if all(bool(names) == present for names in found.values()):
            return found
        if time.monotonic() >= ends_s:
            return found
        time.sleep(POLL_S)


class Part:
    """A block device on a drive: the drive itself, or one of its partitions.

    number: of the partition, 0 for the drive.  nsid: of an NVMe drive's namespace.
    """

    def __init__(self, serial: str, drive: str, name: str) -> None:
        self.serial, self.name = serial, name
        folder = os.path.join(BLOCK, name)
        self.number = read_first_line(os.path.join(folder, "partition")) or "0"
        self.nsid = read_first_line(os.path.join(BLOCK, drive, "nsid"))
        self.device = read_first_line(os.path.join(folder, "dev"))
        holders = os.path.join(folder, "holders")
        self.holders = os.listdir(holders) if os.path.isdir(holders) else []

    @property
    def place(self) -> tuple[str, str, str]:
        """Serial, namespace and partition: its identity under any name."""
        return self.serial, self.nsid, self.number


def list_parts(serials: Sequence[str]) -> list[Part]:
    """Return all block devices on the drives that have these serials."""
    found = []
    for serial, drives in find_drives(serials).items():
        for drive in drives:
            folder = os.path.realpath(os.path.join(BLOCK, drive))
            inside = [
                name
                for name in sorted(os.listdir(folder))
                if os.path.exists(os.path.join(folder, name, "partition"))
            ]
            found += [Part(serial, drive, name) for name in (drive, *inside)]
    return found


def find_device_at(path: str) -> str:
    """Return the device of *path*, or of the folder that it would be made in."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    status = os.stat(path)
    return f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"


def survey(
    serials: Sequence[str], directory: str, places: Sequence[str], notes: str
) -> dict[str, Any]:
    """Survey what depends on the drives: mounts, and what else uses them.

    directory: the server's data directory.  places: all that an ack depends on.  notes:
    the folder of the notes (remount.py).  busy: what uses the drives otherwise than by
    a mount.  twins: drives that have one serial.  exposed: why another account could
    put something else where one is mounted, or among the notes.
    Raise OSError if the directory does not exist.
    """
    there = list_parts(serials)
    by_device = {part.device: part for part in there}
    by_name = {part.name: part for part in there}
    twins = [
        f"{one.name} and {other.name} have the serial {one.serial}"
        for one, other in itertools.combinations(there, 2)
        if one.place == other.place
    ]
    mounts = [
        describe_mount(by_device[each.device], each)
        for each in read_mounts()
        if each.device in by_device
    ]
    busy = [f"{p.name} is a part of {', '.join(p.holders)}" for p in there if p.holders]
    # A lazy unmount would take what is mounted below along (umount2(2), MNT_DETACH).
    busy += [
        f"{other.point} is mounted below {each['point']}"
        for each in mounts
        for other in read_mounts()
        if other.device not in by_device
        and other.point.startswith(each["point"].rstrip("/") + "/")
    ]
    busy += [
        f"{other.source} is mounted over {each['point']}"
        for each in mounts
        for other in read_mounts()
        if (other.parent, other.point) == (each["id"], each["point"])
    ]
    busy += find_multi_device_parts(by_name)
    for line in list(read_lines(SWAPS))[1:]:
        name = os.path.basename(os.path.realpath(unescape(line.split()[0])))
        if name in by_name:
            busy.append(f"{name} is swapped to")
    real = os.path.realpath(directory)
    status = os.stat(real)
    return {
        "root": os.geteuid() == 0,
        "drives": find_drives(serials),
        "twins": twins,
        "mounts": mounts,
        "busy": busy,
        "directory": real,
        "places": [real, *map(os.path.realpath, filter(os.path.isabs, places))],
        "account": status.st_uid,
        "folder": [status.st_dev, status.st_ino],
        "on_them": find_device_at(real) in by_device,
        **_survey_paths(mounts, notes, by_device),
    }


def find_multi_device_parts(names: Container[str]) -> list[str]:
    """Return those devices that carry a filesystem of several devices.

    Its number names none of them, so it is not among the mounts from them.
    """
    found = {}
    with contextlib.suppress(OSError):  # this kernel has no Btrfs
        for filesystem in os.listdir(BTRFS):
            folder = os.path.join(BTRFS, filesystem, "devices")
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                found[name] = f"{name} is a part of btrfs {filesystem}"
    for each in read_mounts():
        if each.device.startswith("0:") and not each.type.startswith("fuse"):
            for device in BETWEEN.split(each.source):
                if device.startswith("/dev/"):
                    name = os.path.basename(find_block_folder(device))
                    found.setdefault(
                        name, f"{name} is a part of {each.type} on {each.point}"
                    )
    return [text for name, text in found.items() if name in names]


def _survey_paths(
    mounts: Sequence[dict[str, Any]], notes: str, devices: Container[str]
) -> dict[str, Any]:
    """Survey the paths that root uses around the cut."""
    links, real = resolve_links(notes)
    note = os.path.join(real, "drives-*.json") if os.path.lexists(real) else real
    used = [*(each["point"] for each in mounts), *links, note]
    on_them = any(
        find_device_at(each) in devices for each in (real, *map(os.path.dirname, links))
    )
    return {
        "exposed": [why for path in used if (why := explain_exposure(path))],
        "notes_on_them": notes if on_them else "",
    }


def describe_mount(part: Part, mount: Mounted) -> dict[str, Any]:
    """Return one mount as plain values, with all that put_back() needs."""
    return {
        "id": mount.id,
        "point": mount.point,
        "inner": mount.root,
        "type": mount.type,
        "options": mount.options,
        "serial": part.serial,
        "nsid": part.nsid,
        "number": part.number,
        "name": part.name,
        "device": part.device,
        "shown": is_held(mount.type, part.name),
    }


def is_held(kind: str, name: str) -> bool:
    """Return True if the kernel holds a filesystem of that device in memory.

    Also one that is mounted nowhere any more, but is used by an open file.
    """
    return kind in HELD and os.path.isdir(os.path.join(HELD_IN, HELD[kind], name))


def find_device_of_mount(mount: dict[str, Any]) -> str:
    """Return the device that now holds what was mounted, "" without any.

    Raise Refusal if several might.
    """
    place = (mount["serial"], mount["nsid"], mount["number"])
    found = [
        path
        for part in list_parts([mount["serial"]])
        if part.place == place and os.path.exists(path := "/dev/" + part.name)
    ]
    if len(found) > 1:
        text = "{} have the serial {}".format(" and ".join(found), mount["serial"])
        raise Refusal("device", text)
    for path in found:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            raise Refusal("device", path + " is not a block device")
    return found[0] if found else ""
