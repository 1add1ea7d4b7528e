"""Parses what tools for drives and device-mapper print; pure functions of texts.

A parser returns None where the text does not show the fact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

ENABLED, DISABLED, NONE = "enabled", "disabled", "none"
FAILED, PASSED = "failed", "passed"
_HDPARM = re.compile(r"write-caching\s*=\s*([01])\b")
_SDPARM = re.compile(r"^WCE\s+([01])\b", re.MULTILINE)
_NVME_FEATURE = re.compile(r"Current value:\s*(?:0x)?([0-9a-fA-F]{1,16})\b")
_BRACKETED_WORD = re.compile(r"\[([\w-]+)\]")
_TARGET_LINE = re.compile(r"^\d+ \d+ ([a-z0-9-]+)(.*)$")
_FLASHCACHE = re.compile(r"cache mode\(WRITE_(BACK|THROUGH|AROUND)\)")
_POWER_LOSS_TEST = 175  # ATA attribute Power_Loss_Cap_Test (smartmontools, drivedb.h)
_BACKUP_FAILED = 1 << 4  # NVMe, SMART / Health Information, Critical Warning
_RELIABILITY_DEGRADED, _READ_ONLY = 1 << 2, 1 << 3
_LBA_BITS_MAX = 16


def parse_json_object(text: str) -> Mapping[str, Any]:
    """Return a JSON object, {} if *text* is none."""
    try:
        shown = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return shown if isinstance(shown, dict) else {}


def parse_chosen_word(text: str) -> str | None:
    """Return the word in brackets: so files of the kernel mark one of several words."""
    found = _BRACKETED_WORD.search(text)
    return found[1] if found else None


def parse_zfs_properties(text: str) -> Mapping[str, str]:
    """Parse the output of `zfs get -Hp -o property,value`."""
    return dict(row.split("\t", 1) for row in text.splitlines() if "\t" in row)


# --------------------------------------------------------------- write caches


def parse_hdparm_cache(text: str) -> str | None:
    """Parse the output of `hdparm -W`: an ATA drive's write cache.

    It prints "not supported" also of drives that are no ATA drives and have one.
    """
    found = _HDPARM.search(text)
    return None if found is None else ENABLED if found[1] == "1" else DISABLED


def parse_sdparm_cache(text: str) -> str | None:
    """Parse the output of `sdparm --get=WCE`: a SCSI drive's write cache."""
    found = _SDPARM.search(text)
    return None if found is None else ENABLED if found[1] == "1" else DISABLED


def parse_scsi_cache(text: str) -> str | None:
    """Parse the kernel's reading of a drive's mode page, its file cache_type.

    Without such a page, as behind many USB bridges, it assumes "write through", which
    therefore shows nothing (Linux, drivers/scsi/sd.c, sd_read_cache_type).
    """
    return ENABLED if text.startswith("write back") else None


def parse_virtio_cache(text: str) -> str | None:
    """Return the mode of a virtio disk, its file cache_type.

    A device that does not offer to be flushed has to write through (Virtual I/O Device
    Specification 1.2, 5.2.6.2 Device Requirements).
    """
    return {"write back": ENABLED, "write through": DISABLED}.get(text)


def parse_nvme_cache(id_ctrl: str, feature: str) -> str | None:
    """Parse nvme-cli's output on the volatile write cache.

    id_ctrl: of `nvme id-ctrl -o json`; bit 0 of vwc says that there is a cache.
    feature: of `nvme get-feature -f 6`; bit 0 says that the cache is enabled.
    """
    vwc = parse_json_object(id_ctrl).get("vwc")
    if isinstance(vwc, int) and not vwc & 1:
        return NONE
    found = _NVME_FEATURE.search(feature)
    if found is None:
        return None
    return ENABLED if int(found[1], 16) & 1 else DISABLED


# --------------------------------------------------------------- health


def parse_smart_health(text: str) -> str | None:
    """Parse the output of `smartctl -j -H`: the drive's own assessment."""
    status = parse_json_object(text).get("smart_status")
    passed = status.get("passed") if isinstance(status, dict) else None
    return {True: PASSED, False: FAILED}.get(passed) if type(passed) is bool else None


