"""RAID controllers as subjects of the audit, and what their tools print of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dbcheck.audit import devices
from dbcheck.audit.printed import parse_json_object
from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.subject import Fact, Subject, find_remedy, parse_fact
from dbcheck.model.host import Reading, Readings

OFF, PROTECTED, FORCED, UNPROTECTED = "off", "protected", "forced", "unprotected"
READY, LEARNING, CHARGING = "ready", "learning", "charging"
BROKEN, ABSENT = "failed", "absent"
# What the tools of each family are called, newer names of ssacli first.
_STORCLI_1 = ("storcli64", "storcli", "perccli64", "perccli")
_STORCLI_2 = ("storcli2", "perccli2")
STORCLI = (*_STORCLI_1, *_STORCLI_2)
SSACLI = ("ssacli", "hpssacli", "hpacucli")
# The kernel's drivers of controllers that may have a cache, and whose tools show it.
TOOLS_OF = {
    "megaraid_sas": _STORCLI_1,
    "mpi3mr": _STORCLI_2,
    "hpsa": SSACLI,
    "smartpqi": SSACLI,
    "aacraid": (),
}
# Cache of a virtual drive as storcli's legend has it: read ahead, write policy, I/O.
_POLICY = re.compile(r"(?:NR|Ra|R)(AWB|FWB|WB|WT)[CD]?")
_POLICIES = ("AWB", "FWB", "WB", "WT")  # storcli2 puts a comma between: NR,WB
_PROPERTIES = re.compile(r"VD\d+ Properties")
# State of a battery -> the beginnings of the texts that tools print for it.
_BEGINNINGS_OF_STATE = {
    READY: ("optimal", "opt", "ok"),
    BROKEN: ("fail", "degraded", "dgd", "critical", "need", "replace", "unavailable"),
    ABSENT: ("absent", "not present", "missing", "msng", "no "),
}
# Part of such a text -> the state of the battery.
_STATE_OF_PART = {"learn": LEARNING, "charg": CHARGING}
_SWITCHES = {  # the worst first
    "enabled": ("enabled", "enable", "on"),
    "default": ("default", "disk's default", "unchanged"),
    "disabled": ("disabled", "disable", "off"),
}
_CACHE_OFF = (
    "temporarily disabled",
    "permanently disabled",
    "disabled",
    "not configured",
)
_SSACLI_CONTROLLER = re.compile(r"^(?!\w+:)(\S.*\bin Slot \d+.*)$")
_SSACLI_LINE = re.compile(r"^(\s+)([^:]+):\s*(.*)$")
_NO_CONTROLLER = re.compile(
    r"\bno\b[^.\n]{0,40}\bcontrollers?\b|\bcontroller\b[^.\n]{0,20}\bnot found\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Controller:
    """One RAID controller; None: not shown, or not understood.

    cache: the write-back cache.  PROTECTED: on, and off by itself once the battery
        fails.  FORCED: on also without a battery, which is READY now.  UNPROTECTED: on
        also without a battery, which is not READY now.  Or OFF.
    drives: the cache of the drives behind it, "enabled", "disabled" or "default".
    battery: READY, LEARNING, CHARGING, BROKEN or ABSENT.
    unclear: name of a field -> why it is None although a text is shown.
    """

    name: str
    cache: str | None
    drives: str | None
    battery: str | None
    unclear: Mapping[str, str] = field(default_factory=dict)


class _Reader:
    """Translates the texts of one controller, and notes those that it does not know."""

    def __init__(self) -> None:
        self.unclear: dict[str, str] = {}

    def note(self, fact: str, name: str, text: str) -> None:
        """Note a text that is not known."""
        self.unclear.setdefault(
            fact, f"{name} is {text!r}, which dbcheck does not know"
        )

    def switch(self, fact: str, name: str, text: str) -> str | None:
        """Return "enabled", "disabled" or "default"."""
        for state, words in _SWITCHES.items():
            if text.strip().lower() in words:
                return state
        self.note(fact, name, text)
        return None

    def battery(self, name: str, text: str) -> str | None:
        """Return the state of a battery."""
        state = text.strip().lower()
        for word, found in _STATE_OF_PART.items():
            if word in state:
                return found
        for found, words in _BEGINNINGS_OF_STATE.items():
            if state.startswith(words):
                return found
        self.note("battery", name, text)
        return None

    def without_battery(self, battery: str | None) -> str | None:
        """Return FORCED or UNPROTECTED for a cache that stays on without a battery.

        None if the state of the battery is not known.
        """
        if battery is None:
            why = self.unclear.get("battery", "the state of its battery is not shown")
            self.unclear.setdefault("cache", f"it stays on without a battery; {why}")
            return None
        return FORCED if battery == READY else UNPROTECTED


def shows_no_controller(text: str) -> bool:
    """Return True if a tool shows that it found no controller of its kind."""
    return bool(_NO_CONTROLLER.search(text)) or any(
        data.get("Number of Controllers") == 0 for _, data in _parse_responses(text)
    )


# --------------------------------------------------------------- storcli


def parse_storcli(text: str, drives: str = "") -> list[Controller]:
    """Return the controllers that `storcli /call show all J` shows, or perccli's.

    The tools of the second generation, storcli2 and perccli2, print other names in the
    same frame (Broadcom, StorCLI2 User Guide; seen of 008.0011).
    drives: what the same tool prints for /call/vall.
    """
    drives_data = dict(_parse_responses(drives))
    return [
        _parse_storcli_controller(number, data, drives_data.get(number, {}))
        for number, data in _parse_responses(text)
        if data.get("Number of Controllers") != 0
    ]


def _parse_responses(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the number of each controller, and what is shown of it."""
    shown = parse_json_object(text).get("Controllers")
    for place, response in enumerate(shown if isinstance(shown, list) else ()):
        data = response.get("Response Data") if isinstance(response, dict) else None
        if isinstance(data, dict):
            number = str(
                _find_section(response, "Command Status").get("Controller", "")
            )
            yield int(number) if re.fullmatch("[0-9]{1,4}", number) else place, data


