"""Block devices: which of a filesystem are real, their identity, and their counters.

What the fields mean is in model/flushes.py.

The number of a filesystem's device (stat(2), st_dev) names the device that it was
mounted from, also where udev gave the device another name since, and where the kernel
calls it /dev/root.  Btrfs and bcachefs lie on several devices, and have numbers that
name none.  Of such a filesystem all devices are returned, or none: a device that is
missing in the list would count as a device that holds nothing.

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
import json
import os
import re
import struct
import time
from collections.abc import Iterator
from typing import Any

from dbcheck.agent.host.tools import (
    BLOCK,
    DEVICE_NAME,
    DEVICES_MAX,
    find_reason_in_output,
    read_output,
)
from dbcheck.agent.wire import read_first_line, unescape

STAT_BYTES_MAX = 4096


class Devices:
    """The counters of some block devices, held open: each read takes microseconds."""

    def __init__(self, names: list[str]) -> None:
        """Open the devices of *names* that are present and whose kernel counts."""
        self._open: dict[str, tuple[int, bool]] = {}
        for name in names[:DEVICES_MAX]:
            if not DEVICE_NAME.fullmatch(name):
                continue
            folder = os.path.join(BLOCK, name)
            with contextlib.suppress(OSError):
                if not is_counted(folder):
                    continue
                has_queue = os.path.isdir(os.path.join(folder, "mq"))
                stat = os.open(os.path.join(folder, "stat"), os.O_RDONLY | os.O_CLOEXEC)
                self._open[name] = (stat, has_queue)

    def read(self) -> dict[str, Any]:
        """Return the host's monotonic clock in microseconds, and each device's fields.

        A device that is gone by now is left out.
        """
        devices = []
        for name, (stat, has_queue) in self._open.items():
            with contextlib.suppress(OSError, ValueError):
                text = os.pread(stat, STAT_BYTES_MAX, 0)
                fields = [int(field) for field in text.split()]
                devices.append({"name": name, "stat": fields, "queues": has_queue})
        return {"at_us": time.monotonic_ns() // 1000, "devices": devices}

    def close(self) -> None:
        """Close the counters of all devices."""
        for stat, _ in self._open.values():
            os.close(stat)
        self._open.clear()


def is_counted(folder: str) -> bool:
    """Return True if the kernel counts the device's requests.

    It does not where queue/iostats is 0 (Documentation/ABI/stable/sysfs-block).
    """
    with open(os.path.join(folder, "queue", "iostats")) as file:
        return file.read(1) != "0"


NUMBERED = "/sys/dev/block"
BTRFS = "/sys/fs/btrfs"
# linux/btrfs.h: BTRFS_IOC_FS_INFO gives the highest id of a device, how many there are,
# and the filesystem's UUID.
FS_INFO, FS_INFO_BYTES, FS_INFO_HEAD = 0x8400941F, 1024, "=8xQ16s"
# The colon between the devices of bcachefs, as in /dev/sda:/dev/sdb (fs/bcachefs/fs.c,
# bch2_show_devname).  Names below /dev/disk/by-path have colons as well.
DEVICE_SEPARATOR = re.compile(r":(?=/)")
# Parts of a device's path in /sys, as the kernel's drivers name their buses.
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
EMULATED_DRIVE = re.compile(
    r"^(QEMU|VMware|VBOX|Msft|MSFT|ORCL-VBOX|Google|nvme_card-pd)|Virtual [Dd]isk|"
    r"Amazon Elastic Block Store"
)
EXT4 = "/sys/fs/ext4"
JBD2 = "/proc/fs/jbd2"
PROCESSES = "/proc"
JOURNAL = "journal"
XFS_ROLES = {"logdev": JOURNAL, "rtdev": "realtime section"}


def find_device_folders(
    mount: dict[str, str], number: str, path: str
) -> tuple[list[str], str]:
    """Return the sysfs folders of a filesystem's devices, or [] and why.

    mount: as wire.find_mount() returns it.  number: MAJOR:MINOR of its device.  path:
    of a folder on the filesystem.
    """
    kind, source = mount["type"] or "unknown", mount["source"]
    if kind == "btrfs":
        return find_btrfs_folders(source, (path, mount["point"]))
    link = os.path.join(NUMBERED, number)
    if os.path.exists(link):
        return [os.path.realpath(link)], ""
    # The source of a FUSE filesystem is any text that its user chose.
    if source.startswith("/dev/") and not kind.startswith("fuse"):
        return find_folders_by_source(kind, source)
    return [], f"{kind} on {source or '?'}: no block device found"


def find_folders_by_source(kind: str, source: str) -> tuple[list[str], str]:
    """Find the sysfs folders by the devices that the source of a mount names."""
    folders = []
    for device in DEVICE_SEPARATOR.split(source):
        folder = find_block_folder(device)
        if not folder:
            return [], f"{kind} on {source}: no block device {device} found"
        folders.append(folder)
    return list(dict.fromkeys(folders)), ""


def find_btrfs_folders(source: str, paths: tuple[str, ...]) -> tuple[list[str], str]:
    """Find the sysfs folders of a Btrfs; paths: folders on it, any may be used."""
    about = f"btrfs on {source}"
    filesystem, count = "", 0
    for path in paths:
        with contextlib.suppress(OSError):
            filesystem, count = read_btrfs_id(path)
            break
    if not filesystem:
        filesystem = find_btrfs_of_device(os.path.basename(find_block_folder(source)))
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


def read_btrfs_id(path: str) -> tuple[str, int]:
    """Return the UUID of a Btrfs, and how many devices it has; raise OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(path, flags)
    try:
        info = fcntl.ioctl(folder, FS_INFO, bytes(FS_INFO_BYTES))
    finally:
        os.close(folder)
    count, name = struct.unpack_from(FS_INFO_HEAD, info)
    return re.sub("(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-", name.hex()), count