def parse_smartctl_error(text: str) -> str:
    """Return the error that `smartctl -j` reports of its own work, "" without any.

    Its exit status may say that it opened the drive all the same (smartctl(8), bit 2).
    """
    messages = parse_json_object(text).get("smartctl")
    rows = messages.get("messages") if isinstance(messages, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("severity") == "error":
            return "smartctl: " + " ".join(str(row.get("string", "")).split())[:200]
    return ""


def parse_critical_warning(text: str) -> int | None:
    """Return the Critical Warning of an NVMe drive, as nvme-cli or smartctl show it."""
    shown = parse_json_object(text)
    log = shown.get("nvme_smart_health_information_log", shown)
    value = log.get("critical_warning") if isinstance(log, dict) else None
    if isinstance(value, dict):  # nvme-cli 2 has the bits apart beside the value
        value = value.get("value")
    return value if type(value) is int else None


def judge_cache_backup(warning: int | None) -> str | None:
    """Return "failed" if what keeps an NVMe drive's volatile memory alive has failed.

    Without that bit the drive has no such backup, or the backup works: which of both
    is not known.
    """
    return FAILED if warning is not None and warning & _BACKUP_FAILED else None


def judge_nvme_health(warning: int | None) -> str | None:
    """Judge whether an NVMe drive reports that it fails."""
    if warning is None:
        return None
    return FAILED if warning & (_RELIABILITY_DEGRADED | _READ_ONLY) else PASSED


def parse_capacitor_test(text: str) -> str | None:
    """Parse the outcome of an ATA drive's test of its power-loss capacitor."""
    table = parse_json_object(text).get("ata_smart_attributes")
    rows = table.get("table") if isinstance(table, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("id") == _POWER_LOSS_TEST:
            if "power_loss" not in str(row.get("name", "")).lower():
                return None  # other makers count something else under that number
            return FAILED if row.get("when_failed") == "now" else PASSED
    return None


def parse_model_and_firmware(text: str) -> tuple[str, str]:
    """Return model and firmware, as `smartctl -j -i` shows them, "" if it does not."""
    shown = parse_json_object(text)
    model = shown.get("model_name") or shown.get("scsi_model_name")
    firmware = shown.get("firmware_version") or shown.get("scsi_revision")
    return str(model or ""), str(firmware or "")


# --------------------------------------------------------------- atomic writes


def parse_atomic_bytes(id_ctrl: str, id_ns: str) -> int | None:
    """Return the bytes that an NVMe drive writes whole or not at all at a power loss.

    The namespace's NAWUPF counts if it has one, else the controller's AWUPF; both are
    blocks less one.
    """
    controller, namespace = parse_json_object(id_ctrl), parse_json_object(id_ns)
    blocks = controller.get("awupf")
    if type(namespace.get("nsfeat")) is int and namespace["nsfeat"] & 2:
        blocks = namespace.get("nawupf", blocks)
    size = _parse_block_bytes(namespace)
    if type(blocks) is not int or size is None or blocks < 0:
        return None
    return (blocks + 1) * size


def _parse_block_bytes(namespace: Mapping[str, Any]) -> int | None:
    formats, chosen_format = namespace.get("lbafs"), namespace.get("flbas")
    if not isinstance(formats, list) or type(chosen_format) is not int:
        return None
    index = chosen_format & 0xF
    if index >= len(formats) or not isinstance(formats[index], dict):
        return None
    bits = formats[index].get("ds")
    return 1 << bits if type(bits) is int and 0 < bits <= _LBA_BITS_MAX else None


# --------------------------------------------------------------- device-mapper


def parse_mapper_targets(table: str) -> list[tuple[str, str]]:
    """Return each target of a device-mapper table, and its options.

    Further lines of a target, as flashcache prints them, belong to its options.
    """
    found: list[tuple[str, str]] = []
    for line in table.splitlines():
        match = _TARGET_LINE.match(line.strip())
        if match is not None:
            found.append((match[1], match[2].strip()))
        elif found:
            kind, options = found[-1]
            found[-1] = kind, f"{options} {line.strip()}"
    return found


def parse_cache_mode(table: Sequence[tuple[str, str]]) -> str | None:
    """Return the mode of a device-mapper cache, None if there is none.

    dm-cache names its mode among its features (cache.rst); dm-writecache has no other
    (writecache.rst); flashcache prints it.
    """
    for kind, options in table:
        words = options.split()
        if kind == "writecache":
            return "writeback"
        if kind == "cache":
            modes = ("writethrough", "passthrough")
            return next((mode for mode in modes if mode in words), "writeback")
        if kind == "flashcache" and (found := _FLASHCACHE.search(options)):
            return f"write{found[1].lower()}"
    return None


def parse_integrity_mode(table: Sequence[tuple[str, str]]) -> str | None:
    """Return the mode letter of dm-integrity, None if there is none.

    Its options are a device, reserved sectors, the size of a tag, and the mode
    (dm-integrity.rst).
    """
    for kind, options in table:
        words = options.split()
        if kind == "integrity" and len(words) > 3:
            return words[3]
    return None
