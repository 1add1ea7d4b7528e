"""What no virtual drive can be is refused before one is made of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import click
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.groups import Verb, grouped
from dbcheck.cli.flags.lab import StorageOptions
from dbcheck.lab.spec import KEPT_WRITES, TIME_MAX, DriveSpec, LabSpec
from tests.kit.refusals import refused


@pytest.mark.parametrize("name", ["flush_ms", "write_ms", "destage_age_s"])
@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -0.5, TIME_MAX + 1, "1", None, True, [1.0]]
)
def test_a_time_is_a_number_that_one_can_wait_for(name: str, value: Any) -> None:
    with refused(ErrorId.VALUE_INVALID, UsageError, naming=name) as caught:
        DriveSpec(**{name: value})
    assert caught.value.hint
    assert getattr(DriveSpec(**{name: TIME_MAX}), name) == TIME_MAX  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["size_bytes", "cache_bytes", "seed"])
@pytest.mark.parametrize("value", [1048576.0, "1048576", None, [1]])
def test_sizes_and_seeds_are_whole_numbers(name: str, value: Any) -> None:
    with refused(ErrorId.VALUE_INVALID, UsageError, naming=name):
        replace(DriveSpec(), **{name: value})


@pytest.mark.parametrize("value", [math.nan, -0.1, 1.1, "1"])
def test_a_share_is_one(value: Any) -> None:
    with refused(ErrorId.VALUE_INVALID, UsageError, naming="lie_fraction"):
        DriveSpec(lie_fraction=value)


def test_every_kind_of_survivors_can_be_drawn() -> None:
    assert [DriveSpec(kept_writes=kind, seed=-1).kept_writes for kind in KEPT_WRITES]
    with refused(ErrorId.VALUE_INVALID, UsageError, naming="kept_writes"):
        DriveSpec(kept_writes=["none"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"engine": "mariabd"}, "postgresql, mariadb, mysql, myrocks. Is it mariadb?"),
        ({"cut": "step"}, "drive, process"),
        ({"filesystem": "zfs\n"}, "xfs, ext4"),
        ({"write_cache": "back"}, "auto, write back, write through"),
    ],
)
def test_a_lab_is_of_what_there_is(change: dict[str, str], hint: str) -> None:
    with refused(
        ErrorId.VALUE_INVALID, UsageError, naming=next(iter(change))
    ) as caught:
        LabSpec(**{"engine": "mysql"} | change)  # type: ignore[arg-type]
    assert hint in caught.value.hint


@click.command(cls=Verb)
@grouped
def described(storage: StorageOptions) -> DriveSpec:
    return DriveSpec(seed=5, **storage.of_drive)


def test_each_flag_reaches_the_drive() -> None:
    words = "--drive failing --honest-flushes 7 --newest-bytes 9 --lost-above 5000"
    words += " --tear-at 4096 --forget-at 512 --forget 1024 --cache-mib 3"
    found = described.main(words.split(), standalone_mode=False)
    assert found == DriveSpec(
        "failing",
        honest_flushes=7,
        newest_bytes=9,
        lost_above_bytes=5000,
        tear_bytes=4096,
        forget_at_bytes=512,
        forget_bytes=1024,
        cache_bytes=3 << 20,
        seed=5,
    )


def test_a_lab_of_an_earlier_version_has_a_drive_without_these_faults() -> None:
    values = LabSpec("mysql").to_values()
    faults = ("lost_above_bytes", "tear_bytes", "forget_at_bytes", "forget_bytes")
    for name in (*faults, "honest_flushes", "newest_bytes"):
        del values["drive"][name]
    assert LabSpec.from_json(json.dumps(values)) == LabSpec("mysql")


@pytest.mark.parametrize("option", ["logdev=/dev/sda1", "journal_dev=2049"])
def test_a_lab_has_no_other_devices_than_its_own(option: str) -> None:
    """As a recording of somebody else's would have root mount it."""
    spec = LabSpec("mysql", mount_options="noatime,nobarrier")
    text = spec.to_json().replace("noatime", option)
    with refused(ErrorId.LAB_DECIDES_SETTING, UsageError, naming=option):
        LabSpec.from_json(text)


@pytest.mark.parametrize("options", ['noatime,x-a="', "a\\", "noatime\nsuid"])
def test_a_mount_option_that_swallows_the_labs_own_is_refused(options: str) -> None:
    """To libmount an open quotation mark makes nosuid and nodev a part of x-a."""
    with refused(
        ErrorId.LAB_DECIDES_SETTING,
        UsageError,
        naming=("the mount options", "hold a quotation mark"),
    ):
        LabSpec("postgresql", mount_options=options)
