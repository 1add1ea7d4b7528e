"""What storcli, perccli and ssacli show of RAID controllers, as values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dbcheck.audit.printed import json_object

OFF, PROTECTED, FORCED, UNPROTECTED = "off", "protected", "forced", "unprotected"
READY, LEARNING, CHARGING, BROKEN, ABSENT = (
    "ready",
    "learning",
    "charging",
    "failed",
    "absent",
)
# Cache of a virtual drive as storcli's legend has it: read ahead, write policy, I/O.
_POLICY = re.compile(r"(?:NR|R)(AWB|FWB|WB|WT)(?:C|D)")
_PROPERTIES = re.compile(r"VD\d+ Properties")
_HEALTHY = ("optimal", "opt", "ok")
_SSACLI_CONTROLLER = re.compile(r"^(\S.*\bin Slot \d+.*)$")
_SSACLI_LINE = re.compile(r"^\s+([^:]+):\s*(.*)$")


@dataclass(frozen=True, slots=True)
class Controller:
    """One RAID controller; None: not shown.

    cache: OFF, PROTECTED, FORCED or UNPROTECTED.
    drives: the cache of the drives behind it, "enabled", "disabled" or "default".
    battery: READY, LEARNING, CHARGING, BROKEN or ABSENT.
    """

    name: str
    cache: str | None
    drives: str | None
    battery: str | None


def of_storcli(text: str, drives: str = "") -> list[Controller]:
    """Return the controllers that `storcli /call show all J` shows, or perccli's.

    drives: what the same shows of /call/vall.
    """
    caches = {number: _disk_cache(data) for number, data in _responses(drives)}
    return [
        _storcli_controller(number, data, caches.get(number))
        for number, data in _responses(text)
    ]


def _responses(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield what is shown of each controller, and its place in the answer."""
    shown = json_object(text).get("Controllers")
    for number, each in enumerate(shown if isinstance(shown, list) else ()):
        data = each.get("Response Data") if isinstance(each, dict) else None
        if isinstance(data, dict):
            yield number, data


def _disk_cache(data: Mapping[str, Any]) -> str | None:
    """Return the worst policy for the caches of the drives below virtual drives."""
    found = {
        str(properties.get("Disk Cache Policy", "")).lower()
        for name, properties in data.items()
        if _PROPERTIES.fullmatch(name) and isinstance(properties, dict)
    }
    known = {"enabled": "enabled", "disk's default": "default", "disabled": "disabled"}
    return next((short for name, short in known.items() if name in found), None)


def _storcli_controller(
    number: int, data: Mapping[str, Any], drives: str | None
) -> Controller:
    battery = _storcli_battery(data)
    policies = [
        found[1]
        for drive in _rows(data, "VD LIST", "Virtual Drives")
        if (found := _POLICY.fullmatch(str(drive.get("Cache", ""))))
    ]
    basics = data.get("Basics")
    model = basics.get("Model") if isinstance(basics, dict) else None
    name = f"controller {number}" + (f" ({model})" if model else "")
    return Controller(name, _storcli_cache(policies, battery), drives, battery)


def _storcli_cache(policies: list[str], battery: str | None) -> str | None:
    """Return the worst of the write policies; WB alone falls back to WT by itself."""
    if not policies:
        return None
    forced = any(policy in ("AWB", "FWB") for policy in policies)
    if forced:
        return FORCED if battery == READY else UNPROTECTED
    return PROTECTED if "WB" in policies else OFF


def _storcli_battery(data: Mapping[str, Any]) -> str | None:
    rows = [*_rows(data, "BBU_Info"), *_rows(data, "Cachevault_Info")]
    if not rows:
        hardware = data.get("HwCfg")
        has = hardware.get("BBU") if isinstance(hardware, dict) else None
        return ABSENT if str(has).lower() in ("no", "absent") else None
    state = str(rows[0].get("State", "")).lower()
    if "learn" in state:
        return LEARNING
    if "charg" in state:
        return CHARGING
    return READY if state.startswith(_HEALTHY) else BROKEN


def _rows(data: Mapping[str, Any], *names: str) -> Iterator[Mapping[str, Any]]:
    for name in names:
        rows = data.get(name)
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict):
                yield row


def of_ssacli(text: str) -> list[Controller]:
    """Return the controllers that `ssacli ctrl all show config detail` shows."""
    sections: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if title := _SSACLI_CONTROLLER.match(line):
            sections.append((title[1].strip(), {}))
        elif sections and (found := _SSACLI_LINE.match(line)):
            # What follows a controller's own lines is about its arrays and drives.
            sections[-1][1].setdefault(found[1].strip(), found[2].strip())
    return [_ssacli_controller(name, lines) for name, lines in sections]


def _ssacli_controller(name: str, lines: Mapping[str, str]) -> Controller:
    battery = _ssacli_battery(lines)
    drives = lines.get("Configured Drive Write Cache Policy") or lines.get(
        "Drive Write Cache"
    )
    return Controller(
        name,
        _ssacli_cache(lines, battery),
        drives.split()[0].lower() if drives else None,
        battery,
    )


def _ssacli_battery(lines: Mapping[str, str]) -> str | None:
    state = lines.get("Battery/Capacitor Status", "").lower()
    if not state:
        count = lines.get("Battery/Capacitor Count")
        return ABSENT if count == "0" else None
    if "charg" in state:
        return CHARGING
    return READY if state.startswith(_HEALTHY) else BROKEN


def _ssacli_cache(lines: Mapping[str, str], battery: str | None) -> str | None:
    status = lines.get("Cache Status", "").lower()
    if not status:
        return None
    if lines.get("No-Battery Write Cache", "").lower() == "enabled":
        return FORCED if battery == READY else UNPROTECTED
    return PROTECTED if status == "ok" else OFF
