"""Which block devices a filesystem is made of, where its number does not tell."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dbcheck.agent.host import devices, drives
from dbcheck.agent.host.facts import Volume
from dbcheck.agent.host.mounts import Mounted
from dbcheck.agent.wire import list_mounts
from dbcheck.lab import syscalls
from dbcheck.lab.storage import filesystem
from tests.kit.drive_mounts import own_mounts as own_mounts

SIZE = 300 << 20


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[list[str]]:
    """Two block devices of this machine."""
    with ExitStack() as held:
        paths = []
        for number in range(2):
            file = os.open(tmp_path / f"drive{number}", os.O_RDWR | os.O_CREAT)
            os.truncate(file, SIZE)
            paths.append(held.enter_context(filesystem.attach(file)).path)
            os.close(file)
        yield paths


@pytest.fixture
def btrfs(own_mounts: None, loops: list[str], tmp_path: Path) -> Iterator[Path]:
    """A Btrfs on both of them."""
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("btrfs-progs is not installed")
    made = ("mkfs.btrfs", "--quiet", "--data", "raid1", *loops)
    subprocess.run(made, check=True, capture_output=True)
    point = tmp_path / "point"
    point.mkdir()
    syscalls.mount(loops[1], str(point), "btrfs", 0, f"device={loops[0]}")
    yield point
    syscalls.umount(str(point))


@pytest.mark.root
def test_all_devices_of_a_btrfs_are_found(
    btrfs: Path, loops: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(os.path.basename(loop) for loop in loops)
    data = btrfs / "data"
    data.mkdir()

    def layers(source: str = "") -> tuple[list[str], dict[str, str]]:
        volume = Volume(str(data))
        volume.mount["source"] = source or volume.mount["source"]
        shown = sorted(layer["name"] for layer in volume.layers())
        return shown, volume.unreadable

    for source in ("", "/dev/root", "/dev/mapper/renamed", "UUID=1"):
        assert layers(source) == (names, {})
    assert Volume(str(data)).uuid() == devices.read_btrfs_id(str(data))[0]
    # Who may not look into the folder learns it by the name of one of its devices.
    monkeypatch.setattr(devices, "read_btrfs_id", refused)
    assert layers() == (names, {})
    shown, unreadable = layers("/dev/root")
    assert shown == []
    assert "no block device" in unreadable["layers"]
    monkeypatch.setattr(devices, "read_btrfs_id", lambda _: ("0" * 36, 2))
    shown, unreadable = layers()
    assert shown == []
    assert "No such file" in unreadable["layers"]


def refused(_: str) -> tuple[str, int]:
    raise PermissionError(13, "Permission denied")


@pytest.mark.root
def test_a_btrfs_of_which_a_device_is_missing_is_not_known(
    btrfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity, count = devices.read_btrfs_id(str(btrfs))
    assert count == 2
    monkeypatch.setattr(devices, "read_btrfs_id", lambda _: (identity, 3))
    volume = Volume(str(btrfs))
    assert volume.layers() == []
    assert "2 of its 3 devices are there" in volume.unreadable["layers"]


@pytest.mark.root
def test_a_drive_below_a_filesystem_of_several_is_in_use(
    btrfs: Path, loops: list[str], tmp_path: Path
) -> None:
    """It would stay in memory over a drive that lost its power."""
    for loop in loops:
        serial = drives.identify_loop_file(os.path.basename(loop))
        assert drives.find_drives([serial])[serial] == [os.path.basename(loop)]
        found = drives.survey([serial], str(tmp_path), [], str(tmp_path / "notes"))
        (busy,) = found["busy"]
        assert busy.startswith(os.path.basename(loop) + " is a part of btrfs")


def line(kind: str, source: str) -> str:
    """Return a line of mountinfo (proc(5))."""
    return f"36 35 0:57 / /srv rw,relatime shared:1 - {kind} {source} rw,errors=ro\n"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up /sys with three drives."""
    for number, name in enumerate(("sda", "sdb", "nvme0n1p2")):
        (tmp_path / "devices" / name).mkdir(parents=True)
        (tmp_path / "block").mkdir(exist_ok=True)
        (tmp_path / "block" / name).symlink_to(tmp_path / "devices" / name)
        (tmp_path / "numbers").mkdir(exist_ok=True)
        link = tmp_path / "numbers" / f"8:{number}"
        link.symlink_to(tmp_path / "devices" / name)
    monkeypatch.setattr(devices, "BLOCK", str(tmp_path / "block"))
    monkeypatch.setattr(devices, "NUMBERED", str(tmp_path / "numbers"))
    monkeypatch.setattr(devices, "BTRFS", str(tmp_path / "btrfs"))
    return tmp_path


