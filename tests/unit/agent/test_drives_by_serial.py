"""Drives by what does not change with their name: kinds that no test machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.agent.host import devices, drives, mounts


@pytest.fixture
def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(drives, "BLOCK", str(tmp_path))
    return tmp_path


def disk(block: Path, name: str, **files: str | bytes) -> Path:
    """Make a drive in /sys/class/block whose files have "/" for "__" in their names."""
    folder = block / name
    folder.mkdir()
    for file, content in files.items():
        path = folder / file.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_each_bus_has_a_place_for_the_serial(block: Path) -> None:
    disk(block, "nvme0n1", device__serial="S4EV  \n", nsid="1\n", dev="259:0\n")
    disk(block, "vda", serial="V1\n")
    disk(block, "sda", device__vpd_pg80=b"\x00\x80\x00\x08    ATA1\x00")
    disk(block, "sdb", device__wwid="naa.5000c500a1b2c3d4\n")
    disk(block, "sdc")
    serials = ["S4EV", "V1", "ATA1", "naa.5000c500a1b2c3d4", "S4"]
    assert drives.find_drives(serials) == {
        "S4EV": ["nvme0n1"],
        "V1": ["vda"],
        "ATA1": ["sda"],
        "naa.5000c500a1b2c3d4": ["sdb"],
        "S4": [],
    }


@pytest.mark.parametrize(
    ("files", "serial"),
    [
        ({"device__serial": "S4EV  \n"}, "S4EV"),
        ({"serial": "V1\n"}, "V1"),
        ({"device__vpd_pg80": b"\x00\x80\x00\x08    ATA1\x00"}, "ATA1"),
        ({}, ""),
    ],
)
def test_the_facts_of_a_drive_have_the_same_serial(
    block: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str | bytes],
    serial: str,
) -> None:
    monkeypatch.setattr(devices, "BLOCK", str(block))
    disk(block, "sda", **files)
    layer = {"name": "sda", "kind": "loop", "write_cache": ""}
    assert devices.describe_drive(layer, {})["serial"] == serial


def test_the_paths_of_one_drive_are_all_of_it(block: Path) -> None:
    for name in ("sda", "sdb"):
        disk(block, name, device__serial="S1")
    assert drives.find_drives(["S1"]) == {"S1": ["sda", "sdb"]}
    gone = drives.await_drives(["S1"], False, 0)
    assert gone == {"S1": ["sda", "sdb"]}, "a path is still there"


def test_a_hidden_path_to_a_drive_is_no_second_drive(block: Path) -> None:
    """As NVMe shows below each multipath device, also of a drive with one path."""
    disk(block, "nvme0c0n1", device__serial="S1", nsid="1", hidden="1\n")
    disk(block, "nvme0n1", device__serial="S1", nsid="1", hidden="0\n", dev="259:0")
    assert [part.name for part in drives.list_parts(["S1"])] == ["nvme0n1"]


def test_a_partition_is_found_under_another_name(
    block: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = disk(block, "sdb", device__serial="S1", dev="8:16")
    inside = folder / "sdb1"
    inside.mkdir()
    for file, content in (("partition", "1\n"), ("dev", "8:17\n")):
        (inside / file).write_text(content)
    (block / "sdb1").symlink_to(inside)
    found = {part.place: part.name for part in drives.list_parts(["S1"])}
    assert found == {("S1", "", "0"): "sdb", ("S1", "", "1"): "sdb1"}
    assert drives.list_serials("sdb1") == set()
    wanted = {"serial": "S1", "nsid": "", "number": "2"}
    assert drives.find_device_of_mount(wanted) == ""


def test_options_that_only_the_kernel_shows_are_left_out() -> None:
    line = "40 1 8:17 / /srv/a\\040b rw,noatime shared:3 - ext4 /dev/sdb1 rw,seclabel"
    mount = mounts.Mounted(line)
    assert (mount.id, mount.device, mount.root) == (40, "8:17", "/")
    assert mount.point == "/srv/a b"
    assert mount.options == "rw,noatime"
