"""However a lab ends, nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import mysql.connector
import psycopg2
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, PowerError
from dbcheck.lab import lab as labs
from dbcheck.lab import state
from dbcheck.lab.daemon import serve
from dbcheck.lab.lab import Lab
from dbcheck.lab.machine import Machine
from dbcheck.lab.process import Process
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.lab.state import LabRecord
from tests.kit.lab_access import Inside, Table, server_pid
from tests.kit.lab_daemon import run_daemon
from tests.kit.refusals import refused
from tests.kit.servers import segments, skip_without_server
from tests.kit.state_folder import root as root
from tests.kit.waiting import await_end, wait_until

# A client that starts a lab, says so, and then loads it or waits.
_CLIENT = """
import sys
from pathlib import Path
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LabSpec
from tests.kit.lab_access import Table

with Lab.start(LabSpec.from_json(sys.argv[1]), Path(sys.argv[2])) as lab:
    print(lab.name, flush=True)
    Table(lab).insert(10**9)
"""

# A test process with a state folder of its own, in which a lab stays up.
_TESTER = """
import sys
from pathlib import Path
from dbcheck.lab import state, syscalls
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LabSpec
from tests.kit.drive_mounts import MS_SLAVE
from tests.kit.lab_state import labs_end_with_this_process

syscalls.unshare(syscalls.CLONE_NEWNS)
syscalls.mount("none", "/", None, syscalls.MS_REC | MS_SLAVE)
syscalls.mount("none", "/run", "tmpfs", 0)
with labs_end_with_this_process():
    lab = Lab.start(LabSpec.from_json(sys.argv[1]), Path(sys.argv[2]), keep=True)
    print(state.find(lab.name).daemon().pid, flush=True)
    sys.stdin.read()
"""

Start = Callable[[LabSpec, Path], Lab]
ENGINES = pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
ON_EACH = pytest.mark.parametrize(
    ("engine", "filesystem"), [("postgresql", "xfs"), ("mariadb", "ext4")]
)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start labs; what a test that fails leaves of them is ended after it."""
    labs: list[Lab] = []

    def _start(spec: LabSpec, folder: Path) -> Lab:
        skip_without_server(spec.engine)
        labs.append(Lab.start(spec, folder))
        return labs[-1]

    yield _start
    for lab in labs:
        lab.close()


def _client(spec: LabSpec, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start a client; return it, loading its lab, and the lab's name."""
    words = [sys.executable, "-W", "ignore", "-c", _CLIENT, spec.to_json(), str(folder)]
    client = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert client.stdout is not None
    name = client.stdout.readline().decode().strip()
    client.stdout.close()
    assert name
    return client, name


def _assert_nothing_left(inside: Inside) -> None:
    wait_until(lambda: not inside.processes(), "all processes gone")
    wait_until(lambda: not inside.attached(), "loop device free")
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(inside.folder) not in mounts
    assert "dbcheck-lab" not in mounts
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", inside.port)) != 0


def _assert_no_trace(name: str, folder: Path) -> None:
    assert not folder.exists()
    assert name not in [entry.name for entry in state.list_labs()]


def _load(lab: Lab) -> threading.Thread:
    """Commit until the connection breaks; return once commits come in."""
    table = Table(lab)

    def run() -> None:
        with contextlib.suppress(psycopg2.Error, mysql.connector.Error):
            table.insert(10**9)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: len(table.acked) > 20, "commits")
    return thread


@pytest.mark.root
@pytest.mark.parametrize(
    "spec",
    [
        LabSpec("postgresql"),
        LabSpec("mariadb"),
        LabSpec("postgresql", container="layer"),
    ],
    ids=["postgresql", "mariadb", "container"],
)
def test_close_leaves_nothing(start: Start, tmp_path: Path, spec: LabSpec) -> None:
    lab = start(spec, tmp_path / "lab")
    load = _load(lab)
    inside, server = Inside.of(lab), Process.of(server_pid(lab))
    lab.close()
    load.join()
    assert server and not server.alive()
    assert not inside.processes()
    assert not inside.attached()
    _assert_nothing_left(inside)
    _assert_no_trace(lab.name, tmp_path / "lab")
    lab.close()


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_client_takes_its_lab_along(tmp_path: Path, number: signal.Signals) -> None:
    client, name = _client(LabSpec("postgresql"), tmp_path / "lab")
    inside = Inside.of(Lab.find(name))
    client.send_signal(number)
    await_end(client)
    _assert_nothing_left(inside)
    wait_until(lambda: not (tmp_path / "lab").exists(), "folder removed")
    wait_until(lambda: not state.make_record(name).path.exists(), "entry removed")


