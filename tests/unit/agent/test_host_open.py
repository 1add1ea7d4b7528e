"""What the server's account put where the host's agent reads, which may be root's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dbcheck.agent.host import data as host_data
from dbcheck.agent.host import facts as host_facts
from dbcheck.agent.host import log as host_log
from dbcheck.agent.host import open as host_open
from dbcheck.agent.wire import Refusal

pytestmark = pytest.mark.timeout(30)  # a FIFO would hold for ever
NAMES = ("global/pg_control", "postmaster.pid", "auto.cnf", "dbcheck/marker.frm")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to(path.with_name("fifo"))


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


NO_FILES = [fifo, link_to_fifo, link_to_device, folder]


@pytest.mark.parametrize("put", NO_FILES)
def test_files_that_name_the_data_are_files(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    for name in NAMES[:3]:
        put(tmp_path / name) if name == NAMES[0] else fifo(tmp_path / name)
    put(tmp_path / NAMES[3])
    unreadable = host_data.read_data_names(str(tmp_path))["unreadable"]
    assert len(unreadable) == 4
    for why in unreadable.values():
        assert why.endswith("not a regular file")


def test_a_file_that_names_the_data_may_lie_elsewhere(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    uuid = "11111111-2222-3333-4444-555555555555"
    (tmp_path / "auto.cnf").write_text(f"[auto]\nserver-uuid={uuid}\n")
    (data / "auto.cnf").symlink_to(tmp_path / "auto.cnf")
    assert host_data.read_data_names(str(data))["server_uuid"] == uuid


def test_marks_are_looked_for_in_so_many_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_data, "MARKED_MAX", 3)
    for number in range(9):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "marker.frm").write_text(f"dbcheck-mark-{number:032}")
    assert len(host_data.read_data_names(str(tmp_path))["marks"]) == 3


@pytest.mark.parametrize("put", NO_FILES[:3])
def test_a_log_is_a_file(tmp_path: Path, put: Callable[[Path], None]) -> None:
    log = tmp_path / "server.log"
    put(log)
    with pytest.raises(Refusal, match="is a link, or not a regular file"):
        host_log.mark_log(str(log))
    with pytest.raises(Refusal, match="is a link, or not a regular file"):
        host_log.read_since(str(log), {}, 100)


@pytest.mark.parametrize("put", NO_FILES)
def test_a_log_that_is_exchanged_while_it_is_looked_at_is_not_read(
    tmp_path: Path, put: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    log.write_text("old\n")
    marks = host_log.mark_log(str(log))
    real = host_log.list_log_files

    def files(path: str) -> list[str]:
        found = real(path)
        log.unlink()
        put(log)
        return found

    monkeypatch.setattr(host_log, "list_log_files", files)
    with pytest.raises(OSError, match="not a regular file"):
        host_log.mark_log(str(log))
    put_back(log)
    with pytest.raises(OSError, match="not a regular file"):
        host_log.read_since(str(log), marks, 100)


def put_back(log: Path) -> None:
    for path in log.parent.iterdir():
        path.rmdir() if path.is_dir() else path.unlink()
    log.write_text("old\n")


def test_a_log_without_an_end_is_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file without a block on the disk may have any size, and hold a single line."""
    monkeypatch.setattr(host_log, "SCAN_BYTES_MAX", 1 << 20)
    log = tmp_path / "server.log"
    log.write_text("old\n")
    marks = host_log.mark_log(str(log))
    os.truncate(log, 1 << 42)
    found = host_log.read_since(str(log), marks, 1 << 20)
    assert found["truncated"]
    assert len(found["text"]) <= host_log.LINE_BYTES_MAX


def test_what_is_logged_while_the_log_is_read_comes_with_the_next_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one who logs as fast as it is read keeps the reader for ever."""
    log = tmp_path / "server.log"
    log.write_text("old\n")
    marks = host_log.mark_log(str(log))
    real = host_log.checksum_end

    def end_before(*of: object) -> int:
        with log.open("a") as file:
            file.write("new\n")
        return real(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(host_log, "checksum_end", end_before)
    assert host_log.read_since(str(log), marks, 100)["text"] == ""
    assert host_log.read_since(str(log), marks, 100)["text"] == "new\n"


def test_a_folder_of_logs_with_any_number_of_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_log, "ENTRIES_MAX", 3)
    for number in range(4):
        (tmp_path / str(number)).touch()
    with pytest.raises(OSError, match="more than 3 files"):
        host_log.mark_log(str(tmp_path))


def test_a_source_that_is_no_block_device_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever mounts a FUSE filesystem names its source as it likes."""
    opened: list[str] = []

    def run_program(_: object, *words: str) -> str:
        opened.append(words[-1])
        return ""

    monkeypatch.setattr(host_facts.Volume, "run_program", run_program)
    for source in ("/dev/zero", "/dev/none"):
        volume = host_facts.Volume(str(tmp_path))
        volume.mount = {"source": source, "type": "fuse"}
        volume.device = 0
        assert volume.uuid() == ""
        assert (
            volume.unreadable["filesystem_uuid"] == f"blkid reports none for {source}"
        )
    assert opened == []


@pytest.mark.root
def test_a_source_that_is_exchanged_while_it_is_looked_at_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link there, as in /dev/shm, may be any account's."""
    device = next(path for path in Path("/dev").iterdir() if path.is_block_device())
    opened: list[str] = []

    def run_program(_: object, *words: str) -> str:
        source.unlink()
        source.symlink_to("/dev/zero")
        opened.append(words[-1])
        assert os.stat(words[-1]).st_rdev == device.stat().st_rdev
        return "11111111-2222-3333-4444-555555555555"

    monkeypatch.setattr(host_facts.Volume, "run_program", run_program)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared:
        source = Path(shared) / "source"
        source.symlink_to(device)
        volume = host_facts.Volume(str(tmp_path))
        volume.mount = {"source": str(source)}
        assert volume.uuid().startswith("11111111")
    assert opened


def test_a_path_must_be_absolute() -> None:
    with pytest.raises(Refusal, match="not an absolute path"):
        host_open.open_folder("etc")
