"""The program of docs/clusters.md that rebuilds a node of MariaDB."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dbcheck.lab.held_port import HeldPort
from tests.kit.waiting import wait_until

ROOT = Path(__file__).parents[3]
NEEDED = ("mariadbd", "mariadb-install-db", "mariadb", "mariadb-backup")
pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(
        not all(map(shutil.which, NEEDED)) or os.geteuid() != 0,
        reason="needs root, mariadb-server-core and mariadb-backup",
    ),
]
# Stand for ssh, systemctl and the programs that find a host's one server by themselves.
_SSH = """#!/bin/bash
export HOST=${3#root@}
bash -c "$4"
"""
_SYSTEMCTL = """#!/bin/bash
pid=$BASE/$HOST.pid
if [ "$1" = start ]; then
    mariadbd --defaults-file=$BASE/$HOST.cnf </dev/null >/dev/null 2>&1 &
    until [ -S $BASE/$HOST.sock ]; do kill -0 $! || exit 1; sleep 0.1; done
elif [ -e $pid ]; then
    kill $(cat $pid)
    while [ -e $pid ]; do sleep 0.1; done
fi
"""
_ON_HOST = """#!/bin/bash
exec {program} --defaults-file=$BASE/$HOST.cnf "$@"
"""


def read_program() -> str:
    text = (ROOT / "docs/clusters.md").read_text("utf-8")
    found = re.search(r"```bash\n(#!/bin/bash\n# rebuild-mariadb .*?)```", text, re.S)
    assert found
    return found[1]


@dataclass
class Host:
    """A host with a MariaDB server, as far as the program can tell."""

    name: str
    port: HeldPort
    programs: Path
    environment: Mapping[str, str]

    @property
    def data(self) -> Path:
        return self.programs / self.name

    def run(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [self.programs / program, *words],
            env={**self.environment, "HOST": self.name},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def sql(self, statements: str) -> str:
        return self.run("mariadb", "-N", "-e", statements)

    def configure(self, number: int) -> None:
        settings = {
            "datadir": self.data,
            "socket": self.data.with_suffix(".sock"),
            "pid_file": self.data.with_suffix(".pid"),
            "log_error": self.data.with_suffix(".log"),
            **{"port": self.port.number, "bind_address": "127.0.0.1"},
            **{"server_id": number, "log_bin": "binlog", "log_slave_updates": "ON"},
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        text = "\n".join(
            [
                "[mariadbd]",
                "user = root",
                *lines,
                "[client]",
                f"socket = {self.data}.sock",
            ]
        )
        self.data.with_suffix(".cnf").write_text(f"{text}\n")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Give an old writer that was shut down, and the standby that took over.

    Each has a row that the other one lacks.
    """
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "BASE": str(tmp_path)}
    programs = {"ssh": _SSH, "systemctl": _SYSTEMCTL}
    for name in ("mariadb", "mariadb-backup"):
        programs[name] = _ON_HOST.format(program=shutil.which(name))
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    hosts = [Host(name, HeldPort(), tmp_path, environment) for name in ("db1", "db2")]
    with contextlib.ExitStack() as stack:
        for number, host in enumerate(hosts, 1):
            host.configure(number)
            make = ("mariadb-install-db", f"--defaults-file={host.data}.cnf")
            # Its test database comes with an account that anybody may use.
            subprocess.run(
                [*make, "--skip-test-db"], check=True, capture_output=True, timeout=120
            )
            stack.callback(host.run, "systemctl", "stop")
            host.run("systemctl", "start")
            host.sql("create database test; create table test.t (n int)")
            host.sql(f"insert into test.t values ({number})")
        hosts[0].run("systemctl", "stop")
        hosts[1].sql(
            "create user replicator@'%' identified by 'secret';"
            "grant replication slave on *.* to replicator@'%'"
        )
        yield hosts[0], hosts[1]


def rebuild(old: Host, new: Host) -> subprocess.CompletedProcess[str]:
    program, password = read_program(), old.programs / "password"
    password.write_text("secret")
    for line, here in (
        ("data=/var/lib/mysql", f"data={old.data}"),
        ("chown -R mysql:", "chown -R root:"),
        ("/etc/dbcheck/replicator", str(password)),
        (
            "master_host = '$writer'",
            f"master_host = '127.0.0.1', master_port = {new.port.number}",
        ),
        ("seq 120", "seq 10"),
    ):
        assert program.count(line) == 1, line
        program = program.replace(line, here)
    (old.programs / "rebuild").write_text(program)
    return subprocess.run(
        ["bash", old.programs / "rebuild", old.name, new.name],
        env=dict(old.environment),
        capture_output=True,
        text=True,
        timeout=180,
    )


def test_an_old_writer_becomes_a_replica(pair: tuple[Host, Host]) -> None:
    old, new = pair
    done = rebuild(old, new)
    assert done.returncode == 0, done.stdout + done.stderr
    new.sql("insert into test.t values (3)")
    rows = "select n from test.t order by n"
    wait_until(lambda: old.sql(rows) == new.sql(rows) == "2\n3", "the same rows")
    assert old.sql("select @@read_only, @@server_id") == "1\t1"


def test_a_node_that_does_not_follow_is_a_failure(pair: tuple[Host, Host]) -> None:
    old, new = pair
    new.sql("drop user replicator@'%'")
    done = rebuild(old, new)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "db1 does not follow db2" in done.stderr
