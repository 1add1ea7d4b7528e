"""Files of a server that are mounted from another filesystem."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.core.places import Place
from dbcheck.errors import HostError
from dbcheck.hosts.host import open_host
from dbcheck.lab import syscalls
from dbcheck.lab.storage import filesystem as block_filesystem
from tests.kit.drive_mounts import own_mounts as own_mounts

MS_BIND = 4096  # mount(2), linux/mount.h

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]


@contextlib.contextmanager
def mounted(source: str, on: Path, kind: str, flags: int = 0) -> Iterator[None]:
    syscalls.mount(source, str(on), kind, flags)
    try:
        yield
    finally:
        block_filesystem.umount(on)


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
            with pytest.raises(HostError, match="is a single file that is mounted"):
                host.start_canaries(hidden.volumes[1].places["redo log files"])
        none = host.facts(str(data), places)
    assert dict(shown.volumes[1].places) == {"redo log files": str(disk / "log")}
    assert Path(canaries.folder).is_relative_to(disk)
    assert dict(hidden.volumes[1].places) == {
        "redo log files": str(data / "ib_logfile0")
    }
    assert [each.volumes[1].filesystem for each in (shown, hidden)] == ["tmpfs"] * 2
    assert len(none.volumes) == 1