def shown(
    kind: str, source: str, host: Path, number: str = "0:57"
) -> tuple[list[str], str]:
    """Return what is made of a line of mountinfo, by names."""
    table = host / "mountinfo"
    table.write_text(line(kind, source))
    (mount,) = list_mounts(str(table))
    found, why = devices.find_device_folders(mount, number, str(host))
    return [os.path.basename(each) for each in found], why


@pytest.mark.parametrize(
    ("kind", "source", "found"),
    [
        ("bcachefs", "/dev/sda:/dev/sdb", ["sda", "sdb"]),
        ("bcachefs", "/dev/sdb:/dev/sda:/dev/nvme0n1p2", ["sdb", "sda", "nvme0n1p2"]),
        ("bcachefs", "/dev/sdb", ["sdb"]),
        ("bcachefs", "/dev/sdb:/dev/sdb", ["sdb"]),
        ("btrfs", "/dev/sdb", []),  # of which the kernel shows nothing
        ("zfs", "tank/db", []),
        ("overlay", "overlay", []),
        ("bcachefs", "/dev/sda:/dev/none", []),
        ("bcachefs", "UUID=6d0c5ea4-4f33-4d3f-8a9c-9f3a5a1d2b11", []),
        ("nfs4", "server:/dev/sda", []),
        ("fuse.sshfs", "/dev/sda", []),
        ("tmpfs", "/dev/zero", []),
        ("ext4", "LABEL=data", []),
    ],
)
def test_all_devices_or_none_are_known(
    kind: str, source: str, found: list[str], host: Path
) -> None:
    names, why = shown(kind, source, host)
    assert names == found
    assert bool(why) is not bool(found)
    assert not why or source in why


@pytest.mark.parametrize(
    "source", ["/dev/root", "/dev/sda", "LABEL=data", "UUID=1", "rootfs", "none"]
)
@pytest.mark.parametrize("kind", ["ext4", "xfs", "f2fs", "fuseblk"])
def test_the_number_of_a_filesystem_tells_before_its_source(
    kind: str, source: str, host: Path
) -> None:
    """A drive that was found again has another name than when it was mounted."""
    assert shown(kind, source, host, "8:1") == (["sdb"], "")


def test_a_name_with_colons_is_one_name(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As udev has them below /dev/disk/by-path."""
    monkeypatch.setattr(devices, "find_block_folder", lambda device: "/" + device[-3:])
    source = "/dev/disk/by-path/pci-0000:00:1f.2-ata-1:/dev/sdb"
    assert shown("bcachefs", source, host) == (["a-1", "sdb"], "")


def test_parts_of_bcachefs_are_in_use(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line("bcachefs", "/dev/sda:/dev/sdb"), line("fuse.x", "/dev/nvme0n1p2")]
    monkeypatch.setattr(drives, "read_mounts", lambda: map(Mounted, lines))
    monkeypatch.setattr(drives, "BTRFS", str(host / "btrfs"))
    busy = drives.find_multi_device_parts({"sda": 1, "nvme0n1p2": 2})
    assert busy == ["sda is a part of bcachefs on /srv"]
