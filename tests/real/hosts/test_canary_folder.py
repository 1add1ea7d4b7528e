"""The canaries' folder while whoever owns its parent puts other things in its place.

The victim is a folder with files named as canaries are, but not marked as ours.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dbcheck.agent.host import canary as host_canary
from dbcheck.agent.host import folder as host_folder
from dbcheck.agent.host.canary import BLOCK_BYTES, DIRECT, RUN, Canaries, read_survivors
from dbcheck.agent.host.folder import (
    BESIDE,
    INSIDE,
    MARKER,
    Folder,
    clear_canaries,
    remove,
)
from dbcheck.agent.wire import Refusal
from dbcheck.hosts.canary import Pace
from tests.kit.canaries import made, open_files, pace
from tests.kit.files import ACCOUNT, AS_ROOT, contents
from tests.kit.waiting import wait_until

CALLS = (
    "open",
    "mkdir",
    "unlink",
    "rmdir",
    "stat",
    "lstat",
    "fstat",
    "scandir",
    "fsync",
    "statvfs",
)
_FSYNC = os.fsync  # takes time, and changes nothing that is looked at here


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "parent" / "data"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A folder of somebody else, in one that could stand for the parent."""
    folder = tmp_path / "elsewhere" / BESIDE
    folder.mkdir(parents=True)
    for name in (RUN, DIRECT.format(1), DIRECT.format(2), "buffered-000001"):
        (folder / name).write_text(f"thesis: {name}")
    before = contents(folder.parent)
    yield folder
    assert contents(folder.parent) == before


def link_for_folder(folder: Path, victim: Path) -> None:
    """Put a link to the victim where the canaries' folder was."""
    with contextlib.suppress(FileNotFoundError):
        folder.rename(folder.with_name("aside"))
    folder.symlink_to(victim)


def link_for_parent(folder: Path, victim: Path) -> None:
    """Put a link to the victim's parent where that of the canaries' folder was."""
    folder.parent.rename(folder.parent.with_name("aside"))
    folder.parent.symlink_to(victim.parent)


def other_for_parent(folder: Path, victim: Path) -> None:
    """The same, with a folder of somebody else that holds no folder for canaries."""
    folder.parent.rename(folder.parent.with_name("aside"))
    folder.parent.symlink_to(victim)


SWAPS = [link_for_folder, link_for_parent, other_for_parent]