_Victim = Callable[[Inside], int]


@pytest.mark.root
@pytest.mark.parametrize(
    ("engine", "container", "victim"),
    [
        pytest.param("postgresql", "none", lambda inside: inside.pids[0], id="unshare"),
        pytest.param("postgresql", "none", lambda inside: inside.pids[1], id="init"),
        pytest.param("mariadb", "none", lambda inside: inside.pids[2], id="daemon"),
        pytest.param("mysql", "layer", lambda inside: inside.pids[2], id="container"),
    ],
)
def test_a_killed_daemon_takes_all_along(
    start: Start, tmp_path: Path, engine: str, container: str, victim: _Victim
) -> None:
    lab = start(LabSpec(engine, container=container), tmp_path / "lab")
    load = _load(lab)
    inside, server = Inside.of(lab), Process.of(server_pid(lab))
    os.kill(victim(inside), signal.SIGKILL)
    assert server
    wait_until(lambda: not server.alive(), "the server is gone")
    _assert_nothing_left(inside)
    load.join()
    assert not state.make_record(lab.name).alive()
    with refused(ErrorId.LAB_DAEMON_GONE, LabError, naming="cannot reach"):
        lab.counters()
    state.remove_dead(frozenset({lab.name}))
    _assert_no_trace(lab.name, tmp_path / "lab")
    lab.close()


@pytest.mark.root
@ON_EACH
def test_a_killed_drive_is_the_labs_fault_and_no_more(
    start: Start, tmp_path: Path, engine: str, filesystem: str
) -> None:
    lab = start(LabSpec(engine, filesystem=filesystem), tmp_path / "lab")
    load = _load(lab)
    inside = Inside.of(lab)
    os.kill(inside.drive(), signal.SIGKILL)
    with refused(ErrorId.LAB_BROKEN, PowerError, naming="SIGKILL") as caught:
        lab.switch().failure()
    assert "The server is not at fault" in caught.value.hint
    with refused(ErrorId.VIRTUAL_DRIVE_GONE, PowerError, naming="SIGKILL"):
        lab.switch().cut()
    with refused(ErrorId.VIRTUAL_DRIVE_GONE, PowerError, naming="SIGKILL"):
        lab.switch().restore()
    lab.close()
    load.join()
    _assert_nothing_left(inside)
    _assert_no_trace(lab.name, tmp_path / "lab")


