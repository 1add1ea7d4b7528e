"""Finds the block devices of a filesystem, and which of them are not real drives.

The number of a filesystem's device (stat(2), st_dev) names the one that it was mounted
from, also where udev gave that another name since, and where the kernel calls it
/dev/root.  Btrfs and bcachefs lie on several devices, and have numbers that name none.
Of such a filesystem all are known, or none: one that is missing in a list would count
as one that holds nothing.

Devices that look like drives may be made by another system or by the kernel.  A
hypervisor and a storage server may hold what such a device completed in their own page
cache, so that its loss shows nothing about a drive behind them.

Devices that hold a part of a filesystem may take no file.  An ack depends on a
filesystem's journal wherever that is.  XFS names its devices among the mount options
(xfs(5), logdev and rtdev).  ext4 does not, however it was mounted (seen on Linux 6.18):
each journal has a folder in /proc/fs/jbd2, named by its device, and by its inode too
where it is a file of the filesystem ("sda1-8"; fs/jbd2/journal.c,
jbd2_journal_init_inode); its thread bears the same name after "jbd2/", and
/sys/fs/ext4/DEVICE/journal_task has the number of that thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import re
import struct

from dbcheck.agent.wire import first_line, unescape

BLOCK = "/sys/class/block"
NUMBERED = "/sys/dev/block"
BTRFS = "/sys/fs/btrfs"
# linux/btrfs.h: BTRFS_IOC_FS_INFO gives the highest id of a device, how many there are,
# and the filesystem's UUID.
FS_INFO, FS_INFO_BYTES, FS_INFO_HEAD = 0x8400941F, 1024, "=8xQ16s"
# Between the devices of bcachefs, as in /dev/sda:/dev/sdb (fs/bcachefs/fs.c,
# bch2_show_devname).  Names below /dev/disk/by-path have colons as well.
BETWEEN = re.compile(r":(?=/)")
# What stands in the path of a device in /sys, as the kernel's drivers name their buses.
BUSES = (
    (re.compile(r"/virtio\d+/"), "virtio"),
    (re.compile(r"/vmbus", re.IGNORECASE), "Hyper-V"),
    (re.compile(r"/vbd-\d+/"), "Xen"),
    (re.compile(r"/session\d+/target"), "iSCSI"),
    (re.compile(r"/rport-"), "Fibre Channel"),
    (re.compile(r"/devices/rbd/"), "Ceph"),
    (re.compile(r"/devices/virtual/block/"), "a virtual device"),
)
# Vendors and models of drives that hypervisors and clouds emulate on ordinary buses.
EMULATED = re.compile(
    r"^(QEMU|VMware|VBOX|Msft|MSFT|ORCL-VBOX|Google|nvme_card-pd)|Virtual [Dd]isk|"
    r"Amazon Elastic Block Store"
)
EXT4 = "/sys/fs/ext4"
JBD2 = "/proc/fs/jbd2"
PROCESSES = "/proc"
JOURNAL = "journal"
XFS_ROLES = {"logdev": JOURNAL, "rtdev": "realtime section"}


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


def foreign(folder: str) -> str:
    """Name the system that provides the disk at a sysfs *folder*, "" for a real drive.

    With NVMe the device is its controller, or of several paths their subsystem.
    """
    path = os.path.realpath(folder)
    for bus, name in BUSES:
        if bus.search(path):
            return name
    device = os.path.join(path, "device")
    for pattern in ("transport", "nvme*/transport"):
        for file in sorted(glob.glob(os.path.join(glob.escape(device), pattern))):
            transport = first_line(file)
            if transport not in ("", "pcie", "apple-nvme"):
                return "NVMe over " + transport
    for file in ("vendor", "model"):
        named = first_line(os.path.join(device, file))
        if EMULATED.search(named):
            return named
    return ""


def apart(mount: dict[str, str], device: str) -> tuple[dict[str, str], str]:
    """Map each part of a filesystem on its own device to that device's path or name.

    mount: as mount_of() returns it.  device: its name in /sys, "" if it is unknown.
    And return why it is unknown where the journal is, "" if it is known.
    """
    if mount["type"] == "xfs":
        options = (each.partition("=") for each in mount["options"].split(","))
        named = {name: unescape(value) for name, _, value in options}
        roles = XFS_ROLES.items()
        return {role: named[key] for key, role in roles if key in named}, ""
    if mount["type"] in ("ext3", "ext4"):
        return ext4_journal(device)
    return {}, ""


def ext4_journal(device: str) -> tuple[dict[str, str], str]:
    """Return the device of the journal of ext3 or ext4, if it is another one."""
    try:
        journals = os.listdir(JBD2)
    except OSError as error:
        journals = []
        why = f"{JBD2}: {error.strerror}"
    else:
        why = f"{JBD2} and {EXT4} do not report it"
    if any(re.fullmatch(re.escape(device) + r"-\d+", each) for each in journals):
        return {}, ""
    thread = first_line(os.path.join(EXT4, device, "journal_task"))
    if thread == "<none>":
        return {}, ""
    name = first_line(os.path.join(PROCESSES, thread, "comm")).partition("jbd2/")[2]
    if thread.isdigit() and name in journals:  # older kernels cut long names off
        return {JOURNAL: name}, ""
    return {}, why
