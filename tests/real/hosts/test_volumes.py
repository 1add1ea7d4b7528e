"""Volumes of a host that are copied at one moment, and one after the other."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.hosts.host import open_host
from dbcheck.hosts.volumes import CopiedFolder, VolumesOfHost
from dbcheck.restore.volumes import find_numbers
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

NONCE = "ab" * 16


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[list[Path]]:
    """Give two folders, on two filesystems."""
    memory = Path(tempfile.mkdtemp(prefix="dbcheck-", dir="/dev/shm"))
    try:
        if memory.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("one filesystem is all that is here")
        (tmp_path / "data").mkdir()
        yield [tmp_path / "data", memory]
    finally:
        shutil.rmtree(memory)


@pytest.fixture
def volumes(folders: list[Path], tmp_path: Path) -> Iterator[VolumesOfHost]:
    host = open_host("local:")
    copied = [
        CopiedFolder(str(folder), f"{tmp_path}/{{run}}/{place}")
        for place, folder in enumerate(folders)
    ]
    watch = VolumesOfHost(host, copied, host)
    watch.start(NONCE)
    wait_until(lambda: watch.count().completed > 20, "numbers are written")
    yield watch
    watch.stop()
    host.close()
    assert not any(list(folder.iterdir()) for folder in folders)


def copy(folder: Path, place: int, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run-1" / str(place))


def test_a_host_that_is_stopped_meanwhile_is_copied_at_one_moment(
    volumes: VolumesOfHost, folders: list[Path], tmp_path: Path
) -> None:
    control = volumes._control
    assert control is not None
    agent = control._channel._pipe
    pid = agent._child.pid  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGSTOP)
    try:
        for place, folder in enumerate(folders):
            copy(folder, place, tmp_path)
    finally:
        os.kill(pid, signal.SIGCONT)
    numbers = find_numbers(volumes.read("run-1", NONCE))
    assert numbers.until == max(numbers.newest.values()) > 20


def await_more(volumes: VolumesOfHost) -> None:
    """Return once ten more numbers were written."""
    now = volumes.count().completed
    wait_until(lambda: volumes.count().completed > now + 10, "ten more")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_folders_that_are_copied_one_after_the_other_are_found(
    volumes: VolumesOfHost, folders: list[Path], tmp_path: Path, order: tuple[int, int]
) -> None:
    for place in order:
        copy(folders[place], place, tmp_path)
        await_more(volumes)
    numbers = find_numbers(volumes.read("run-1", NONCE))
    assert max(numbers.newest.values()) > numbers.until + 5
    first = str(tmp_path / "run-1" / str(order[0]))
    assert min(numbers.newest, key=lambda name: numbers.newest[name]) == first


def test_a_copy_that_is_not_there_is_an_error(volumes: VolumesOfHost) -> None:
    with refused(ErrorId.HOST_PATH_MISSING, HostError, naming="/run-1/0"):
        volumes.read("run-1", NONCE)


def test_two_folders_on_one_filesystem_are_refused(tmp_path: Path) -> None:
    host = open_host("local:")
    copied = [CopiedFolder(str(tmp_path / name), "/x") for name in ("one", "two")]
    for each in copied:
        Path(each.target).mkdir()
    with refused(ErrorId.VALUE_INVALID, HostError, naming="is on the filesystem of"):
        VolumesOfHost(host, copied, host).start(NONCE)
    host.close()
    assert not any(list(Path(each.target).iterdir()) for each in copied)
