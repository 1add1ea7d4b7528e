"""A journal on a drive of its own caps what a cut may be said to have reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.agent.host import devices as host_apart
from dbcheck.judge.item import Status
from dbcheck.judge.volumes import find_least_depth, find_volume_depths
from dbcheck.judge.watched import places as places_item
from dbcheck.model.depth import Depth
from dbcheck.model.host import HostBefore, Layer, Volume, VolumeCanaries
from tests.kit.cases import case
from tests.kit.host_samples import FACTS, VOLUME
from tests.kit.place_samples import DONE, LEFT, after


def layer(name: str, *below: str) -> Layer:
    return Layer(name, "disk", "", "", "", "write back", "0", below)


SDA, SDB = VOLUME.drives[0], replace(VOLUME.drives[0], name="sdb", serial="s2")
OTHER_DRIVE = replace(
    VOLUME,
    filesystem="ext4",
    layers=(layer("sda1", "sda"), layer("sdb1", "sdb"), layer("sda"), layer("sdb")),
    drives=(SDA, SDB),
    apart={"journal": "sdb1"},
)
SAME_DRIVE = replace(
    VOLUME,
    layers=(layer("sda1", "sda"), layer("sda2", "sda"), layer("sda")),
    apart={"journal": "sda2"},
)
NOT_SHOWN = replace(VOLUME, unreadable={"journal": "/proc/fs/jbd2: Permission denied"})
ON_SDB = replace(VOLUME, places={"WAL": "/wal"}, drives=(SDB,), filesystem_uuid="u2")
NO_DRIVE = replace(OTHER_DRIVE, drives=(), layers=())


@pytest.mark.parametrize(
    ("volumes", "cut", "claim", "said"),
    [
        pytest.param(
            [OTHER_DRIVE],
            Depth.DRIVE,
            Depth.OS,
            "the journal of data (sdb) takes no canaries",
            id="another drive",
        ),
        pytest.param([OTHER_DRIVE], Depth.PROCESS, Depth.PROCESS, "", id="no cut"),
        pytest.param([OTHER_DRIVE], Depth.OS, Depth.OS, "", id="no more was seen"),
        pytest.param([SAME_DRIVE], Depth.DRIVE, Depth.DRIVE, "", id="the same drive"),
        pytest.param(
            [OTHER_DRIVE, ON_SDB], Depth.DRIVE, Depth.DRIVE, "", id="seen by another"
        ),
        pytest.param(
            [NOT_SHOWN],
            Depth.DRIVE,
            Depth.OS,
            "where the journal of data lies is not known (/proc/fs/jbd2: Permission",
            id="not shown",
        ),
        pytest.param(
            [NO_DRIVE], Depth.DRIVE, Depth.OS, "(sdb1) takes no", id="drives unknown"
        ),
    ],
)
def test_a_journal_apart_caps_the_claim(
    volumes: list[Volume], cut: Depth, claim: Depth, said: str
) -> None:
    facts = replace(FACTS, volumes=tuple(volumes))
    others = volumes[1:]
    elsewhere = tuple(VolumeCanaries("/c", "m") for _ in others)
    before = HostBefore(facts, "/c", "n", "", {}, elsewhere)
    left = [LEFT[cut] for _ in others]
    host = after(LEFT[cut], *left, facts=facts)
    depths = find_volume_depths(before, DONE, [DONE for _ in others], host)
    found = find_least_depth(depths, facts)
    assert found is not None
    assert found.depth is claim
    assert said in found.reasons[0]
    item = places_item(case(before))
    assert item is not None
    if said:
        assert item.status is Status.NOT_OBSERVABLE
        assert said in item.reason


def test_drives_of_a_journal_are_named_as_such() -> None:
    assert OTHER_DRIVE.named == "data (sda; journal on sdb)"
    assert SAME_DRIVE.file_drives == ["sda"]


@pytest.mark.parametrize(
    ("journals", "task", "comm", "found", "known"),
    [
        (["dm-0-8", "dm-1"], "<none>", "", {}, True),
        (["sdb1"], "<none>", "", {}, True),
        (["sdb1-8", "sdc"], "77", "jbd2/sdc", {"journal": "sdc"}, True),
        (["sda10-8", "sdc"], "77", "jbd2/sdc", {"journal": "sdc"}, True),
        (["cciss!c0d0p1-8"], "0", "", {}, False),
        (["nvme10n1p10"], "77", "jbd2/nvme10n1p1", {}, False),
        ([], "", "", {}, False),
        (None, "77", "jbd2/sdc", {}, False),
    ],
)
def test_the_journal_of_ext4_is_found_by_its_thread(
    journals: list[str] | None,
    task: str,
    comm: str,
    found: Mapping[str, str],
    known: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = "dm-0" if journals and "dm-0-8" in journals else "sda1"
    files: dict[str, Any] = {
        f"ext4/{device}/journal_task": task,
        f"proc/{task}/comm": comm,
        **{f"jbd2/{name}/info": "" for name in journals or ()},
    }
    (tmp_path / "jbd2").mkdir()
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}\n")
    jbd2 = "jbd2" if journals is not None else "none"
    monkeypatch.setattr(host_apart, "JBD2", str(tmp_path / jbd2))
    monkeypatch.setattr(host_apart, "EXT4", str(tmp_path / "ext4"))
    monkeypatch.setattr(host_apart, "PROCESSES", str(tmp_path / "proc"))
    apart, why = host_apart.find_separate_devices(
        {"type": "ext4", "options": "rw"}, device
    )
    assert (apart, not why) == (found, known)


def test_other_filesystems_name_their_devices_or_have_none() -> None:
    options = r"rw,logdev=/dev/mapper/a\040b,rtdev=/dev/sdd,noquota"
    named = {"journal": "/dev/mapper/a b", "realtime section": "/dev/sdd"}
    assert host_apart.find_separate_devices(
        {"type": "xfs", "options": options}, "sda"
    ) == (named, "")
    for kind in ("ext2", "btrfs", "tmpfs", ""):
        assert host_apart.find_separate_devices(
            {"type": kind, "options": "rw"}, ""
        ) == ({}, "")
