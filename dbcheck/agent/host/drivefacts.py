"""Reads a drive's identity, and its counters of lost power."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from dbcheck.agent.host.devices import BLOCK
from dbcheck.agent.host.tools import printed, reason_in_output
from dbcheck.agent.wire import first_line

VPD_HEAD = 4  # bytes before the serial in page 0x80 of a SCSI device (SPC-4, 7.8.18)
QUOTED = re.compile(r"[0-9][0-9,]{0,30}")  # a number, as nvme-cli may print it
# SMART attributes of ATA drives that count losses of power, by their usual numbers.
ATA_UNSAFE = (174, 192)
ATA_CYCLES = 12


def drive(layer: dict[str, Any], unreadable: dict[str, str]) -> dict[str, Any]:
    """Return one drive's identity and its counters of lost power.

    layer: as layer_of() returns it.  unreadable: takes why there are no counters.
    virtio-blk has its serial beside the queue (drivers/block/virtio_blk.c,
    virtblk_attrs), NVMe in the controller's folder, SCSI in a page of its own.
    """
    name = layer["name"]
    folder = os.path.join(BLOCK, name, "device")
    shown: dict[str, int] = {}
    if layer["kind"] == "disk" and os.path.exists(folder):
        shown = counters(name, unreadable)
    else:
        unreadable[f"{name}.counters"] = f"{name} is not a physical drive"
    return {
        "name": name,
        "model": first_line(os.path.join(folder, "model")),
        # NVMe, and SCSI with ATA behind it (drivers/nvme/host/sysfs.c,
        # drivers/scsi/scsi_sysfs.c).
        "firmware": first_line(os.path.join(folder, "firmware_rev"))
        or first_line(os.path.join(folder, "rev")),
        "serial": first_line(os.path.join(folder, "serial"))
        or first_line(os.path.join(BLOCK, name, "serial"))
        or scsi_serial(folder),
        "wwid": first_line(os.path.join(folder, "wwid"))
        or first_line(os.path.join(BLOCK, name, "wwid")),
        "write_cache": layer["write_cache"],
        "unsafe_shutdowns": shown.get("unsafe_shutdowns"),
        "power_cycles": shown.get("power_cycles"),
    }


def counters(name: str, unreadable: dict[str, str]) -> dict[str, int]:
    """Return a drive's counters of lost power: nvme-cli's, else smartctl's."""
    device, why = "/dev/" + name, ""
    if name.startswith("nvme"):
        text, why = printed("nvme", "smart-log", "-o", "json", device)
        if not why and (found := parse_nvme(text)):
            return found
    text, failed = printed("smartctl", "-j", "-A", device)
    found = {} if failed else parse_smartctl(text)
    if not found:
        none = f"smartctl reports none for {device}"
        stated = reason_in_output(text)
        said = f"smartctl: {stated}" if stated else none
        unreadable[f"{name}.counters"] = failed or why or said
    return found


def scsi_serial(folder: str) -> str:
    """Return the serial in page 0x80 of a SCSI device, "" if it has none.

    folder: the device's in /sys.  libata makes such a page of ATA drives.
    """
    try:
        with open(os.path.join(folder, "vpd_pg80"), "rb") as file:
            page = file.read(256)
    except OSError:
        return ""
    return page[VPD_HEAD:].decode("ascii", "replace").strip("\0 ")


def parse_nvme(text: str) -> dict[str, int]:
    """Return the counters that `nvme smart-log -o json` shows."""
    return numbers(parse(text), "unsafe_shutdowns", "power_cycles")


def parse_smartctl(text: str) -> dict[str, int]:
    """Return the counters that `smartctl -j -A` shows, of NVMe or of ATA."""
    shown = parse(text)
    nvme = shown.get("nvme_smart_health_information_log")
    if isinstance(nvme, dict):
        return numbers(nvme, "unsafe_shutdowns", "power_cycles")
    found = numbers(shown, "power_cycle_count")
    if found:
        found = {"power_cycles": found["power_cycle_count"]}
    for number, value in ata_attributes(shown):
        if number in ATA_UNSAFE:
            found.setdefault("unsafe_shutdowns", value)
        if number == ATA_CYCLES:
            found.setdefault("power_cycles", value)
    return found


def ata_attributes(shown: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield number and value of those attributes that are whole numbers."""
    try:
        table = list(shown["ata_smart_attributes"]["table"])
    except (LookupError, TypeError):
        return
    for attribute in table:
        try:
            number, value = attribute["id"], attribute["raw"]["value"]
        except (LookupError, TypeError):
            continue
        if type(number) is int and type(value) is int:
            yield number, value


def parse(text: str) -> dict[str, Any]:
    """Return a JSON object, {} if *text* is none."""
    try:
        shown = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return shown if isinstance(shown, dict) else {}


def numbers(shown: dict[str, Any], *names: str) -> dict[str, int]:
    """Return those of *names* that are whole numbers; nvme-cli may quote them."""
    found = {}
    for name in names:
        value = shown.get(name)
        if isinstance(value, str) and QUOTED.fullmatch(value):
            value = int(value.replace(",", ""))
        if isinstance(value, int) and not isinstance(value, bool):
            found[name] = value
    return found