class Swapper:
    """Makes a swap before one call of the operating system, the *number*th of all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, swap: Callable[[], None]):
        self.calls, self.number = itertools.count(), -1
        self.swapped = False
        self._swap = swap
        for name in CALLS:
            monkeypatch.setattr(os, name, self._before(getattr(os, name)))

    def _before(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if next(self.calls) == self.number:
                self.number, self.swapped = -1, True
                self._swap()
            return None if real is _FSYNC else real(*args, **options)

        return call

    def at(self, number: int, do: Callable[[], object]) -> bool:
        """Do something, with the swap before that call; say whether it came to it."""
        self.calls, self.number, self.swapped = itertools.count(), number, False
        with contextlib.suppress(Refusal, OSError):
            do()
        self.number = -1
        return self.swapped


def prepared(data: Path) -> None:
    """Start canaries, and end them once each has opened its file."""
    canaries = Canaries(pace(data), lambda *_: None)
    canaries.stop()
    assert open_files(str(data.parent)) == []


def left(data: Path) -> None:
    """Leave a folder of canaries beside the data directory."""
    with contextlib.closing(
        Folder(str(data.parent / BESIDE), new_on=device(data))
    ) as f:
        f.take(new=True)
        made(data.parent / BESIDE, direct_1=b"", buffered_000001=b"")


def device(path: Path) -> int:
    return path.stat().st_dev


def cleared(base: Path) -> None:
    """Remove what an attack left."""
    parent, aside = base / "parent", base / "aside"
    if parent.is_symlink():
        parent.unlink()
        aside.rename(parent)
    for path in (parent / BESIDE, parent / "aside"):
        if path.is_symlink():
            path.unlink()
        elif path.exists():
            for file in path.iterdir():
                file.unlink()
            path.rmdir()


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("what", ["replace", "read", "clear"])
def test_a_swap_at_any_moment_leads_to_nothing_else(
    data: Path,
    victim: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    swap: Callable[[Path, Path], None],
) -> None:
    """Each call of the operating system in turn is the one that the swap precedes."""
    folder = data.parent / BESIDE
    do: dict[str, Callable[[], object]] = {
        "replace": lambda: prepared(data),
        "read": lambda: read_survivors(str(folder)),
        "clear": lambda: clear_canaries(str(data)),
    }
    swapper = Swapper(monkeypatch, lambda: swap(folder, victim))
    before = contents(victim.parent)
    for number in itertools.count():
        left(data)
        came = swapper.at(number, do[what])
        assert contents(victim.parent) == before, number
        assert open_files(str(data.parent.parent)) == [], number
        cleared(data.parent.parent)
        if not came:
            break
    assert number > 10


def swapped_when_made(
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[], object],
    said: str = "was made for this user alone",
) -> None:
    """Start canaries whose folder is exchanged right after it was made."""
    real = os.mkdir

    def mkdir(*args: Any, **options: Any) -> None:
        real(*args, **options)
        swap()

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(Refusal, match=said):
        Canaries(pace(data), lambda *_: None)
    assert open_files(str(data.parent)) == []


@AS_ROOT
def test_a_folder_of_another_account_is_no_folder_for_canaries(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That account would read their nonce, and could write what they are to prove."""
    folder, own = data.parent / BESIDE, data.parent / "own"
    own.mkdir()
    os.chown(own, ACCOUNT, ACCOUNT)

    def swap() -> None:
        folder.rename(folder.with_name("aside"))
        own.rename(folder)

    swapped_when_made(data, monkeypatch, swap)
    assert {path.name for path in data.parent.iterdir()} == {"data", "aside"}


