"""A server and the settings of its accounts and databases as subjects of the audit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dbcheck.audit import storage
from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.rules import list_facts_of_family
from dbcheck.audit.stack import (
    is_drive_volatile,
    make_unseen_fact,
    parse_kernel_release,
    read_record_bytes,
)
from dbcheck.audit.subject import Fact, Subject
from dbcheck.model.audited import ScopedSettings
from dbcheck.model.family import Family
from dbcheck.model.host import Readings, TargetFacts, Volume
from dbcheck.model.places import DATA, REDO_LOG, TABLE
from dbcheck.model.server import ServerFacts

_COPIES_ON_WRITE = "zfs"  # the filesystem's name in /proc/mounts
_SYNCFS_REPORTS_SINCE = (5, 8)
_PLATFORMS = {
    "darwin": "macos",
    "macos": "macos",
    "osx": "macos",
    "mingw": "windows",
    "visual c++": "windows",
    "win64": "windows",
    "windows": "windows",
}
_REDO = {REDO_LOG}
_DATA = {DATA, "system tablespace", "database", TABLE, "undo"}
_DOUBLEWRITE = ("doublewrite", DATA)  # the files' own folder, or the data directory


def make_server_subject(
    family: Family,
    server: ServerFacts,
    host: TargetFacts | None,
    readings: Readings,
    unasked: str = "",
) -> Subject:
    """Return the server as its sessions see it, with what depends on its storage.

    host: None if it was not asked; what depends on it is then not known.
    unasked: why it could not be asked.
    """
    how, remedy = family.settings_source, family.settings_grant
    names = dict.fromkeys((*list_facts_of_family(family.name), *server.settings))
    facts = {
        name: Fact(server.settings[name], how)
        for name in names
        if name in server.settings
    }
    for name in _list_hidden_settings(family, server):
        facts[name] = Fact(None, how, "the account may not see it", remedy)
    built_for = server.platform or server.settings.get("version_compile_os", "")
    facts["platform"] = Fact(
        parse_platform(built_for), "select version(); or its variable"
    )
    facts[storage.WHOLE_PAGES] = _make_yes_or_no_fact(
        _writes_whole_pages(host, readings, family.page_bytes)
    )
    facts[storage.SYNCFS_REPORTS] = _make_syncfs_fact(
        parse_kernel_release(readings), unasked
    )
    facts.update(_make_facts_of_places(host, readings, unasked))
    name = f"{server.product} {server.version}"
    return Subject(
        SubjectKind.SERVER,
        name,
        facts,
        product=server.product,
        version=parse_version(server.version),
    )


def make_other_subjects(
    server: Subject, found: Iterable[ScopedSettings]
) -> list[Subject]:
    """Return a subject for each account or database with settings of its own.

    These settings differ from the settings of dbcheck's own sessions on *server*.
    """
    return [
        replace(
            server,
            name=scoped.whose,
            facts={
                **server.facts,
                **{
                    name: Fact(text, scoped.how)
                    for name, text in scoped.settings.items()
                },
            },
            own=frozenset(scoped.settings),
        )
        for scoped in found
    ]


def parse_version(text: str) -> tuple[int, ...]:
    """Return a version's numbers, () if it begins with none."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def parse_platform(text: str) -> str:
    """Return the system that a server was built for, by what PostgreSQL prints."""
    found = (name for word, name in _PLATFORMS.items() if word in text.lower())
    return next(found, "other")


def _list_hidden_settings(family: Family, server: ServerFacts) -> Sequence[str]:
    """Return the settings that such a server has and the account cannot see."""
    if family.unread not in server.unreadable:
        return ()
    return [name for name in family.hidden if name not in server.settings]


def _make_yes_or_no_fact(value: bool) -> Fact:
    return Fact("yes" if value else "no", "/proc/self/mountinfo")


def _writes_whole_pages(
    host: TargetFacts | None, readings: Readings, page_bytes: int
) -> bool:
    """Return True if all lies on ZFS, with records that are known to hold a page.

    ZFS never commits a part of a record (OpenZFS documentation, Workload Tuning).
    """
    if host is None or host.unseen:
        return False
    return all(
        volume.filesystem == _COPIES_ON_WRITE
        and (read_record_bytes(volume.source, readings) or 0) >= page_bytes
        for volume in host.volumes
    )


def _make_syncfs_fact(kernel: tuple[int, ...], unasked: str) -> Fact:
    """Make the fact whether syncfs(2) reports errors of writing, as since Linux 5.8."""
    if not kernel:
        return make_unseen_fact(unasked)
    reports = kernel >= _SYNCFS_REPORTS_SINCE
    return Fact("yes" if reports else "no", "/proc/sys/kernel/osrelease")


def _make_facts_of_places(
    host: TargetFacts | None, readings: Readings, unasked: str
) -> Mapping[str, Fact]:
    """Make facts of the drives that the places share, and of their volatile caches."""
    names = (storage.SHARED_DRIVE, storage.VOLATILE_DOUBLEWRITE)
    if host is None:
        return dict.fromkeys(names, make_unseen_fact(unasked))
    how = "the server's directories and /sys/class/block"
    facts = dict.fromkeys(names, Fact(None, how, "their drives are not known"))
    redo, data = _list_drives(host, _REDO), _list_drives(host, _DATA)
    if redo and data:
        facts[storage.SHARED_DRIVE] = Fact("yes" if redo == data else "no", how)
    for name in _DOUBLEWRITE:
        if volumes := _select_volumes(host, {name}):
            known = _has_volatile_drive(volumes, readings)
            if known is not None:
                value = "yes" if known else "no"
                facts[storage.VOLATILE_DOUBLEWRITE] = Fact(value, how)
            break
    return facts


def _select_volumes(host: TargetFacts, places: Iterable[str]) -> list[Volume]:
    """Return the volumes that hold one of *places*, numbered or with its files."""
    wanted = tuple(places)
    return [
        volume
        for volume in host.volumes
        if any(
            re.sub(r"( files)?( \d+)?$", "", name) in wanted for name in volume.places
        )
    ]


def _list_drives(host: TargetFacts, places: Iterable[str]) -> frozenset[str]:
    found = (volume.file_drives for volume in _select_volumes(host, places))
    return frozenset(name for names in found for name in names)


def _has_volatile_drive(volumes: Sequence[Volume], readings: Readings) -> bool | None:
    """Return True if a drive of the volumes has a volatile cache, None if unknown."""
    states = [
        is_drive_volatile(
            drive,
            next((layer for layer in volume.layers if layer.name == drive.name), None),
            readings,
        )
        for volume in volumes
        for drive in volume.drives
    ]
    if any(states):
        return True
    return None if None in states or not states else False
