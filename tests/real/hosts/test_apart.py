"""Filesystems whose journal has a device of its own, as their host shows them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.hosts.host import open_host
from dbcheck.lab import mounts
from dbcheck.lab.storage import filesystem as block_filesystem
from dbcheck.model.host import Volume
from tests.kit.drive_mounts import own_mounts as own_mounts

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]

MIB = 1 << 20


@contextlib.contextmanager
def loop(file: Path, size: int) -> Iterator[str]:
    """Give a loop device of *size* bytes."""
    file.touch()
    with file.open("r+b") as made:
        made.truncate(size)
    command = ["losetup", "--find", "--show", "--direct-io=on", str(file)]
    device = subprocess.run(command, check=True, capture_output=True, text=True)
    try:
        yield device.stdout.strip()
    finally:
        subprocess.run(["losetup", "--detach", device.stdout.strip()], check=True)


@contextlib.contextmanager
def mounted(device: str, folder: Path, kind: str, options: str = "") -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    block_filesystem.mount(device, folder, kind, options)
    try:
        yield
    finally:
        mounts.umount(folder)


def facts_of(folder: Path) -> Volume:
    with contextlib.closing(open_host("local:")) as host:
        return host.facts(str(folder)).data


def mkfs(kind: str, *arguments: str) -> None:
    subprocess.run([f"mkfs.{kind}", "-q", *arguments], check=True)


def test_a_journal_on_a_device_of_its_own_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "mnt"
    with (
        loop(tmp_path / "files", 320 * MIB) as files,
        loop(tmp_path / "log", 80 * MIB) as log,
    ):
        mkfs("ext4", "-O", "journal_dev", log)
        mkfs("ext4", "-J", f"device={log}", files)
        with mounted(files, folder, "ext4"):
            ext4 = facts_of(folder)
        mkfs("xfs", "-f", "-l", f"logdev={log}", files)
        with mounted(files, folder, "xfs", f"logdev={log}"):
            xfs = facts_of(folder)
        mkfs("ext4", "-F", files)
        with mounted(files, folder, "ext4"):
            inside = facts_of(folder)
        mkfs("ext4", "-F", "-O", "^has_journal", files)
        with mounted(files, folder, "ext4"):
            none = facts_of(folder)
    data, journal = Path(files).name, Path(log).name
    for found in (ext4, xfs):
        assert found.apart == {"journal": journal}
        assert found.file_drives == [data]
        assert [drive.name for drive in found.drives] == [data, journal]
        assert found.named == f"data ({data}; journal on {journal})"
    for found in (inside, none):
        assert (found.apart, found.file_drives) == ({}, [data])
    assert not any("journal" in found.unreadable for found in (ext4, xfs, inside, none))
