"""Drives by their serials, and the filesystems that are mounted from them.

A drive may have another name after a power cut, so drives are found by their serials.
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

from dbcheck.agent.host.container import find_contained_servers, shares_folder
from dbcheck.agent.host.devices import (
    BTRFS,
    DEVICE_SEPARATOR,
    find_block_folder,
    read_scsi_serial,
)
from dbcheck.agent.host.mounts import (
    Mounted,
    explain_exposure,
    read_mounts,
    resolve_links,
)
from dbcheck.agent.host.servers import find_server_processes
from dbcheck.agent.host.tools import BLOCK
from dbcheck.agent.wire import Refusal, read_first_line, read_lines, unescape

SWAPS = "/proc/swaps"
# Filesystem -> its driver, which has a folder for it in /sys while the kernel holds the
# filesystem in memory (Documentation/ABI/testing/sysfs-fs-xfs, sysfs-fs-ext4).
DRIVERS_IN_SYS = {"xfs": "xfs", "ext4": "ext4", "ext3": "ext4", "ext2": "ext4"}
FILESYSTEMS_IN_SYS = "/sys/fs"
POLL_S = 0.01
GONE_ID = -2  # this and lower ids are of no mount; -1 stands for an unknown id
# linux/loop.h: LOOP_GET_STATUS64 gives device and inode of the file behind it first.
LOOP_GET_STATUS64, LOOP_INFO_BYTES = 0x4C05, 232


def find_drives(serials: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of the drives, not partitions, that have each serial."""
    names_by_serial: dict[str, list[str]] = {serial: [] for serial in serials}
    for name in sorted(os.listdir(BLOCK)):
        for serial in list_serials(name).intersection(names_by_serial):
            names_by_serial[serial].append(name)
    return names_by_serial


def list_serials(name: str) -> set[str]:
    """List the serials and ids of a drive, which stay when its name changes.

    These are the serial of NVMe, virtio, and SCSI with libata (page 0x80), the WWID,
    and the backing file of a loop device.  A partition has none, nor has a component of
    a multipath device, such as nvme0c0n1, which cannot be opened
    (Documentation/ABI/stable/sysfs-block, hidden).
    """
    folder = os.path.join(BLOCK, name)
    if os.path.exists(os.path.join(folder, "partition")):
        return set()
    if read_first_line(os.path.join(folder, "hidden")) == "1":
        return set()
    files = ("device/serial", "serial", "device/wwid", "wwid")
    serials = {read_first_line(os.path.join(folder, file)).strip() for file in files}
    serials.add(read_scsi_serial(os.path.join(folder, "device")))
    if os.path.exists(os.path.join(folder, "loop")):
        serials.add(identify_loop_file(name))
    return serials - {""}


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
    """Wait until all drives are *present*, or none is; return find_drives()."""
    ends_s = time.monotonic() + time_s
    while True:
        names_by_serial = find_drives(serials)
        if all(bool(names) == present for names in names_by_serial.values()):
            return names_by_serial
        if time.monotonic() >= ends_s:
            return names_by_serial
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
    parts = []
    for serial, drives in find_drives(serials).items():
        for drive in drives:
            folder = os.path.realpath(os.path.join(BLOCK, drive))
            partitions = [
                name
                for name in sorted(os.listdir(folder))
                if os.path.exists(os.path.join(folder, name, "partition"))
            ]
            parts += [Part(serial, drive, name) for name in (drive, *partitions)]
    return parts


