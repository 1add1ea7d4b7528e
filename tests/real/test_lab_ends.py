"""However a lab ends, nothing of it is left."""

from __future__ import annotations

import contextlib
import os
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

from dbcheck.errors import LabError, PowerError
from dbcheck.lab import lab as labs
from dbcheck.lab import state
from dbcheck.lab.lab import Lab
from dbcheck.lab.process import Process
from dbcheck.lab.spec import LabSpec
from tests.kit.lab_access import Inside, Table
from tests.kit.servers import segments, skip_without_server
from tests.kit.waiting import wait_until

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
    assert name not in [entry.name for entry in state.entries()]


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
@ENGINES
def test_close_leaves_nothing(start: Start, tmp_path: Path, engine: str) -> None:
    lab = start(LabSpec(engine), tmp_path / "lab")
    load = _load(lab)
    inside = Inside.of(lab)
    lab.close()
    load.join()
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
    client.wait()
    _assert_nothing_left(inside)
    wait_until(lambda: not (tmp_path / "lab").exists(), "folder removed")
    wait_until(lambda: not state.record_of(name).path.exists(), "entry removed")


_Victim = Callable[[Inside], int]


@pytest.mark.root
@pytest.mark.parametrize(
    ("engine", "victim"),
    [
        pytest.param("postgresql", lambda inside: inside.pids[0], id="unshare"),
        pytest.param("postgresql", lambda inside: inside.pids[1], id="process 1"),
        pytest.param("mariadb", lambda inside: inside.pids[2], id="daemon"),
    ],
)
def test_a_killed_daemon_takes_all_along(
    start: Start, tmp_path: Path, engine: str, victim: _Victim
) -> None:
    lab = start(LabSpec(engine), tmp_path / "lab")
    load = _load(lab)
    inside = Inside.of(lab)
    os.kill(victim(inside), signal.SIGKILL)
    _assert_nothing_left(inside)
    load.join()
    assert not state.record_of(lab.name).alive()
    with pytest.raises(LabError, match="cannot reach"):
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
    with pytest.raises(PowerError, match="is broken: .*SIGKILL") as caught:
        lab.switch().failure()
    assert "The server is not at fault" in caught.value.hint
    with pytest.raises(PowerError, match="SIGKILL"):
        lab.switch().cut()
    with pytest.raises(PowerError, match="SIGKILL"):
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
    monkeypatch.setattr("dbcheck.lab.namespace.available", lambda: False)
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
        lab = start(LabSpec(engine, rung="process"), folder / "lab")
        processes = _noted(lab.name)
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
        lab = start(LabSpec(engine, rung="process"), folder / "lab")
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
