"""Files of a server that are mounted from another filesystem."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.agent.host.data import find_links_in
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.hosts.host import open_host
from dbcheck.lab import mounts, programs, syscalls
from dbcheck.lab.storage.filesystem import attach
from dbcheck.model.places import Place
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

MS_BIND = 4096  # mount(2), linux/mount.h

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]


@contextlib.contextmanager
def mounted(source: str, on: Path, kind: str, flags: int = 0) -> Iterator[None]:
    syscalls.mount(source, str(on), kind, flags)
    try:
        yield
    finally:
        mounts.umount(on)


def test_a_file_that_is_mounted_has_a_volume_of_its_own(tmp_path: Path) -> None:
    """Canaries are beside the real file, where its filesystem is mounted too."""
    data, disk = tmp_path / "data", tmp_path / "disk"
    for folder in (data, disk):
        folder.mkdir()
    (data / "ib_logfile0").touch()
    places = [Place("data", str(data)), Place("redo log", str(data), ("ib_logfile*",))]
    with contextlib.closing(open_host("local:")) as host:
        with contextlib.ExitStack() as stack:
            with mounted("dbcheck", disk, "tmpfs"):
                (disk / "log").mkdir()
                file = disk / "log/file"
                file.touch()
                stack.enter_context(
                    mounted(str(file), data / "ib_logfile0", "none", MS_BIND)
                )
                shown = host.facts(str(data), places)
                beside = shown.volumes[1].places["redo log files"]
                canaries = host.start_canaries(beside)
                canaries.stop()
                host.remove_canaries(canaries.folder)
            hidden = host.facts(str(data), places)
            with refused(
                ErrorId.CANARY_FOLDER_NOT_WRITABLE,
                HostError,
                naming="is a single file that is mounted",
            ):
                host.start_canaries(hidden.volumes[1].places["redo log files"])
        none = host.facts(str(data), places)
    assert dict(shown.volumes[1].places) == {"redo log files": str(disk / "log")}
    assert Path(canaries.folder).is_relative_to(disk)
    assert dict(hidden.volumes[1].places) == {
        "redo log files": str(data / "ib_logfile0")
    }
    assert [each.volumes[1].filesystem for each in (shown, hidden)] == ["tmpfs"] * 2
    assert len(none.volumes) == 1


def test_a_link_that_came_at_the_time_of_a_look_is_found(tmp_path: Path) -> None:
    """The times of a folder go in steps: of a second, where inodes have 128 bytes."""
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    with image.open("w+b") as file:
        file.truncate(8 << 20)
        mkfs = str(programs.require("mkfs.ext4"))
        made = [mkfs, "-q", "-I", "128", str(image)]
        subprocess.run(made, check=True, stderr=subprocess.DEVNULL)
        with attach(file.fileno()) as device, mounted(device.path, folder, "ext4"):
            wanted = re.compile("ib_logfile0")

            def moved_unseen() -> bool:
                """Move the file just after a look; say whether its time shows that."""
                log = folder / "ib_logfile0"
                log.unlink(missing_ok=True)
                log.touch()
                before = folder.stat()
                assert find_links_in(str(folder), wanted) == ()
                log.unlink()
                log.symlink_to(tmp_path)
                assert find_links_in(str(folder), wanted) == (str(log),)
                return folder.stat().st_ctime_ns == before.st_ctime_ns

            wait_until(moved_unseen, "both in one second")