def _find_section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _parse_storcli_controller(
    number: int, data: Mapping[str, Any], drives_data: Mapping[str, Any]
) -> Controller:
    reader, basics = _Reader(), _find_section(data, "Basics")
    battery = _parse_storcli_battery(reader, data)
    cache = _find_worst_storcli_cache(reader, data, battery)
    drives = _find_worst_disk_cache(reader, drives_data)
    model = (
        basics.get("Model") or basics.get("Product Name") or data.get("Product Name")
    )
    name = f"controller {number}" + (f" ({model})" if model else "")
    return Controller(name, cache, drives, battery, reader.unclear)


def _find_worst_disk_cache(reader: _Reader, data: Mapping[str, Any]) -> str | None:
    """Return the worst policy for the caches of the drives below virtual drives."""
    shown = [
        ("Disk Cache Policy", properties)
        for key, properties in data.items()
        if _PROPERTIES.fullmatch(key)
    ]
    shown += [
        ("Drive Write Cache Policy", drive.get("VD Properties"))
        for drive in _list_table_rows(data, "Virtual Drives")
    ]
    found = {
        reader.switch("drives", name, str(properties[name]))
        for name, properties in shown
        if isinstance(properties, dict) and name in properties
    }
    if None in found and "enabled" not in found:
        return None
    return next((state for state in _SWITCHES if state in found), None)


def _find_worst_storcli_cache(
    reader: _Reader, data: Mapping[str, Any], battery: str | None
) -> str | None:
    """Return the worst of the write policies; WB alone falls back to WT by itself."""
    policies = set()
    for drive in _list_table_rows(data, "VD LIST", "Virtual Drives"):
        for key in ("Cache", "CurrentCache"):
            if key in drive and (text := str(drive[key])) != "-":
                policies.add(policy := _parse_write_policy(text))
                if not policy:
                    reader.note("cache", key, text)
    if policies & {"AWB", "FWB"}:
        return reader.without_battery(battery)
    if not policies or "" in policies:
        return None
    return PROTECTED if "WB" in policies else OFF


def _parse_write_policy(text: str) -> str:
    """Return the write policy within the text for a cache, "" if it has none."""
    if found := _POLICY.fullmatch(text):
        return found[1]
    words = [word.strip() for word in text.split(",")]
    return next((policy for policy in _POLICIES if policy in words), "")


def _parse_storcli_battery(reader: _Reader, data: Mapping[str, Any]) -> str | None:
    rows = [
        (row, key)
        for row in _list_table_rows(
            data, "BBU_Info", "Cachevault_Info", "Energy Pack Info"
        )
        for key in ("State", "Status")
        if key in row
    ]
    if rows:
        row, key = rows[0]
        return reader.battery(f"the battery's {key}", str(row[key]))
    has = str(_find_section(data, "HwCfg").get("BBU")).lower()
    return ABSENT if has in ("no", "absent") else None


def _list_table_rows(
    data: Mapping[str, Any], *names: str
) -> Iterator[Mapping[str, Any]]:
    for name in names:
        rows = data.get(name)
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict):
                yield row


# --------------------------------------------------------------- ssacli


def parse_ssacli(text: str) -> list[Controller]:
    """Return the controllers that `ssacli ctrl all show config detail` shows."""
    sections: list[tuple[str, dict[str, str]]] = []
    indent = ""
    for line in text.splitlines():
        if title := _SSACLI_CONTROLLER.match(line):
            sections.append((title[1].strip(), {}))
            indent = ""
        elif sections and (found := _SSACLI_LINE.match(line)):
            indent = indent or found[1]
            # What stands further in is about the controller's arrays and drives.
            if found[1] == indent:
                sections[-1][1].setdefault(found[2].strip(), found[3].strip())
    return [_parse_ssacli_controller(name, lines) for name, lines in sections]


