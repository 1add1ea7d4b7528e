"""What the host's agent does with a filesystem on a drive that came back."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.agent.host import drives, mounts, remount
from dbcheck.agent.wire import Refusal
from dbcheck.lab import syscalls
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.storage.filesystem import LoopDevice
from tests.kit.drive_images import attached, make_filesystem, mount_of

pytestmark = pytest.mark.root


@pytest.fixture
def image(tmp_path: Path) -> Path:
    if lacking := list_missing(LabSpec("postgresql")):
        pytest.skip("; ".join(lacking))
    return tmp_path / "image"


@pytest.fixture(params=["ext4", "xfs"])
def drive(image: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    """Give the kind of a filesystem and the file that it was made in."""
    make_filesystem(image, request.param)
    yield request.param, image


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    """A folder to mount on; what is unmounted there is gone from labs beside us, too.

    As on any host that systemd started, where all mounts are shared.
    """
    path = tmp_path / "shared/point"
    path.mkdir(parents=True)
    subprocess.run(["mount", "--bind", path.parent, path.parent], check=True)
    try:
        subprocess.run(["mount", "--make-shared", path.parent], check=True)
        yield path
    finally:
        subprocess.run(["umount", "--recursive", path.parent], check=True)


@contextlib.contextmanager
def own_mounts() -> Iterator[None]:
    """Have a dozen processes hold a copy of all that is mounted."""
    copy = ["unshare", "--mount", "--propagation=private", "--pid", "--fork"]
    waiting = f"{'sleep 600 & ' * 12} echo; read _"  # until its input is closed
    with subprocess.Popen(
        [*copy, "--kill-child", "sh", "-c", waiting],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"\n"
        yield


def _with_another_below(device: LoopDevice, point: Path) -> list[str]:
    """Return what uses the drive while memory is mounted below its filesystem."""
    below = point / "below"
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", below], check=True)
    try:
        seen = drives.survey([device.serial], str(point), [], "/var/lib/dbcheck")
    finally:
        subprocess.run(["umount", below], check=True)
    found: list[str] = seen["busy"]
    return found


def test_a_sound_filesystem_is_mounted_taken_off_and_found_gone(
    drive: tuple[str, Path], point: Path
) -> None:
    kind, image = drive
    with attached(image) as device:
        noted = {**mount_of(kind, device, point), "options": "rw,nosuid,noatime"}
        (done,) = remount.put_back([noted], 60)
        assert (done["failure"], done["device"]) == ("", Path(device.path).name)
        try:
            assert os.path.ismount(point)
            seen = drives.survey([device.serial], str(point), [], str(point / "notes"))
            (mount,) = seen["mounts"]
            assert (mount["shown"], mount["type"], mount["inner"]) == (True, kind, "/")
            assert mount["point"] == str(point)
            assert mount["options"].startswith("rw,nosuid,noatime")
            assert not seen["exposed"]
            assert seen["on_them"] and not seen["busy"] and not seen["twins"]
            assert seen["notes_on_them"] == str(point / "notes")
            assert _with_another_below(device, point) == [
                f"{point}/below is mounted below {point}"
            ]
            with (point / "held").open("w"):
                kept = remount.take_off(seen["mounts"], 0.2)
                assert (kept["off"], kept["lazy"]) == ([False], [True])
                assert any(f"process {os.getpid()} " in one for one in kept["holders"])
            gone = remount.take_off(seen["mounts"], 5)
            assert gone["off"] == [True]
            assert gone["holders"] == []
        finally:
            if os.path.ismount(point):
                subprocess.run(["umount", point], check=True)
        assert drives.find_drives([device.serial]) == {device.serial: [device.path[5:]]}
        serial = device.serial
    assert drives.await_drives([serial], False, 5) == {serial: []}


def test_who_has_a_file_is_named_before_a_namespace_with_its_own_mounts(
    drive: tuple[str, Path], point: Path
) -> None:
    """A container's processes all have its mounts, and would fill the list."""
    kind, image = drive
    with attached(image) as device:
        remount.put_back([mount_of(kind, device, point)], 60)
        (mount,) = drives.survey([device.serial], str(point), [], "/none")["mounts"]
        with own_mounts():
            with (point / "held").open("w"):
                kept = remount.take_off([mount], 0.2)
            assert kept["off"] == [False]
            here, *others = kept["holders"]  # a lab of another test may be among them
            assert here.startswith(f"process {os.getpid()} (")
            assert here.endswith(", a file)")
            assert others
            assert all(other.endswith("a mount of its own)") for other in others)
        assert remount.take_off([mount], 5)["off"] == [True]


