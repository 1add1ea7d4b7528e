"""The canaries' files: what a block carries, and which folders are ours."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.agent.host import canary as host_canary
from dbcheck.agent.host.canary import (
    BLOCK_BYTES,
    DIRECT,
    RECORD_BYTES,
    RUN,
    join_ranges,
    make_record,
    parse_number,
    read_survivors,
)
from dbcheck.agent.host.folder import (
    BESIDE,
    INSIDE,
    MARKER,
    Folder,
    choose_folder,
    remove,
)
from dbcheck.agent.wire import Refusal
from tests.kit.canaries import NONCE, made


@pytest.mark.parametrize("size", [RECORD_BYTES, BLOCK_BYTES])
def test_a_piece_carries_its_number_whole(size: int) -> None:
    piece = make_record(NONCE, 7, size)
    assert len(piece) == size
    assert parse_number(piece, NONCE) == 7
    assert parse_number(bytes(size), NONCE) == 0
    assert parse_number(piece[:-1] + b"x", NONCE) is None
    assert parse_number(piece, bytes(16)) is None


@pytest.mark.parametrize("sector", range(1, 8))
def test_a_block_of_two_numbers_is_torn(sector: int) -> None:
    old, new = make_record(NONCE, 7, BLOCK_BYTES), make_record(NONCE, 107, BLOCK_BYTES)
    for first, second in (old, new), (new, old), (bytes(BLOCK_BYTES), new):
        block = first[: 512 * sector] + second[512 * sector :]
        assert parse_number(block, NONCE) is None


def test_numbers_become_ranges() -> None:
    assert join_ranges([]) == []
    assert join_ranges([1, 2, 3, 5, 7, 8]) == [[1, 3], [5, 5], [7, 8]]


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "parent" / "data"
    folder.mkdir(parents=True)
    yield folder


def test_the_folder_is_beside_the_data_directory_else_inside(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_folder(str(data), "")[0] == str(data.parent / BESIDE)
    link = data.parent.parent / "link"
    link.symlink_to(data)
    assert choose_folder(str(link), "")[0] == str(data.parent / BESIDE)
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, how: path != str(data.parent) and real(path, how)
    )
    assert choose_folder(str(data), "")[0] == str(data / INSIDE)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(Refusal, match="cannot write to"):
        choose_folder(str(data), "")


def test_a_folder_on_another_filesystem_is_refused(data: Path) -> None:
    with pytest.raises(Refusal, match="another filesystem"):
        choose_folder(str(data), "/proc/canaries")


def test_strangers_are_never_touched(data: Path) -> None:
    folder = data.parent / BESIDE
    folder.mkdir()
    (folder / "thesis.txt").touch()
    (folder / MARKER).touch()
    with pytest.raises(Refusal, match="files that dbcheck did not write"):
        remove(str(folder))
    (folder / MARKER).unlink()
    (folder / "thesis.txt").rename(folder / RUN)
    with pytest.raises(Refusal, match="not marked as dbcheck's"):
        remove(str(folder))
    other = data.parent / "other"
    other.mkdir()
    with pytest.raises(Refusal, match="not marked as dbcheck's"):
        remove(str(other))
    link = data.parent / "link"
    link.symlink_to(other)
    with pytest.raises(Refusal, match="is a link"):
        remove(str(link))
    assert other.is_dir()
    assert (folder / RUN).exists()


def test_what_is_ours_is_removed_unless_in_use(data: Path) -> None:
    folder = data.parent / BESIDE
    remove(str(folder))  # not there: nothing to do
    folder.mkdir()
    held = Folder(str(folder))
    held.take()
    for name in (RUN, DIRECT.format(1), "buffered-000001"):
        (folder / name).touch()
    with pytest.raises(Refusal, match="are writing"):
        remove(str(folder))
    held.close()
    remove(str(folder))
    assert list(data.parent.iterdir()) == [data]


def test_survivors_are_read_in_all_shapes(tmp_path: Path) -> None:
    blocks = [make_record(NONCE, n, BLOCK_BYTES) for n in (5, 6, 3)]
    torn = blocks[0][:512] + bytes(BLOCK_BYTES - 512)
    records = [make_record(NONCE, n, RECORD_BYTES) for n in range(1, 8)]
    found = made(
        tmp_path,
        direct_1=b"".join([blocks[0], blocks[1], blocks[2], torn]),
        buffered_000002=b"".join(records[:3]) + bytes(RECORD_BYTES) + records[4],
        buffered_000003=records[6] + records[0][:20],
    )
    assert found["first"] == 6
    assert found["buffered"] == [[1, 3], [5, 5], [7, 7]]
    assert found["rings"] == [{"found": [[3, 3], [5, 6]], "torn": [3]}]


def test_a_run_that_is_gone_has_no_survivors(tmp_path: Path) -> None:
    assert read_survivors(str(tmp_path / "none"))["run"] is None
    assert made(tmp_path)["run"] is None  # its ring is not there
    (tmp_path / RUN).write_text("{")
    assert read_survivors(str(tmp_path))["run"] is None


def test_a_preparation_that_fails_leaves_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(host_canary, "fill_durably", full)
    with pytest.raises(OSError, match="No space"):
        host_canary.Canaries(ask_for(data), lambda *_: None)
    assert list(data.parent.iterdir()) == [data]


def ask_for(data: Path, file_bytes: int = 4096) -> dict[str, object]:
    return {
        "data_directory": str(data),
        "folder": "",
        "nonce": NONCE.hex(),
        "report_us": 0,
        "rings": 1,
        "ring_blocks": 4,
        "file_bytes": file_bytes,
    }


def test_room_that_is_missing_is_told_in_a_unit_that_people_read(data: Path) -> None:
    too_much = ask_for(data, 1 << 60)
    with pytest.raises(Refusal, match=r"less than \d+ MiB are free"):
        host_canary.Canaries(too_much, lambda *_: None)


@pytest.mark.parametrize(
    "run", [[], 5, {"nonce": 5}, {"nonce": "", "rings": 10**30}, {"nonce": "x"}]
)
def test_canaries_whose_own_file_is_garbage_are_none(
    tmp_path: Path, run: object
) -> None:
    (tmp_path / RUN).write_text(json.dumps(run))
    (tmp_path / "buffered-x").touch()
    assert read_survivors(str(tmp_path))["run"] is None