def test_a_folder_that_others_may_write_is_no_folder_for_canaries(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data.parent / BESIDE
    swapped_when_made(data, monkeypatch, lambda: folder.chmod(0o770))
    assert list(data.parent.iterdir()) == [data]


def test_a_folder_that_is_not_empty_was_not_made_just_now(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns the parent can rename what lies in it, also folders of this user."""
    folder, other = data.parent / BESIDE, data.parent / "other"
    other.mkdir(0o700)
    (other / RUN).write_text("thesis")

    def swap() -> None:
        folder.rename(folder.with_name("aside"))
        other.rename(folder)

    swapped_when_made(
        data, monkeypatch, swap, "files that dbcheck did not write: run.json"
    )
    assert (folder / RUN).read_text() == "thesis"


def test_a_folder_is_made_on_the_filesystem_of_the_data_alone(data: Path) -> None:
    with pytest.raises(Refusal, match="another filesystem is mounted"):
        Folder(str(data.parent / BESIDE), new_on=device(Path("/proc")))
    assert list(data.parent.iterdir()) == [data]


def test_a_folder_that_is_renamed_while_it_is_emptied_is_told(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(data)
    folder = data.parent / BESIDE
    with contextlib.closing(Folder(str(folder))) as held:
        held.take()
        folder.rename(data.parent / "aside")
        folder.mkdir()
        with pytest.raises(Refusal, match="renamed or replaced just now"):
            held.remove()
    assert contents(data.parent).keys() == {
        str(data.parent / name) for name in ("aside", BESIDE, "data")
    }


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def hard_link(path: Path, victim: Path) -> None:
    path.hardlink_to(victim)


def device_node(path: Path, _: Path) -> None:
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # S_IFCHR, /dev/zero


def folder_there(path: Path, _: Path) -> None:
    path.mkdir()


def given_away(path: Path, _: Path) -> None:
    path.touch()
    os.chown(path, ACCOUNT, ACCOUNT)


NO_FILES = [
    fifo,
    link,
    hard_link,
    folder_there,
    pytest.param(device_node, marks=AS_ROOT),
    pytest.param(given_away, marks=AS_ROOT),
]


@pytest.mark.parametrize("name", [RUN, DIRECT.format(1), "buffered-000001"])
@pytest.mark.parametrize("put", NO_FILES)
def test_what_canaries_never_made_is_not_read(
    data: Path, victim: Path, put: Callable[[Path, Path], None], name: str
) -> None:
    left(data)
    path = data.parent / BESIDE / name
    path.unlink()
    put(path, victim / RUN)
    with pytest.raises((OSError, Refusal), match="regular file|not made by canaries"):
        read_survivors(str(path.parent))


@pytest.mark.parametrize("put", NO_FILES)
def test_what_canaries_never_made_is_not_written(
    data: Path,
    victim: Path,
    monkeypatch: pytest.MonkeyPatch,
    put: Callable[[Path, Path], None],
) -> None:
    """A ring is exchanged once it was prepared, and before its thread opens it."""
    real = Folder.sync

    def sync(folder: Folder) -> None:
        path = data.parent / BESIDE / DIRECT.format(1)
        path.unlink()
        put(path, victim / RUN)
        real(folder)

    monkeypatch.setattr(Folder, "sync", sync)
    canaries = Canaries(pace(data), lambda *_: None)
    wait_until(lambda: not any(map(Thread.is_alive, canaries._threads)), "they ended")
    assert canaries.stopped
    assert canaries.direct[0] == 0
    assert open_files(str(data.parent)) == []


def test_a_marker_that_is_a_fifo_keeps_nobody_waiting(data: Path) -> None:
    folder = data.parent / BESIDE
    folder.mkdir()
    os.mkfifo(folder / MARKER)
    with pytest.raises(OSError, match="not a regular file"):
        remove(str(folder))


def test_no_more_is_read_than_canaries_write(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without a block on the disk may have any size."""
    monkeypatch.setattr(host_canary, "READ_BYTES_MAX", 1 << 20)
    left(data)
    folder = data.parent / BESIDE
    for name in (DIRECT.format(1), "buffered-000001"):
        os.truncate(folder / name, 1 << 40)
        with pytest.raises(Refusal, match="holds more than canaries write"):
            read_survivors(str(folder))
        os.truncate(folder / name, 0)
    os.truncate(folder / RUN, 1 << 40)
    assert read_survivors(str(folder))["run"] is None


def test_all_that_canaries_write_can_be_read() -> None:
    """Also a file whose deletion a cut undid."""
    most = Pace()
    blocks = most.rings * most.ring_blocks * BLOCK_BYTES
    assert blocks + 3 * most.file_bytes < host_canary.READ_BYTES_MAX


def test_a_folder_with_any_number_of_files_is_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(data)
    monkeypatch.setattr(host_folder, "ENTRIES_MAX", 3)
    for question in (read_survivors, remove):
        with pytest.raises(OSError, match="more than 3 files"):
            question(str(data.parent / BESIDE))


def test_rings_that_are_not_there_take_no_time(data: Path) -> None:
    left(data)
    run = json.loads((data.parent / BESIDE / RUN).read_text())
    (data.parent / BESIDE / RUN).write_text(json.dumps({**run, "rings": 10**18}))
    assert read_survivors(str(data.parent / BESIDE))["run"] is None


def test_what_earlier_runs_left_is_cleared(data: Path) -> None:
    """Beside the data directory and inside it; what is in use stays."""
    beside, inside = data.parent / BESIDE, data / INSIDE
    assert clear_canaries(str(data)) == {"removed": [], "kept": {}}
    left(data)
    inside.mkdir()
    assert clear_canaries(str(data)) == {
        "removed": [str(beside), str(inside)],
        "kept": {},
    }
    assert list(data.parent.iterdir()) == [data]
    left(data)
    inside.mkdir()
    (inside / "thesis.txt").touch()
    with contextlib.closing(Folder(str(beside))) as held:
        held.take()
        found = clear_canaries(str(data))
    assert found["removed"] == []
    assert found["kept"] == {
        str(beside): f"canaries are writing in {beside}",
        str(inside): f"{inside} holds files that dbcheck did not write: thesis.txt",
    }