def test_what_something_else_unmounts_meanwhile_is_off(
    image: Path, point: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As systemd does once the drive of a mount is gone (systemd.mount(5))."""
    make_filesystem(image, "ext4")
    with attached(image) as device:
        remount.put_back([mount_of("ext4", device, point)], 60)
        (mount,) = drives.survey([device.serial], str(point), [], "/none")["mounts"]
        above = mounts.open_folder_above

        def slower(*place: Any) -> int:
            subprocess.run(["umount", point], check=True)
            return above(*place)

        monkeypatch.setattr(remount, "open_folder_above", slower)
        done = remount.take_off([mount], 1)
        assert (done["off"], done["refused"]) == ([True], {})
        monkeypatch.setattr(remount, "open_folder_above", above)
        same = {**mount_of("ext4", device, point), "id": mount["id"]}
        (back,) = remount.put_back([same], 60)  # the kernel gives it that number again
        assert back["failure"] == ""
        subprocess.run(["umount", point], check=True)


def test_nothing_is_mounted_over_another_filesystem(
    drive: tuple[str, Path], point: Path
) -> None:
    kind, image = drive
    with attached(image) as device:
        subprocess.run(["mount", "-t", "tmpfs", "another", point], check=True)
        try:
            (done,) = remount.put_back([mount_of(kind, device, point)], 60)
        finally:
            subprocess.run(["umount", point], check=True)
        assert "has another filesystem mounted on it, from another" in done["failure"]
        assert not done["damaged"]


@pytest.mark.timeout(30)  # who asks what waits there would wait for ever
def test_what_waits_to_mount_the_filesystem_is_not_asked_to(
    image: Path, point: Path
) -> None:
    """As systemd does, by autofs, for x-systemd.automount in fstab(5)."""
    if "autofs" not in Path("/proc/filesystems").read_text().split():
        pytest.skip("the kernel has no autofs")
    make_filesystem(image, "ext4")
    reader, writer = os.pipe()
    waiting = ["sleep", "600"]
    with attached(image) as device, subprocess.Popen(waiting, process_group=0) as other:
        options = f"fd={writer},pgrp={other.pid},minproto=5,maxproto=5,direct"
        try:
            syscalls.mount("systemd-1", str(point), "autofs", 0, options)
            (done,) = remount.put_back([mount_of("ext4", device, point)], 60)
            assert done["failure"] == ""
            (mount,) = drives.survey([device.serial], "/", [], "/none")["mounts"]
            assert mount["point"] == str(point)
            assert remount.take_off([mount], 5)["off"] == [True]
        finally:
            other.kill()
            subprocess.run(["umount", point], check=True)
            os.close(reader)
            os.close(writer)


def test_once_nothing_was_held_the_name_of_the_drive_says_nothing(
    drive: tuple[str, Path], tmp_path: Path
) -> None:
    """After the host was started again another drive may have it."""
    kind, image = drive
    with attached(image) as device:
        noted = mount_of(kind, device, tmp_path)
        subprocess.run(["mount", "-t", kind, device.path, tmp_path], check=True)
        try:
            assert remount.is_still_held(noted)
            assert not remount.is_still_held({**noted, "id": drives.GONE_ID})
        finally:
            subprocess.run(["umount", tmp_path], check=True)


def test_of_two_drives_with_one_serial_none_is_taken(
    drive: tuple[str, Path], tmp_path: Path
) -> None:
    kind, image = drive
    with attached(image) as device, attached(image) as twin:
        seen = drives.survey([device.serial], str(tmp_path), [], str(tmp_path))
        names = sorted(Path(each.path).name for each in (device, twin))
        assert seen["twins"] == [
            f"{names[0]} and {names[1]} have the serial {device.serial}"
        ]
        with pytest.raises(Refusal, match="have the serial"):
            remount.put_back([mount_of(kind, device, tmp_path)], 60)


def test_what_the_cut_left_of_a_filesystem_is_told_from_other_faults(
    drive: tuple[str, Path], tmp_path: Path
) -> None:
    kind, image = drive
    point = tmp_path / "point"
    with attached(image) as device:
        (none,) = remount.put_back([mount_of(kind, device, point)], 60)
        assert none["failure"], "the mount point is missing"
        assert not none["damaged"]
        point.mkdir()
        refused = mount_of(kind, device, point) | {"options": "rw,no-such-option"}
        (option,) = remount.put_back([refused], 60)
        assert option["failure"]
        assert not option["damaged"], option["failure"]
    with image.open("r+b") as file:
        # The first group's superblock, descriptors and inodes, or XFS's superblock.
        file.write(bytes(4 << 20 if kind == "ext4" else 512))
    with attached(image) as device:
        (torn,) = remount.put_back([mount_of(kind, device, point)], 60)
        assert torn["failure"]
        assert not os.path.ismount(point)
        assert torn["damaged"], torn["failure"]


def test_a_command_that_starts_a_server_is_run_with_what_it_prints() -> None:
    assert remount.run_program(["sh", "-c", "echo up; exit 3"], 5) == (3, "up")
    code, text = remount.run_program(["no-such-program"], 5)
    assert code == -1
    assert "no-such-program" in text