def find_device_at(path: str) -> str:
    """Return the device of *path*, or of the folder that it would be made in."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    status = os.stat(path)
    return f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"


def survey(
    serials: Sequence[str], directory: str, places: Sequence[str], notes: str
) -> dict[str, Any]:
    """Survey the mounts and other users of the drives.

    directory: the server's data directory.  places: the directories that an ack depends
    on.  notes: the folder of the notes (remount.py).
    Return busy: the users of the drives other than mounts, and mounts that cannot be
    put back; twins: drives with the same serial; exposed: why another account could
    exchange a mount point or a note.
    Raise OSError if the directory does not exist.
    """
    parts = list_parts(serials)
    by_device = {part.device: part for part in parts}
    by_name = {part.name: part for part in parts}
    twins = [
        f"{part.name} and {other.name} have the serial {part.serial}"
        for part, other in itertools.combinations(parts, 2)
        if part.place == other.place
    ]
    mounts = [
        describe_mount(by_device[mount.device], mount)
        for mount in read_mounts()
        if mount.device in by_device
    ]
    busy = [f"{p.name} is a part of {', '.join(p.holders)}" for p in parts if p.holders]
    # A lazy unmount also detaches the mounts below (umount2(2), MNT_DETACH).
    busy += [
        f"{other.point} is mounted below {mount['point']}"
        for mount in mounts
        for other in read_mounts()
        if other.device not in by_device
        and other.point.startswith(mount["point"].rstrip("/") + "/")
    ]
    busy += [
        f"{other.source} is mounted over {mount['point']}"
        for mount in mounts
        for other in read_mounts()
        if (other.parent, other.point) == (mount["id"], mount["point"])
    ]
    busy += find_idmapped_mounts(by_device)
    busy += find_multi_device_parts(by_name)
    busy += find_swaps(by_name)
    busy += find_server_in_container(directory)
    real_path = os.path.realpath(directory)
    status = os.stat(real_path)
    return {
        "root": os.geteuid() == 0,
        "drives": find_drives(serials),
        "twins": twins,
        "mounts": mounts,
        "busy": busy,
        "directory": real_path,
        "places": [real_path, *map(os.path.realpath, filter(os.path.isabs, places))],
        "account": find_account(real_path),
        "folder": [status.st_dev, status.st_ino],
        "on_them": find_device_at(real_path) in by_device,
        **_survey_paths(mounts, notes, by_device),
    }


def find_account(directory: str) -> int:
    """Return the directory's owner as its server finds it, else as this host does.

    A service may have a mount of it that shows another owner.
    """
    for process in find_server_processes(directory):
        with contextlib.suppress(OSError):  # it ended
            return os.stat(process + "/cwd").st_uid
    return os.stat(directory).st_uid


def find_idmapped_mounts(devices: Container[str]) -> list[str]:
    """Describe mounts that show other owners: put_back() would show the real ones."""
    return [
        f"{mount.point} shows files under other owners (idmapped)"
        for mount in read_mounts()
        if mount.device in devices and mount.is_idmapped
    ]


def find_swaps(names: Container[str]) -> list[str]:
    """Describe the devices *names* that are swapped to."""
    lines = list(read_lines(SWAPS))[1:]
    paths = (os.path.realpath(unescape(line.split()[0])) for line in lines)
    found = filter(names.__contains__, map(os.path.basename, paths))
    return [f"{name} is swapped to" for name in found]


def find_server_in_container(directory: str) -> list[str]:
    """Describe the servers with this data directory, if all are in containers."""
    contained, _ = find_contained_servers(directory)
    shared = [each for each in contained if shares_folder(each, directory)]
    if any(find_server_processes(directory)):
        contained = shared
    return [f"a server (process {each}) runs in a container" for each in contained]


def find_multi_device_parts(names: Container[str]) -> list[str]:
    """Describe the devices *names* that are parts of a filesystem of several devices.

    Such a mount has a device number of its own, so survey() does not find it.
    """
    descriptions = {}
    with contextlib.suppress(OSError):  # this kernel has no Btrfs
        for filesystem in os.listdir(BTRFS):
            folder = os.path.join(BTRFS, filesystem, "devices")
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                descriptions[name] = f"{name} is a part of btrfs {filesystem}"
    for mount in read_mounts():
        if mount.device.startswith("0:") and not mount.type.startswith("fuse"):
            for device in DEVICE_SEPARATOR.split(mount.source):
                if device.startswith("/dev/"):
                    name = os.path.basename(find_block_folder(device))
                    descriptions.setdefault(
                        name, f"{name} is a part of {mount.type} on {mount.point}"
                    )
    return [text for name, text in descriptions.items() if name in names]


def _survey_paths(
    mounts: Sequence[dict[str, Any]], notes: str, devices: Container[str]
) -> dict[str, Any]:
    """Survey the paths that root uses around the cut."""
    links, real_folder = resolve_links(notes)
    note = (
        os.path.join(real_folder, "drives-*.json")
        if os.path.lexists(real_folder)
        else real_folder
    )
    used_paths = [*(mount["point"] for mount in mounts), *links, note]
    is_on_drives = any(
        find_device_at(path) in devices
        for path in (real_folder, *map(os.path.dirname, links))
    )
    return {
        "exposed": [why for path in used_paths if (why := explain_exposure(path))],
        "notes_on_them": notes if is_on_drives else "",
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

    It may be mounted nowhere any more, and still be used by an open file.
    """
    return kind in DRIVERS_IN_SYS and os.path.isdir(
        os.path.join(FILESYSTEMS_IN_SYS, DRIVERS_IN_SYS[kind], name)
    )


def find_device_of_mount(mount: dict[str, Any]) -> str:
    """Return the device that now has the filesystem of *mount*, "" if there is none.

    Raise Refusal if several devices may have it.
    """
    place = (mount["serial"], mount["nsid"], mount["number"])
    paths = [
        path
        for part in list_parts([mount["serial"]])
        if part.place == place and os.path.exists(path := "/dev/" + part.name)
    ]
    if len(paths) > 1:
        text = "{} have the serial {}".format(" and ".join(paths), mount["serial"])
        raise Refusal("device", text)
    for path in paths:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            raise Refusal("device", path + " is not a block device")
    return paths[0] if paths else ""