def _parse_ssacli_controller(name: str, lines: Mapping[str, str]) -> Controller:
    reader = _Reader()
    battery = _parse_ssacli_battery(reader, lines)
    cache = _parse_ssacli_cache(reader, lines, battery)
    keys = ("Configured Drive Write Cache Policy", "Drive Write Cache")
    drives = [reader.switch("drives", key, lines[key]) for key in keys if key in lines]
    return Controller(
        name, cache, drives[0] if drives else None, battery, reader.unclear
    )


def _parse_ssacli_battery(reader: _Reader, lines: Mapping[str, str]) -> str | None:
    key = "Battery/Capacitor Status"
    if text := lines.get(key, ""):
        return reader.battery(key, text)
    return ABSENT if lines.get("Battery/Capacitor Count") == "0" else None


def _parse_ssacli_cache(
    reader: _Reader, lines: Mapping[str, str], battery: str | None
) -> str | None:
    key, forced = "Cache Status", "No-Battery Write Cache"
    status = lines.get(key, "")
    if not status:
        return OFF if lines.get("Cache Board Present") == "False" else None
    if forced in lines:
        switched = reader.switch("cache", forced, lines[forced])
        if switched == "enabled":
            return reader.without_battery(battery)
        if switched != "disabled":
            return None
    if status.lower() == "ok":
        return PROTECTED
    if status.lower().startswith(_CACHE_OFF):
        return OFF
    reader.note("cache", key, status)
    return None


_DRIVER = "device/../../scsi_host/*/proc_name"


def find_controllers(readings: Readings) -> Iterator[Subject]:
    """Yield the controllers that tools show, and the controllers that no tool shows."""
    shown: set[str] = set()  # the tools that showed a controller
    names: set[str] = set()  # storcli and storcli64 are one program
    for reading in readings.named(*STORCLI, *SSACLI):
        for subject in _parse_tool_output(reading, readings):
            shown.add(reading.what)
            if subject.name not in names:
                names.add(subject.name)
                yield subject
    drivers = {driver.text: driver for driver in reversed(readings.named(_DRIVER))}
    for name, driver in drivers.items():
        tools = TOOLS_OF.get(name)
        if tools is not None and shown.isdisjoint(tools):
            yield _make_unseen_controller(driver, tools)


def _parse_tool_output(reading: Reading, readings: Readings) -> Iterator[Subject]:
    """Yield the controllers in a tool's output, or one if it is not understood."""
    if reading.what in SSACLI:
        found = parse_ssacli(reading.text)
    else:
        # The text counts even if the tool failed: it fails also if only one of several
        # controllers has no virtual drive.
        drives = readings.get("", f"{reading.what} vall")
        found = parse_storcli(reading.text, drives.text if drives else "")
    for controller in found:
        yield _make_controller_subject(controller, reading)
    if not found and not shows_no_controller(reading.text):
        name = f"the controllers that {reading.what} knows"
        cache = {devices.CONTROLLER_CACHE: parse_fact(reading, lambda _: None)}
        yield Subject(SubjectKind.CONTROLLER, name, cache)


def _make_unseen_controller(driver: Reading, tools: Sequence[str]) -> Subject:
    """Return a controller that no tool shows, named by one of its drives."""
    why, remedy = "dbcheck knows no tool that shows this controller", ""
    if tools:
        why = f"none of these shows it: {', '.join(tools)}"
        remedy = "install one of them there"
    fact = Fact(None, driver.how, why, remedy)
    name = f"the controller of {driver.of} ({driver.text})"
    return Subject(SubjectKind.CONTROLLER, name, {devices.CONTROLLER_CACHE: fact})


def _make_controller_subject(found: Controller, reading: Reading) -> Subject:
    """Return *found* as a subject; an unclear fact is None, with the reason."""
    how, unclear = reading.how, dict(found.unclear)
    if found.drives == "default":
        unclear["drives"] = "each drive has its own setting, which is not shown"
    none = reading.why or f"{reading.what} does not show it"
    why = unclear.get("cache", none)
    cache = Fact(found.cache, how, "" if found.cache else why, find_remedy(why))
    facts = {devices.CONTROLLER_CACHE: cache}
    others = {
        devices.DISK_CACHE: ("drives", found.drives),
        devices.BATTERY: ("battery", found.battery),
    }
    for fact, (name, value) in others.items():
        if name in unclear:
            facts[fact] = Fact(None, how, unclear[name])
        elif value:
            facts[fact] = Fact(value, how)
    return Subject(SubjectKind.CONTROLLER, found.name, facts)
