"""What the host's agent reads of a server's processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbcheck.agent.host import servers
from dbcheck.agent.host.process import describe_process
from dbcheck.agent.host.servers import find_account_processes


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """A folder in /proc whose program and only library cannot be read."""
    for name in ("cmdline", "environ"):
        (tmp_path / name).touch()
    (tmp_path / "exe").symlink_to(tmp_path / "mysqld")
    (tmp_path / "root").mkdir()
    (tmp_path / "maps").write_text("0-1 r-xp 0 8:1 9 /lib.so\n")
    return tmp_path


def test_a_file_that_cannot_be_read_is_named(process: Path) -> None:
    found = describe_process(str(process))
    library, program = process / "root" / "lib.so", process / "exe"
    assert found["unread"] == f"{library}: No such file or directory"
    assert f"{program}: No such file" in found["no_sync_unread"]


def test_an_object_that_cannot_be_understood_is_named(process: Path) -> None:
    for name in ("mysqld", "root/lib.so"):
        (process / name).write_bytes(b"\x7fELF\x02\x01")
    found = describe_process(str(process))
    assert found["unread"].startswith("/lib.so: unpack requires")
    assert f"{process}: unpack requires" in found["no_sync_unread"]


def test_a_servers_processes_come_in_the_order_of_their_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server was started with is read of the first."""
    folder, directory = tmp_path / "proc", tmp_path / "data"
    directory.mkdir()
    pids = ["9", "10", "100", "101"]
    for pid in pids:
        (folder / pid).mkdir(parents=True)
        (folder / pid / "cwd").symlink_to(directory)
        (folder / pid / "comm").write_text("postgres\n")
    (folder / "self").mkdir()
    monkeypatch.setattr(servers, "PROCESSES", str(folder))
    monkeypatch.setattr(os, "listdir", lambda _: ["self", *reversed(pids)])
    found = find_account_processes(str(directory), directory.stat().st_uid)
    assert [os.path.basename(each) for each in found] == pids


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("postgres", True),
        ("postmaster", True),
        ("edb-postgres", True),
        ("edb-postmaster", True),
        (".postgres-wrapped", True),
        ("postgres16", True),
        ("mysqld", True),
        ("mysqld-debug", True),
        ("mysqld-8.0.36", True),
        ("mariadbd", True),
        ("mysqld_exporter", False),
        ("postgres_export", False),  # as a process is named (proc(5), comm)
        ("mysqld_safe", False),
        ("mariadbd-safe", False),
        ("mysqld_multi", False),
        ("mysqldump", False),
        ("pg_basebackup", False),
        ("mariadb-backup", False),
        ("xtrabackup", False),
        ("postgrest", False),
    ],
)
def test_the_usual_names_of_servers(name: str, is_one: bool) -> None:
    assert bool(servers.SERVER.fullmatch(name)) is is_one


@pytest.mark.parametrize(
    ("flags", "is_one"), [("0100002", True), ("0100001", True), ("0100000", False)]
)
def test_only_who_writes_to_the_data_is_their_server(
    flags: str, is_one: bool, tmp_path: Path
) -> None:
    """A backup of MySQL works in the directory as well, and reads them."""
    process, data = tmp_path / "9", tmp_path / "data"
    for folder in ("fd", "fdinfo"):
        (process / folder).mkdir(parents=True)
    (process / "fd/4").symlink_to(data / "ibdata1")
    (process / "fd/5").symlink_to(data / "my.cnf")
    (process / "fdinfo/4").write_text(f"pos:\t0\nflags:\t{flags}\n")
    (process / "fdinfo/5").write_text("pos:\t0\nflags:\t0100002\n")
    assert servers.holds_data(str(process), str(data)) is is_one
    assert not servers.holds_data(str(process), str(tmp_path / "dat"))
