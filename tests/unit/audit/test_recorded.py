"""What real tools printed about real kinds of storage becomes the facts that they show.

debian-12.json, which names their versions, was recorded by tools/guest.py.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dbcheck.audit import devices, storage
from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.stack import make_subjects
from dbcheck.audit.subject import Fact, Subject
from dbcheck.model.host import Reading, Readings, TargetFacts, Volume
from tests import recorded
from tests.kit.blockdevices import below, edges

RECORDED: Any = json.loads(
    (Path(recorded.__file__).parent / "debian-12.json").read_text()
)
FOUND, OFF, NOBODY = "as found", "switched off", "as nobody"
PAGE_BYTES = 16384
ON, NOT_ON = "enabled", "disabled"


@functools.cache
def facts_of(stage: str) -> TargetFacts:
    return msgspec.convert(RECORDED[stage]["facts"], TargetFacts)


@functools.cache
def subjects(stage: str) -> list[Subject]:
    readings = Readings(
        msgspec.convert(RECORDED[stage]["readings"], tuple[Reading, ...])
    )
    return make_subjects(facts_of(stage), readings, PAGE_BYTES, guarded=True)


def volume_of(stage: str, place: str) -> Volume:
    (found,) = (v for v in facts_of(stage).volumes if place in v.places)
    return found


def subject(stage: str, kind: SubjectKind, name: str) -> Subject:
    """Return what is known of a device, which its model or mapped name may follow."""
    (found,) = (
        s for s in subjects(stage) if s.kind is kind and s.name.split()[0] == name
    )
    return found


def drive(stage: str, serial: str) -> Subject:
    return subject(stage, SubjectKind.DRIVE, Path(RECORDED["disks"][serial]).name)


def layer_below(stage: str, place: str) -> Subject:
    """Return the device that is mounted there."""
    top = volume_of(stage, place).layers[0].name
    return subject(stage, SubjectKind.LAYER, top)


CACHES = {  # serial number -> as found, once the caches are off, and what shows it
    "VIRTIO-ON": (ON, NOT_ON, "cache_type"),
    "VIRTIO-OFF": (NOT_ON, NOT_ON, "cache_type"),
    "NVME-ON": (ON, NOT_ON, "nvme get-feature"),
    "NVME-OFF": (NOT_ON, NOT_ON, "nvme get-feature"),
    "NVME-TWO": (ON, ON, "nvme get-feature"),
    "ATA-ON": (ON, NOT_ON, "hdparm"),
    "ATA-OFF": (NOT_ON, NOT_ON, "hdparm"),
    "ATA-ODD": (ON, ON, "hdparm"),
    "SCSI-ON": (ON, NOT_ON, "sdparm"),
    "SCSI-OFF": (NOT_ON, NOT_ON, "sdparm"),
    "SCSI-FUA": (ON, ON, "sdparm"),
    "MEGASAS": (ON, ON, "sdparm"),
    "MPTSAS": (ON, ON, "sdparm"),
    "USB": (ON, ON, "sdparm"),
}


@pytest.mark.parametrize("serial", CACHES)
def test_the_write_cache_of_a_drive(serial: str) -> None:
    *expected, how = CACHES[serial]
    for stage, value in zip((FOUND, OFF), expected, strict=True):
        fact = drive(stage, serial).facts[devices.WRITE_CACHE]
        assert fact.value == value
        assert how in fact.how


@pytest.mark.parametrize(
    ("serial", "found", "off"),
    [
        ("ATA-ON", "sent", "not needed"),
        ("ATA-OFF", "not needed", "not needed"),
        ("ATA-ODD", "sent", "not sent"),  # the kernel's belief alone was changed
        ("VIRTIO-ON", "sent", "not needed"),
        ("NVME-ON", "sent", "sent"),
    ],
)
def test_whether_a_drive_gets_its_flushes(serial: str, found: str, off: str) -> None:
    for stage, value in ((FOUND, found), (OFF, off)):
        assert drive(stage, serial).facts[devices.FLUSHES].value == value


def test_an_account_without_rights_learns_what_it_lacks() -> None:
    facts = {s: drive(NOBODY, s).facts[devices.WRITE_CACHE] for s in CACHES}
    unknown = {serial for serial, fact in facts.items() if fact.value is None}
    # The kernel shows a volatile cache to everyone; that there is none it may assume.
    assert unknown == {
        *("NVME-ON", "NVME-OFF", "NVME-TWO"),
        *("ATA-ON", "ATA-OFF", "SCSI-OFF"),
    }
    lvm = layer_below(NOBODY, "lvmcache-writeback").facts[devices.CACHE_MODE]
    for fact in (*(facts[serial] for serial in unknown), lvm):
        assert fact.value is None
        assert "Permission denied" in fact.why
        assert "root" in fact.remedy


@pytest.mark.parametrize(
    ("place", "fact", "found", "off"),
    [
        ("lvmcache-writeback", devices.CACHE_MODE, "writeback", "writeback"),
        ("lvmcache-writethrough", devices.CACHE_MODE, "writethrough", "writethrough"),
        ("lvm-writecache", devices.CACHE_MODE, "writeback", "writeback"),
        ("bcache", devices.CACHE_MODE, "writeback", "writethrough"),
        ("md-raid5-journal", devices.JOURNAL_MODE, "write-through", "write-back"),
        ("md-raid5-journal", devices.WRITE_HOLE, "closed", "closed"),
        ("md-raid5-journal", devices.MISSING_DRIVES, "0", "0"),
        ("md-raid1", devices.MISSING_DRIVES, "0", "0"),
        ("md-raid1", devices.WRITE_BEHIND, "off", "off"),
        ("lvm", devices.TARGET, "linear", "linear"),
        ("lvm", devices.CACHE_MODE, None, None),
        ("loop", devices.LOOP, "yes", "yes"),
    ],
)
def test_the_layers_between_a_filesystem_and_its_drives(
    place: str, fact: str, found: str | None, off: str | None
) -> None:
    for stage, value in ((FOUND, found), (OFF, off)):
        shown = layer_below(stage, place).facts.get(fact, Fact(None, ""))
        assert shown.value == value


@pytest.mark.parametrize(
    ("place", "fact", "value"),
    [
        ("virtio", storage.BARRIER, "on"),
        ("ata-off", storage.BARRIER, "nobarrier"),
        ("ata-odd", storage.JOURNAL_MODE, "writeback"),
        ("virtio", storage.JOURNAL_MODE, "ordered"),
        ("mptsas", storage.DATA_COW, "off"),
        ("ata", storage.KIND, "local"),
    ],
)
def test_the_options_of_a_filesystem(place: str, fact: str, value: str) -> None:
    (found,) = (
        s
        for s in subjects(FOUND)
        if s.kind is SubjectKind.FILESYSTEM and s.name.split()[0] == place
    )
    assert found.facts[fact].value == value


@pytest.mark.parametrize(
    ("serial", "fact", "value"),
    [
        ("ATA-ON", devices.HEALTH, "passed"),
        ("NVME-ON", devices.HEALTH, "passed"),
        ("NVME-OFF", devices.ATOMIC, "smaller than a page"),
        ("SCSI-ON", "model", "FASTDISK"),
        ("SCSI-ON", "firmware", "1.01"),
        ("ATA-ODD", "model", 'Weird "Disk" (TM'),
        ("SCSI-FUA", "FUA", "1"),
    ],
)
def test_what_else_a_drive_shows(serial: str, fact: str, value: str) -> None:
    assert drive(FOUND, serial).facts[fact].value == value


PLACES: Mapping[str, Any] = RECORDED[FOUND]["findmnt"]


@pytest.mark.parametrize("place", PLACES)
def test_the_stack_is_what_lsblk_shows(place: str) -> None:
    layers = volume_of(FOUND, place).layers
    made_of = list(edges(RECORDED[FOUND]["lsblk"]["blockdevices"]))
    assert {layer.name for layer in layers} == below(layers[0].name, made_of)


@pytest.mark.parametrize("place", PLACES)
def test_the_filesystem_is_what_findmnt_shows(place: str) -> None:
    (shown,) = PLACES[place]["filesystems"]
    volume = volume_of(FOUND, place)
    assert volume.mount_point == shown["target"]
    assert volume.filesystem == shown["fstype"]
    assert volume.source == shown["source"]
    assert volume.mount_options.split(",") == shown["options"].split(",")
