"""RAID controllers as subjects of the audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbcheck.audit import devices, raid
from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.subject import Fact, Subject, fact_of, remedy_of
from dbcheck.model.host import Reading, Readings

_DRIVER = "device/../../scsi_host/*/proc_name"


def controllers_in(readings: Readings) -> Iterator[Subject]:
    """Yield the controllers that tools show, and those that none shows."""
    shown: set[str] = set()  # by which tools
    names: set[str] = set()  # storcli and storcli64 are one program
    for reading in readings.named(*raid.STORCLI, *raid.SSACLI):
        for subject in _by_tool(reading, readings):
            shown.add(reading.what)
            if subject.name not in names:
                names.add(subject.name)
                yield subject
    drivers = {each.text: each for each in reversed(readings.named(_DRIVER))}
    for name, driver in drivers.items():
        tools = raid.TOOLS_OF.get(name)
        if tools is not None and shown.isdisjoint(tools):
            yield _without_tool(driver, tools)


def _by_tool(reading: Reading, readings: Readings) -> Iterator[Subject]:
    """Yield the controllers in a tool's output; one for all if it is not understood."""
    if reading.what in raid.SSACLI:
        found = raid.of_ssacli(reading.text)
    else:
        # It ends with an error also where one of several has no virtual drive.
        drives = readings.get("", f"{reading.what} vall")
        found = raid.of_storcli(reading.text, drives.text if drives else "")
    for each in found:
        yield _controller(each, reading)
    if not found and not raid.none_there(reading.text):
        name = f"the controllers that {reading.what} knows"
        cache = {devices.CONTROLLER_CACHE: fact_of(reading, lambda _: None)}
        yield Subject(SubjectKind.CONTROLLER, name, cache)


def _without_tool(driver: Reading, tools: Sequence[str]) -> Subject:
    """Return a controller that no tool shows, named by one of its drives."""
    why, remedy = "dbcheck knows no tool that shows this controller", ""
    if tools:
        why = f"none of these shows it: {', '.join(tools)}"
        remedy = "install one of them there"
    fact = Fact(None, driver.how, why, remedy)
    name = f"the controller of {driver.of} ({driver.text})"
    return Subject(SubjectKind.CONTROLLER, name, {devices.CONTROLLER_CACHE: fact})


def _controller(found: raid.Controller, reading: Reading) -> Subject:
    """Return a controller; what a tool shows and is not understood is not known."""
    how, unclear = reading.how, dict(found.unclear)
    if found.drives == "default":
        unclear["drives"] = "each drive has its own setting, which is not shown"
    none = reading.why or f"{reading.what} does not show it"
    why = unclear.get("cache", none)
    cache = Fact(found.cache, how, "" if found.cache else why, remedy_of(why))
    facts = {devices.CONTROLLER_CACHE: cache}
    others = {
        devices.DISK_CACHE: ("drives", found.drives),
        devices.LEARNING: ("battery", found.battery),
    }
    for fact, (name, value) in others.items():
        if name in unclear:
            facts[fact] = Fact(None, how, unclear[name])
        elif value:
            facts[fact] = Fact(value, how)
    return Subject(SubjectKind.CONTROLLER, found.name, facts)