@pytest.mark.root
def test_a_daemon_that_hangs_is_ended_by_force(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = start(LabSpec("postgresql"), tmp_path / "lab")
    inside = Inside.of(lab)
    os.kill(inside.pids[2], signal.SIGSTOP)
    monkeypatch.setattr(labs, "_DOWN_TIMEOUT_S", 0.3)
    lab.close()
    _assert_nothing_left(inside)
    _assert_no_trace(lab.name, tmp_path / "lab")


@pytest.fixture
def unisolated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run daemons as where there are no namespaces to be had."""
    monkeypatch.setattr("dbcheck.lab.namespace.are_available", lambda: False)
    yield


def _noted(name: str) -> list[Process]:
    entry = state.find(name)
    daemon = entry.daemon()
    assert daemon is not None
    assert entry.processes()
    return [daemon, *entry.processes()]


@ENGINES
def test_without_namespaces_close_leaves_nothing(
    start: Start, engine: str, unisolated: None
) -> None:
    with tempfile.TemporaryDirectory() as open_folder:
        folder = Path(open_folder)
        folder.chmod(0o711)  # for the server's account
        lab = start(LabSpec(engine, cut="process"), folder / "lab")
        processes = _noted(lab.name)
        if os.geteuid() == 0 and engine == "mariadb":
            owner = Path(f"/proc/{processes[1].pid}").stat().st_uid
            assert owner == state.find(lab.name).account()
        Table(lab).insert(5)
        lab.close()
        assert not [process for process in processes if process.alive()]
        _assert_no_trace(lab.name, folder / "lab")


@pytest.mark.parametrize(
    ("engine", "frozen"), [("postgresql", False), ("mariadb", True)]
)
def test_without_namespaces_a_killed_daemon_takes_all_along(
    start: Start, engine: str, frozen: bool, unisolated: None
) -> None:
    with tempfile.TemporaryDirectory() as open_folder:
        folder = Path(open_folder)
        folder.chmod(0o711)  # for the server's account
        lab = start(LabSpec(engine, cut="process"), folder / "lab")
        processes = _noted(lab.name)
        if frozen:
            lab.freeze_server()
            processes = _noted(lab.name)
        pids = [process.pid for process in processes]
        assert bool(segments(pids)) == (engine == "postgresql")
        processes[0].kill()
        # A frozen child of a server notices nothing; remove_dead() looks after it.
        if not frozen:
            wait_until(lambda: not any(p.alive() for p in processes), "all gone")
        state.remove_dead(frozenset({lab.name}))
        assert not [process for process in processes if process.alive()]
        assert not segments(pids)
        _assert_no_trace(lab.name, folder / "lab")
        lab.close()


@pytest.mark.parametrize(
    "isolated", [pytest.param(True, marks=pytest.mark.root), False]
)
def test_a_lab_ends_whose_record_is_gone(
    isolated: bool, start: Start, request: pytest.FixtureRequest
) -> None:
    """A runtime folder is removed when its account logs out."""
    if not isolated:
        request.getfixturevalue("unisolated")
    with tempfile.TemporaryDirectory() as open_folder:
        folder = Path(open_folder)
        folder.chmod(0o711)  # for the server's account
        lab = start(LabSpec("postgresql", cut="process"), folder / "lab")
        daemon = state.find(lab.name).daemon()
        assert daemon is not None
        shutil.rmtree(state.make_record(lab.name).path)
        wait_until(lambda: not daemon.alive(), "the daemon ended")
        with pytest.raises(psycopg2.OperationalError, match="refused"):
            Table(lab)
        assert not (folder / "lab").exists()


@pytest.fixture
def built(root: Path, tmp_path: Path) -> Iterator[tuple[LabRecord, int]]:
    """The record of a lab that is to be built, and its lock."""
    entry, lock = state.create("one")
    folder = tmp_path / "lab"
    folder.mkdir()
    entry.note(folder=str(folder), spec=LabSpec("postgresql", cut="process").to_json())
    yield entry, lock
    os.close(lock)


def _ends_at_once(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]
) -> None:
    """Have a daemon build nothing, do that, and be asked to end."""

    def serving(_: serve.Daemon) -> None:
        raise SystemExit(0)

    monkeypatch.setattr(serve, "_RETRY_S", 0)
    monkeypatch.setattr(Sshd, "start", lambda _: None)
    monkeypatch.setattr(Machine, "build", lambda _: meanwhile())
    monkeypatch.setattr(serve.Daemon, "serve", serving)


class DoesNotEnd:
    """A part of a lab that ends only once it was tried so often."""

    def __init__(self, tries: int, error: Exception) -> None:
        self._tries, self._error = tries, error
        self.tried = 0

    def close(self) -> None:
        self.tried += 1
        if self.tried < self._tries:
            raise self._error


NOT_ENDED = LabError("it does not end", id=ErrorId.PROCESSES_DO_NOT_END)


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize(
    ("part", "error"),
    [
        pytest.param(Machine, NOT_ENDED, id="server"),
        pytest.param(Sshd, NOT_ENDED, id="sshd"),
        pytest.param(Sshd, subprocess.TimeoutExpired("sshd", 5), id="a defect of ours"),
    ],
)
def test_a_lab_that_does_not_end_stays_on_record(
    part: type,
    error: Exception,
    is_gone: bool,
    built: tuple[LabRecord, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its record names the processes that are left, where no namespace ends them.

    Once that is gone, they are ended again until none is left.
    """
    entry, lock = built
    stuck = DoesNotEnd(3, error)
    monkeypatch.setattr(part, "close", lambda _: stuck.close())

    def meanwhile() -> None:
        if is_gone:
            shutil.rmtree(entry.path)

    _ends_at_once(monkeypatch, meanwhile)
    with pytest.raises(SystemExit, match="0"):
        run_daemon(entry, lock)
    assert stuck.tried == (3 if is_gone else 1)
    assert (tmp_path / "lab").exists() is not is_gone
    assert entry.facts.exists() is not is_gone


def test_a_lab_that_ends_is_on_record_no_more(
    built: tuple[LabRecord, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, lock = built
    _ends_at_once(monkeypatch, lambda: None)
    with pytest.raises(SystemExit, match="0"):
        run_daemon(entry, lock)
    assert not (tmp_path / "lab").exists()
    assert not entry.path.exists()


def test_the_record_of_another_lab_that_has_the_name_by_now_is_left_alone(
    built: tuple[LabRecord, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder alone was removed, and not the lab."""
    entry, lock = built
    locks = []

    def replaced() -> None:
        shutil.rmtree(entry.path)
        other, held = state.create("one")
        other.note(folder="another")
        locks.append(held)

    stuck = DoesNotEnd(3, NOT_ENDED)
    monkeypatch.setattr(Machine, "close", lambda _: stuck.close())
    _ends_at_once(monkeypatch, replaced)
    with pytest.raises(SystemExit, match="0"):
        run_daemon(entry, lock)
    assert stuck.tried == 3
    assert not (tmp_path / "lab").exists()
    assert state.find("one").read() == {"folder": "another"}
    os.close(locks[0])


# A daemon that does not end when it is asked to, only once nothing watches it.
_WATCHED = """
import os, shutil, sys, threading
from pathlib import Path
from dbcheck.lab.daemon import serve
from dbcheck.lab.state import LabRecord

serve._RECORD_S = serve._ORDERLY_END_S = 0.01
entry = LabRecord(Path(sys.argv[1]))

def asked(*_):
    if sys.argv[2] == "both":
        shutil.rmtree(entry.path)

os.kill = asked
serve._start_watch(entry, 0, os.open(entry.path / "lock", os.O_RDWR))
for thread in threading.enumerate():
    if thread.name == "client watch":
        thread.join()
"""


@pytest.mark.parametrize("end", ["client", "record", "both"])
def test_only_a_daemon_that_is_on_record_is_ended_by_force(
    end: str, root: Path
) -> None:
    """Nobody finds what it leaves if it is not; and its record is kept from ageing.

    end: what goes; both go at a logout, the record as the daemon is asked to end.
    """
    entry, lock = state.create("one")
    os.close(lock)
    entry.note(stays=True)
    paths = [entry.path, entry.path / "lock", entry.facts]
    for path in paths:
        os.utime(path, (0, 0))
    words = [sys.executable, "-c", _WATCHED, str(entry.path), end]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as watched:
        wait_until(
            lambda: all(p.stat().st_atime and p.stat().st_mtime for p in paths),
            "the times of its files renewed",
        )
        if end == "record":
            shutil.rmtree(entry.path)
        else:
            assert watched.stdin is not None
            watched.stdin.close()
        assert await_end(watched) == (end == "client")


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_labs_of_a_test_that_is_ended_do_not_outlive_it(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Their records are in a mount namespace that ends with the test."""
    skip_without_server("postgresql")
    spec = LabSpec("postgresql", cut="process").to_json()
    words = [sys.executable, "-c", _TESTER, spec, str(tmp_path / "lab")]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as tester:
        assert tester.stdout is not None
        daemon = Process.of(int(tester.stdout.readline()))
        assert daemon is not None
        tester.send_signal(number)
    wait_until(lambda: not daemon.alive(), "the lab ended")
    wait_until(lambda: not (tmp_path / "lab").exists(), "its folder was removed")