def find_btrfs_of_device(device: str) -> str:
    """Return the UUID of the mounted Btrfs that a device is a part of, "" if none."""
    with contextlib.suppress(OSError):  # this kernel has no Btrfs
        for name in os.listdir(BTRFS):
            if device and os.path.exists(os.path.join(BTRFS, name, "devices", device)):
                return name
    return ""


def find_block_folder(device: str) -> str:
    """Return the sysfs folder of a device, by its path or name; "" if there is none."""
    with contextlib.suppress(OSError):  # a container's /dev may lack the device
        number = os.stat(device).st_rdev if device.startswith("/") else 0
        link = os.path.join(NUMBERED, f"{os.major(number)}:{os.minor(number)}")
        if number and os.path.exists(link):
            return os.path.realpath(link)
    folder = os.path.join(BLOCK, os.path.basename(os.path.realpath(device)))
    return os.path.realpath(folder) if os.path.exists(folder) else ""


def name_disk_provider(folder: str) -> str:
    """Name the system that provides the disk at a sysfs *folder*, "" for a real drive.

    The "device" of an NVMe disk is its controller, or for several paths a subsystem.
    """
    path = os.path.realpath(folder)
    for bus, name in BUSES:
        if bus.search(path):
            return name
    device = os.path.join(path, "device")
    for pattern in ("transport", "nvme*/transport"):
        for file in sorted(glob.glob(os.path.join(glob.escape(device), pattern))):
            transport = read_first_line(file)
            if transport not in ("", "pcie", "apple-nvme"):
                return "NVMe over " + transport
    for file in ("vendor", "model"):
        value = read_first_line(os.path.join(device, file))
        if EMULATED_DRIVE.search(value):
            return value
    return ""


def find_separate_devices(
    mount: dict[str, str], device: str
) -> tuple[dict[str, str], str]:
    """Map each part of a filesystem on its own device to that device's path or name.

    mount: as wire.find_mount() returns it.  device: its name in /sys, "" if that is
    unknown.  Also return why the journal's device is unknown, "" if it is known.
    """
    if mount["type"] == "xfs":
        options = (option.partition("=") for option in mount["options"].split(","))
        values = {name: unescape(value) for name, _, value in options}
        roles = XFS_ROLES.items()
        return {role: values[key] for key, role in roles if key in values}, ""
    if mount["type"] in ("ext3", "ext4"):
        return find_ext4_journal(device)
    return {}, ""


def find_ext4_journal(device: str) -> tuple[dict[str, str], str]:
    """Return the separate device of an ext3's or ext4's journal, if there is one."""
    try:
        journals = os.listdir(JBD2)
    except OSError as error:
        journals = []
        why = f"{JBD2}: {error.strerror}"
    else:
        why = f"{JBD2} and {EXT4} do not report it"
    if any(re.fullmatch(re.escape(device) + r"-\d+", name) for name in journals):
        return {}, ""
    thread = read_first_line(os.path.join(EXT4, device, "journal_task"))
    if thread == "<none>":
        return {}, ""
    name = read_first_line(os.path.join(PROCESSES, thread, "comm")).partition("jbd2/")[
        2
    ]
    if thread.isdigit() and name in journals:  # older kernels cut long names off
        return {JOURNAL: name}, ""
    return {}, why


VPD_HEAD = 4  # bytes before the serial in page 0x80 of a SCSI device (SPC-4, 7.8.18)
QUOTED_NUMBER = re.compile(r"[0-9][0-9,]{0,30}")  # a number, as nvme-cli may print it
# SMART attributes of ATA drives that count losses of power, by their usual numbers.
ATA_UNSAFE_SHUTDOWNS = (174, 192)
ATA_POWER_CYCLES = 12


