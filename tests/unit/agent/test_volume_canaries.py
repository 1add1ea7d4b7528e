"""Numbers that are written to several folders in turn, and read in copies of them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.agent.host import volumes
from dbcheck.agent.host.canary import make_record
from dbcheck.agent.host.volumes import VolumeCanaries, read_volume
from dbcheck.agent.wire import Refusal
from tests.kit.waiting import wait_until

NONCE = "ab" * 16


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return two folders that are taken to be on two filesystems."""
    monkeypatch.setattr(volumes, "require_apart", lambda _: None)
    made = [tmp_path / name for name in ("data", "log")]
    for folder in made:
        folder.mkdir()
    return made


def start(folders: list[Path], per_s: float = 2000) -> VolumeCanaries:
    names = [str(folder) for folder in folders]
    return VolumeCanaries({"folders": names, "nonce": NONCE, "per_s": per_s})


@pytest.fixture
def running(folders: list[Path]) -> Iterator[VolumeCanaries]:
    canaries = start(folders)
    wait_until(lambda: canaries.count()["completed"] >= 20, "numbers are written")
    yield canaries
    canaries.stop()


def read(folder: Path, place: int, places: int = 2, nonce: str = NONCE) -> Any:
    asked = {"folder": str(folder), "place": place, "places": places, "nonce": nonce}
    return read_volume(asked)


def file_in(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_each_folder_has_its_numbers_from_the_first(
    running: VolumeCanaries, folders: list[Path]
) -> None:
    before = running.count()["completed"]
    found = [read(folder, place) for place, folder in enumerate(folders)]
    begun = running.count()["begun"]
    for place, runs in enumerate(found):
        ((first, last),) = runs
        assert first == place + 1
        assert (last - first) % 2 == 0
        assert before - 2 < last <= begun


def test_the_numbers_are_counted_and_so_is_their_longest_step(
    running: VolumeCanaries,
) -> None:
    counted = running.count()
    assert counted["completed"] <= counted["begun"] <= counted["completed"] + 1
    assert 0 <= counted["longest_s"] < 5
    assert counted["stopped"] == ""


def test_nothing_is_left_at_the_end(folders: list[Path]) -> None:
    canaries = start(folders)
    assert all(len(list(folder.iterdir())) == 1 for folder in folders)
    canaries.stop()
    assert not any(list(folder.iterdir()) for folder in folders)


def test_nothing_is_left_if_one_folder_cannot_be_written_in(
    folders: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        start([*folders, tmp_path / "absent"])
    assert not any(list(folder.iterdir()) for folder in folders)


def test_two_folders_on_one_filesystem_show_nothing(tmp_path: Path) -> None:
    for name in ("data", "log"):
        (tmp_path / name).mkdir()
    with pytest.raises(Refusal, match="log is on the filesystem of"):
        start([tmp_path / "data", tmp_path / "log"])
    assert not list((tmp_path / "data").iterdir())


def test_no_folder_is_refused() -> None:
    with pytest.raises(Refusal, match="no folder"):
        start([])


def test_a_file_that_is_there_is_not_written_to(folders: list[Path]) -> None:
    strange = folders[0] / f"dbcheck-volume-{NONCE}-0"
    strange.write_bytes(b"x")
    with pytest.raises(FileExistsError, match="dbcheck-volume"):
        start(folders)
    assert strange.read_bytes() == b"x"


def test_a_full_file_ends_it(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "VOLUME_FILE_BYTES_MAX", 640)
    canaries = start(folders)
    wait_until(lambda: canaries.count()["stopped"], "it has ended")
    assert canaries.count()["completed"] == 20
    canaries.stop()


def test_a_torn_end_is_not_there_and_a_damaged_record_is_missing(
    running: VolumeCanaries, folders: list[Path], tmp_path: Path
) -> None:
    wait_until(lambda: running.count()["completed"] >= 12, "twelve numbers")
    content = file_in(folders[0]).read_bytes()[: 6 * 64]  # 1, 3, ... 11
    copy = tmp_path / "copy"
    copy.mkdir()
    name = file_in(folders[0]).name
    for changed, wanted in (
        (content, [[1, 11]]),
        (content[:-1], [[1, 9]]),
        (content[:-64] + bytes(64), [[1, 9]]),
        (content[:64] + b"?" * 64 + content[128:], [[1, 1], [5, 11]]),
        (b"", []),
    ):
        (copy / name).write_bytes(changed)
        assert read(copy, 0) == wanted
    assert read(copy, 1) == []
    (copy / f"dbcheck-volume-{'cd' * 16}-0").write_bytes(content)
    assert read(copy, 0, nonce="cd" * 16) == []  # the numbers of another run


def test_a_folder_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        read(tmp_path / "absent", 0)
    shutil.copy(__file__, tmp_path / "file")
    with pytest.raises(NotADirectoryError, match="file"):
        read(tmp_path / "file", 0)


def test_a_file_of_runs_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "VOLUME_RUNS_MAX", 3)
    nonce = bytes.fromhex(NONCE)
    records = (make_record(nonce, 9 - n, 64) for n in range(5))
    (tmp_path / f"dbcheck-volume-{NONCE}-0").write_bytes(b"".join(records))
    with pytest.raises(Refusal, match="no canary writes"):
        read(tmp_path, 0)


def test_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    os.symlink(tmp_path / "elsewhere", tmp_path / f"dbcheck-volume-{NONCE}-0")
    with pytest.raises(OSError, match="not a regular file"):
        read(tmp_path, 0)


def test_a_step_that_hangs_is_counted_as_long(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries = start(folders)
    canaries.count()
    monkeypatch.setattr(os, "fdatasync", lambda _: time.sleep(0.3))
    wait_until(lambda: canaries.count()["longest_s"] >= 0.2, "a long step")
    canaries.stop()
