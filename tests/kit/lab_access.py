"""What the tests of a lab need: connections to its server, and a look inside it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mysql.connector
import psycopg2
from sqlalchemy.engine import make_url

from dbcheck.lab import state
from dbcheck.lab.lab import Lab
from dbcheck.lab.process import Process


def connect(url: str, password: str) -> Any:
    """Return an autocommitting connection of the plain driver."""
    to = make_url(url)
    where: dict[str, Any] = {"host": to.host, "port": to.port, "user": to.username}
    if to.drivername.startswith("postgresql"):
        connection = psycopg2.connect(
            dbname=to.database, password=password, connect_timeout=5, **where
        )
        connection.autocommit = True
        return connection
    return mysql.connector.connect(
        database=to.database,
        password=password,
        autocommit=True,
        use_pure=True,
        connection_timeout=5,
        **where,
    )


def execute_on(lab: Lab, *statements: str) -> list[Any]:
    """Run these on the server of *lab*; return the rows of the last one."""
    rows: list[Any] = []
    with contextlib.closing(connect(lab.target_url, lab.password)) as link:
        cursor = link.cursor()
        for statement in statements:
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
    return rows


class Table:
    """A table of numbers, each inserted in a transaction of its own."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.acked: list[int] = []
        self._execute("create table numbers (n int primary key)")

    def insert(self, count: int) -> None:
        """Commit *count* more numbers over one connection."""
        connection = connect(self._lab.target_url, self._lab.password)
        try:
            cursor = connection.cursor()
            for _ in range(count):
                number = len(self.acked)
                cursor.execute("insert into numbers values (%s)", (number,))
                self.acked.append(number)
        finally:
            _close(connection)

    def lost(self) -> set[int]:
        """Return the acked numbers that are not there; all if the table is not."""
        try:
            found = self._execute("select n from numbers")
        except (psycopg2.Error, mysql.connector.Error):
            return set(self.acked)
        return set(self.acked) - {int(row[0]) for row in found}

    def _execute(self, statement: str) -> list[Any]:
        connection = connect(self._lab.target_url, self._lab.password)
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            _close(connection)


def server_pid(lab: Lab) -> int:
    """Return the first process of the lab's server, as seen from outside."""
    daemon = state.find(lab.name).daemon()
    assert daemon is not None
    below = [daemon.pid]
    for pid in below:  # grows while it is walked
        below += children(pid)
        if Path(f"/proc/{pid}/comm").read_text().strip() in _SERVERS:
            return pid
    raise AssertionError("no server process")


def _close(connection: Any) -> None:
    with contextlib.suppress(psycopg2.Error, mysql.connector.Error):
        connection.close()


@dataclass(frozen=True)
class Inside:
    """The processes and devices of one lab, as seen from outside.

    pids: outermost first: unshare, process 1 of the namespace, the daemon.
    loop: name of the loop device and which use of it this is.
    """

    pids: list[int]
    pid_namespace: str
    loop: tuple[str, str]
    folder: Path
    port: int

    @classmethod
    def of(cls, lab: Lab) -> Inside:
        entry = state.find(lab.name)
        daemon, folder = entry.daemon(), entry.folder()
        assert daemon is not None
        assert folder is not None
        pids = [daemon.pid]
        for _ in range(2):
            pids.append(children(pids[-1])[0])
        namespace = os.readlink(f"/proc/{pids[2]}/ns/pid")
        mounts = Path(f"/proc/{pids[2]}/mountinfo").read_text().splitlines()
        loop = next(line.split(" - ")[1].split()[1] for line in mounts if _LOOP in line)
        name = Path(loop).name
        port = make_url(lab.target_url).port
        assert port is not None
        return cls(pids, namespace, (name, _use(name)), folder, port)

    @property
    def device(self) -> Path:
        """The loop device."""
        return Path("/dev", self.loop[0])

    def drive(self) -> int:
        """Return the drive's process."""
        for pid in children(self.pids[2]):
            if (
                b"dbcheck.lab.drive.process"
                in Path(f"/proc/{pid}/cmdline").read_bytes()
            ):
                return pid
        raise AssertionError("no drive process")

    def processes(self) -> list[int]:
        """Return who is left of unshare and of those in the pid namespace."""
        left = [pid for pid in self.pids[:1] if Process.of(pid)]
        for path in Path("/proc").glob("[0-9]*/ns/pid"):
            try:
                if os.readlink(path) == self.pid_namespace:
                    left.append(int(path.parts[2]))
            except OSError:
                continue
        return left

    def attached(self) -> bool:
        """Say whether the loop device still is the lab's."""
        return _use(self.loop[0]) == self.loop[1]


_LOOP = " /dev/loop"
_SERVERS = {"postgres", "mariadbd", "mysqld"}


def children(pid: int) -> list[int]:
    """Return the processes that *pid* has started and that still are its own."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ends
            found += map(int, (task / "children").read_text().split())  # proc(5)
    return found


def _use(loop: str) -> str:
    """Return which use of the loop device this is, "" if it is free."""
    device = Path("/sys/block", loop)
    try:
        (device / "loop/backing_file").read_text()
        return (device / "diskseq").read_text()
    except OSError:
        return ""