def describe_drive(layer: dict[str, Any], unreadable: dict[str, str]) -> dict[str, Any]:
    """Return one drive's identity and its counters of lost power.

    layer: as facts.describe_layer() returns it.
    unreadable: the reason is added here if the drive has no counters that can be read.
    virtio-blk has its serial beside the queue (drivers/block/virtio_blk.c,
    virtblk_attrs), NVMe in the controller's folder, SCSI in a page of its own.
    """
    name = layer["name"]
    folder = os.path.join(BLOCK, name, "device")
    counters: dict[str, int] = {}
    if layer["kind"] == "disk" and os.path.exists(folder):
        counters = read_power_loss_counters(name, unreadable)
    else:
        unreadable[f"{name}.counters"] = f"{name} is not a physical drive"
    return {
        "name": name,
        "model": read_first_line(os.path.join(folder, "model")),
        # NVMe, and SCSI with ATA behind it (drivers/nvme/host/sysfs.c,
        # drivers/scsi/scsi_sysfs.c).
        "firmware": read_first_line(os.path.join(folder, "firmware_rev"))
        or read_first_line(os.path.join(folder, "rev")),
        "serial": read_first_line(os.path.join(folder, "serial"))
        or read_first_line(os.path.join(BLOCK, name, "serial"))
        or read_scsi_serial(folder),
        "wwid": read_first_line(os.path.join(folder, "wwid"))
        or read_first_line(os.path.join(BLOCK, name, "wwid")),
        "write_cache": layer["write_cache"],
        "unsafe_shutdowns": counters.get("unsafe_shutdowns"),
        "power_cycles": counters.get("power_cycles"),
    }


def read_power_loss_counters(name: str, unreadable: dict[str, str]) -> dict[str, int]:
    """Return a drive's counters of lost power: nvme-cli's, else smartctl's."""
    device, why = "/dev/" + name, ""
    if name.startswith("nvme"):
        text, why = read_output("nvme", "smart-log", "-o", "json", device)
        if not why and (counters := parse_nvme(text)):
            return counters
    text, why_no_smartctl = read_output("smartctl", "-j", "-A", device)
    counters = {} if why_no_smartctl else parse_smartctl(text)
    if not counters:
        no_counters = f"smartctl reports none for {device}"
        stated = find_reason_in_output(text)
        reason = f"smartctl: {stated}" if stated else no_counters
        unreadable[f"{name}.counters"] = why_no_smartctl or why or reason
    return counters


def read_scsi_serial(folder: str) -> str:
    """Return the serial in page 0x80 of a SCSI device, "" if it has none.

    folder: of the device in /sys.  libata makes such a page for ATA drives.
    """
    try:
        with open(os.path.join(folder, "vpd_pg80"), "rb") as file:
            page = file.read(256)
    except OSError:
        return ""
    return page[VPD_HEAD:].decode("ascii", "replace").strip("\0 ")


def parse_nvme(text: str) -> dict[str, int]:
    """Return the counters that `nvme smart-log -o json` shows."""
    return pick_numbers(parse_json_object(text), "unsafe_shutdowns", "power_cycles")


def parse_smartctl(text: str) -> dict[str, int]:
    """Return the counters that `smartctl -j -A` shows, of NVMe or of ATA."""
    printed = parse_json_object(text)
    nvme = printed.get("nvme_smart_health_information_log")
    if isinstance(nvme, dict):
        return pick_numbers(nvme, "unsafe_shutdowns", "power_cycles")
    counters = pick_numbers(printed, "power_cycle_count")
    if counters:
        counters = {"power_cycles": counters["power_cycle_count"]}
    for number, value in parse_ata_attributes(printed):
        if number in ATA_UNSAFE_SHUTDOWNS:
            counters.setdefault("unsafe_shutdowns", value)
        if number == ATA_POWER_CYCLES:
            counters.setdefault("power_cycles", value)
    return counters


def parse_ata_attributes(printed: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield number and value of each attribute whose raw value is a whole number."""
    try:
        table = list(printed["ata_smart_attributes"]["table"])
    except (LookupError, TypeError):
        return
    for attribute in table:
        try:
            number, value = attribute["id"], attribute["raw"]["value"]
        except (LookupError, TypeError):
            continue
        if type(number) is int and type(value) is int:
            yield number, value


def parse_json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in *text*, {} if it is not one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def pick_numbers(values: dict[str, Any], *names: str) -> dict[str, int]:
    """Return the values of *names* that are whole numbers; nvme-cli may quote them."""
    numbers = {}
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and QUOTED_NUMBER.fullmatch(value):
            value = int(value.replace(",", ""))
        if isinstance(value, int) and not isinstance(value, bool):
            numbers[name] = value
    return numbers
