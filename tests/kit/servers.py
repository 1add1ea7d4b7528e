"""Fixtures: real servers of the lab, shared by a session or fresh for one test.

Loaded by tests/conftest.py through pytest_plugins.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.errors import DbcheckError
from dbcheck.engines.registry import open_engine
from dbcheck.lab.machine import SERVERS as SERVERS
from dbcheck.lab.server_account import Account, draw_id, find_packaged_account
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.ports.engine import Engine
from tests.kit.rigs import ENGINES

NewServer = Callable[[str], DatabaseServer]
_BEGAN_S = int(time.time())  # of the tests


def engine_of(server: DatabaseServer) -> Engine:
    """Return the engine that speaks to *server* as its account dbcheck."""
    return open_engine(server.url, server.password)


def answers(engine: Engine) -> bool:
    """Return True if the server takes queries."""
    with contextlib.suppress(DbcheckError):
        engine.facts()
        return True
    return False


def segments(pids: list[int]) -> list[str]:
    """Return the SysV shared memory segments that these processes created.

    An old one may name the same process id, of a process that ended long ago.
    """
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    named = [line for line in lines if int(line.split()[4]) in pids]
    return [line for line in named if int(line.split()[13]) >= _BEGAN_S]


def skip_without_server(engine: str) -> None:
    """Skip the test if there is no server of this engine here."""
    if lacking := SERVERS[engine].missing():
        pytest.skip("; ".join(lacking))


def _server_folder() -> Path:
    """Return a new folder that the server's account can reach; pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    folder.chmod(0o755)
    return folder


def account_for(kind: type[DatabaseServer], data: Path) -> Account | None:
    """Return what root can run a server as where no lab gives it an account.

    That is who owns its data, if they are there.
    """
    if os.geteuid() != 0:
        return None
    if data.is_dir():
        owner = data.stat()
        return Account(owner.st_uid, owner.st_gid)
    if not kind.needs_entry:
        return Account.of_number(draw_id(()))
    if (found := find_packaged_account(kind.accounts)) is None:
        pytest.skip(f"there is no account {kind.accounts[0]}")
    return found


def server_in(
    folder: Path, kind: type[DatabaseServer], **values: Any
) -> DatabaseServer:
    """Return a server whose data are in *folder*, and all else, too."""
    data = folder / "data"
    return kind(data, folder / "run", account=account_for(kind, data), **values)


def _new_server(name: str, folder: Path) -> DatabaseServer:
    server = server_in(folder, SERVERS[name])
    server.initialise()
    return server


def _copied(template: DatabaseServer, folder: Path) -> DatabaseServer:
    """Return a server of *template*'s kind, account and password.

    A MySQL draws a server_uuid of its own; a PostgreSQL has the template's identifier.
    """
    command = ["cp", "-a", str(template.data), str(folder / "data")]
    subprocess.run(command, check=True)
    (folder / "data/auto.cnf").unlink(missing_ok=True)
    server = server_in(folder, SERVERS[template.name])
    server._begin_run(template.password)
    return server


def _running(name: str) -> Iterator[DatabaseServer]:
    skip_without_server(name)
    folder = _server_folder()
    try:
        server = _new_server(name, folder)
        try:
            server.start()
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[DatabaseServer]:
    """A running PostgreSQL; leave it running, and nothing behind."""
    yield from _running("postgresql")


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[DatabaseServer]:
    """A running MariaDB; leave it running, and nothing behind."""
    yield from _running("mariadb")


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[DatabaseServer]:
    """A running MySQL; leave it running, and nothing behind."""
    yield from _running("mysql")


@pytest.fixture(scope="session")
def myrocks_server() -> Iterator[DatabaseServer]:
    """A running MariaDB whose tables are in MyRocks; leave nothing behind."""
    yield from _running("myrocks")


@pytest.fixture(params=[*ENGINES, pytest.param("myrocks", marks=pytest.mark.wide)])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    """Each kind of running server in turn; leave it running, and nothing behind."""
    running: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    return running


@pytest.fixture
def engine(server: DatabaseServer) -> Iterator[Engine]:
    """The engine of a running server, which has none of dbcheck's tables yet."""
    fresh = engine_of(server)
    fresh.drop()
    yield fresh
    server.thaw()
    fresh.drop()


@pytest.fixture(scope="session")
def template() -> Iterator[NewServer]:
    """Give an initialised server of a kind, never started: making one takes seconds."""
    made: dict[str, DatabaseServer] = {}
    folders: list[Path] = []

    def find(name: str) -> DatabaseServer:
        if name not in made:
            folders.append(_server_folder())
            made[name] = _new_server(name, folders[-1])
        return made[name]

    yield find
    for folder in folders:
        shutil.rmtree(folder)


@pytest.fixture
def new_server(template: NewServer) -> Iterator[NewServer]:
    """Make initialised servers of a kind; they are killed and removed afterwards."""
    made: list[DatabaseServer] = []
    folders: list[Path] = []

    def make(name: str) -> DatabaseServer:
        skip_without_server(name)
        folders.append(_server_folder())
        made.append(_copied(template(name), folders[-1]))
        return made[-1]

    yield make
    for one in made:
        one.kill()
    for folder in folders:
        shutil.rmtree(folder)


@pytest.fixture(params=ENGINES)
def own_server(request: pytest.FixtureRequest, new_server: NewServer) -> DatabaseServer:
    """A fresh server of each kind in turn, initialised, not started."""
    return new_server(request.param)
