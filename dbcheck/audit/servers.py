"""A server and the settings of its accounts and databases as subjects of the audit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dbcheck.audit import storage
from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.rules import facts_of
from dbcheck.audit.stack import kernel_of, record_bytes, unseen, volatile
from dbcheck.audit.subject import Fact, Subject
from dbcheck.model.audited import OtherSettings
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


def server_subject(
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
    names = dict.fromkeys((*facts_of(family.name), *server.settings))
    facts = {
        name: Fact(server.settings[name], how)
        for name in names
        if name in server.settings
    }
    for name in _hidden(family, server):
        facts[name] = Fact(None, how, "the account may not see it", remedy)
    built_for = server.platform or server.settings.get("version_compile_os", "")
    facts["platform"] = Fact(
        platform_of(built_for), "select version(); or its variable"
    )
    facts[storage.WHOLE_PAGES] = _yes(
        _writes_whole_pages(host, readings, family.page_bytes)
    )
    facts[storage.SYNCFS_REPORTS] = _syncfs(kernel_of(readings), unasked)
    facts.update(_of_places(host, readings, unasked))
    name = f"{server.product} {server.version}"
    return Subject(
        SubjectKind.SERVER,
        name,
        facts,
        product=server.product,
        version=version_of(server.version),
    )


def other_subjects(server: Subject, found: Iterable[OtherSettings]) -> list[Subject]:
    """Return whose settings differ from those of the sessions of *server*."""
    return [
        replace(
            server,
            name=each.whose,
            facts={
                **server.facts,
                **{name: Fact(text, each.how) for name, text in each.settings.items()},
            },
            own=frozenset(each.settings),
        )
        for each in found
    ]


def version_of(text: str) -> tuple[int, ...]:
    """Return a version's numbers, () if it begins with none."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def platform_of(text: str) -> str:
    """Return the system that a server was built for, by what PostgreSQL prints."""
    found = (name for word, name in _PLATFORMS.items() if word in text.lower())
    return next(found, "other")


def _hidden(family: Family, server: ServerFacts) -> Sequence[str]:
    """Return the settings that such a server has and the account cannot see."""
    if family.unread not in server.unreadable:
        return ()
    return [name for name in family.hidden if name not in server.settings]


def _yes(value: bool) -> Fact:
    return Fact("yes" if value else "no", "/proc/self/mountinfo")


def _writes_whole_pages(
    host: TargetFacts | None, readings: Readings, page_bytes: int
) -> bool:
    """Say whether all lies on ZFS, with records that are known to hold a page.

    ZFS never commits a part of a record (OpenZFS documentation, Workload Tuning).
    """
    if host is None or host.unseen:
        return False
    return all(
        volume.filesystem == _COPIES_ON_WRITE
        and (record_bytes(volume.source, readings) or 0) >= page_bytes
        for volume in host.volumes
    )


def _syncfs(kernel: tuple[int, ...], unasked: str) -> Fact:
    """Return whether syncfs(2) reports errors of writing, as since Linux 5.8."""
    if not kernel:
        return unseen(unasked)
    reports = kernel >= _SYNCFS_REPORTS_SINCE
    return Fact("yes" if reports else "no", "/proc/sys/kernel/osrelease")


def _of_places(
    host: TargetFacts | None, readings: Readings, unasked: str
) -> Mapping[str, Fact]:
    """Return which drives the places share, and whether those have volatile caches."""
    names = (storage.SHARED_DRIVE, storage.VOLATILE_DOUBLEWRITE)
    if host is None:
        return dict.fromkeys(names, unseen(unasked))
    how = "the server's directories and /sys/class/block"
    facts = dict.fromkeys(names, Fact(None, how, "their drives are not known"))
    redo, data = _drives(host, _REDO), _drives(host, _DATA)
    if redo and data:
        facts[storage.SHARED_DRIVE] = Fact("yes" if redo == data else "no", how)
    for name in _DOUBLEWRITE:
        if volumes := _volumes(host, {name}):
            known = _volatile(volumes, readings)
            if known is not None:
                value = "yes" if known else "no"
                facts[storage.VOLATILE_DOUBLEWRITE] = Fact(value, how)
            break
    return facts


def _volumes(host: TargetFacts, places: Iterable[str]) -> list[Volume]:
    """Return the volumes that hold one of *places*, numbered or with its files."""
    wanted = tuple(places)
    return [
        volume
        for volume in host.volumes
        if any(
            re.sub(r"( files)?( \d+)?$", "", name) in wanted for name in volume.places
        )
    ]


def _drives(host: TargetFacts, places: Iterable[str]) -> frozenset[str]:
    found = (volume.file_drives for volume in _volumes(host, places))
    return frozenset(name for names in found for name in names)


def _volatile(volumes: Sequence[Volume], readings: Readings) -> bool | None:
    """Say whether a drive of the volumes has a volatile cache, None if unknown."""
    states = [
        volatile(
            drive,
            next((x for x in each.layers if x.name == drive.name), None),
            readings,
        )
        for each in volumes
        for drive in each.drives
    ]
    if any(states):
        return True
    return None if None in states or not states else False
