"""Servers under other names than their makers': what the host's agent finds of them."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.agent.host import servers
from dbcheck.agent.host.process import describe_server_process, find_error_file
from dbcheck.agent.host.remount import end_server, list_server_pids
from dbcheck.agent.host.servers import find_server_processes, pid_of
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.servers.postgresql import PostgresqlServer
from tests.kit.lab_access import connect
from tests.kit.servers import NewServer
from tests.kit.waiting import wait_until

# How packages and users name the program of a server.
NAMES = {
    "Red Hat's link": ("postgresql", "postmaster"),
    "EDB": ("postgresql", "edb-postgres"),
    "NixOS": ("postgresql", ".postgres-wrapped"),
    "a user's own": ("postgresql", "orders_database_of_production"),
    "a title of /proc": ("postgresql", "pg) S 1 (x"),
    "MySQL's name of MariaDB's": ("mariadb", "mysqld"),
    "built for debugging": ("mariadb", "mysqld-debug"),
    "of a version": ("mariadb", "mariadbd-11.4"),
    "a shop's own": ("mariadb", "orders"),
}


def named_program(server: DatabaseServer, folder: Path, name: str) -> Path:
    """Return the server's program under another name.

    PostgreSQL looks for its files by the path of its program (src/port/path.c).
    """
    program = server._program(server.needs[0]).resolve()
    copy = folder / str(program.parent).lstrip("/") / name
    copy.parent.mkdir(parents=True)
    shutil.copy2(program, copy)
    if isinstance(server, PostgresqlServer):
        shown = [("lib", program.parents[1] / "lib")]
        version = program.parents[1].name
        shown.append(("share", Path("/usr/share/postgresql") / version))
        for _, path in shown:
            link = folder / str(path).lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    return copy


def start_as(
    server: DatabaseServer, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start the server by that program."""
    command = [str(program), *server._arguments()]
    monkeypatch.setattr(server, "_command", lambda: (command, program))
    server.start()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's account can reach; pytest's own is not."""
    path = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def found(server: DatabaseServer) -> list[int]:
    return [pid_of(each) for each in find_server_processes(str(server.data))]


def processes(first: int) -> list[int]:
    """Return a server's processes, by who started them."""
    children = Path(f"/proc/{first}/task/{first}/children").read_text()
    return [first, *sorted(map(int, children.split()))]


def place(server: DatabaseServer) -> tuple[str, int, tuple[int, int]]:
    status = server.data.stat()
    return str(server.data), status.st_uid, (status.st_dev, status.st_ino)


@pytest.mark.parametrize("case", NAMES)
def test_a_server_is_found_under_any_name(
    case: str,
    new_server: NewServer,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, name = NAMES[case]
    server = new_server(engine)
    if engine == "postgresql":  # all that opens files by itself, and a logger
        server.settings |= {"autovacuum": "off", "logging_collector": "on"}
    start_as(server, named_program(server, folder, name), monkeypatch)
    first, *_ = server.pids()
    assert found(server) == processes(first)
    assert len(found(server)) > 1 or engine == "mariadb"
    assert find_error_file(str(server.data)) == str(server.log_file)
    assert describe_server_process(str(server.data))["unread"] == ""
    ended = end_server(*place(server), [], 1)
    assert first in ended["killed"] and not ended["left"]
    assert not found(server)


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_a_program_that_was_replaced_since_is_still_the_servers(
    engine: str,
    new_server: NewServer,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an upgrade of the package leaves it: "... (deleted)" in /proc."""
    server = new_server(engine)
    program = named_program(server, folder, "orders")
    start_as(server, program, monkeypatch)
    program.unlink()
    first, *_ = server.pids()
    with contextlib.closing(connect(server.url, server.password)):
        assert found(server) == processes(first)
    read = describe_server_process(str(server.data))
    assert (read["unread"], read["no_sync_unread"], read["replaced"]) == ("", "", {})
    assert list_server_pids(*place(server))


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_a_process_of_another_name_is_found_by_its_program(
    engine: str, new_server: NewServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that a link of a user's starts, or that renamed itself."""
    server = new_server(engine)
    link = folder / "production"
    link.symlink_to(server._program(server.needs[0]).resolve())
    start_as(server, link, monkeypatch)
    first, *_ = server.pids()
    assert Path(f"/proc/{first}/comm").read_text() == "production\n"
    monkeypatch.setattr(servers, "holds_data", lambda *_: False)
    assert found(server) == processes(first)


def test_what_merely_works_there_is_no_server(
    new_server: NewServer, folder: Path
) -> None:
    """Its shells, its exporters, what copies its files; also under its account."""
    server = new_server("postgresql")
    server.start()
    own = found(server)
    exporter = folder / "postgres_exporter"
    shutil.copy2("/bin/sh", exporter)
    uid = server.data.stat().st_uid
    control = server.data / "global" / "pg_control"
    reader = f"import time; f = open({str(control)!r}); print(1, flush=True)"
    with contextlib.ExitStack() as held:
        for words in (
            ["/usr/bin/python3", "-c", reader + "; time.sleep(99)"],
            ["/bin/sh", "-c", "echo 1; read line"],
            [str(exporter), "-c", "echo 1; read line"],
        ):
            other = held.enter_context(
                subprocess.Popen(
                    words,
                    cwd=server.data,
                    user=uid,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={"PATH": os.environ["PATH"]},
                )
            )
            held.callback(other.kill)
            assert other.stdout is not None
            assert other.stdout.readline() == b"1\n"
        assert found(server) == own
        assert list_server_pids(*place(server)) == own


SAFE = """#!/bin/sh
# As mysqld_safe does: whenever the server ends, it is started again.
while true; do
  {before}{command}{after}
  echo again >> {again}
done
"""


@pytest.mark.parametrize("way", ["itself", "by sh", "with a pipe"])
def test_what_starts_a_server_again_is_ended_first(
    way: str, new_server: NewServer, folder: Path
) -> None:
    server, again = new_server("mariadb"), folder / "again"
    server.start()
    server.stop()
    uid = server.data.stat().st_uid
    os.chown(folder, uid, -1)
    script = folder / "mysqld_safe"
    words = [str(server._program("mariadbd")), *server._arguments()]
    words.append(f"--tmpdir={folder}")  # the server's own is closed to its account here
    before, after = ("{ ", "; } 2>&1 | cat") if way == "with a pipe" else ("", "")
    command = shlex.join(words)
    script.write_text(
        SAFE.format(before=before, command=command, after=after, again=again)
    )
    script.chmod(0o755)
    start = ["/bin/sh", str(script)] if way == "by sh" else [str(script)]
    with subprocess.Popen(start, stdout=subprocess.DEVNULL, user=uid) as safe:
        try:
            # A server that has just begun is not in its data directory yet.
            wait_until(lambda: bool(list_server_pids(*place(server))), "its server")
            ended = end_server(*place(server), [], 1)
            assert len(ended["killed"]) == 1 and not ended["left"]
            assert safe.wait(10) == -9
            assert not again.exists()
            assert not found(server)
        finally:
            safe.kill()
            for pid in found(server):
                os.kill(pid, 9)
