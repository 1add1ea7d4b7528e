"""The program of docs/clusters.md that rebuilds a node of PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.waiting import wait_until

ROOT = Path(__file__).parents[3]
DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_rewind"))
pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(
        not DEBIAN or os.geteuid() != 0,
        reason="needs root and Debian's postgresql, with its account postgres",
    ),
]


def read_program() -> str:
    text = (ROOT / "docs/clusters.md").read_text("utf-8")
    found = re.search(
        r"```bash\n(#!/bin/bash\n# rebuild-postgresql .*?)```", text, re.S
    )
    assert found
    return found[1]


@dataclass
class Server:
    """A PostgreSQL server of the account postgres."""

    data: Path
    port: int

    def run(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [
                *("runuser", "-u", "postgres", "--"),
                str(DEBIAN[-1].with_name(program)),
                *words,
            ],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def sql(self, statement: str) -> str:
        where = f"host={self.data.parent} port={self.port} dbname=postgres"
        return self.run("psql", "-XAtq", "-d", where, "-c", statement)

    @property
    def options(self) -> str:
        """The options of its start: it has no configuration outside its data."""
        folder = self.data.parent
        return f"-p {self.port} -k {folder} -h '' -c wal_keep_size=64MB"

    def start(self) -> None:
        log = str(self.data.parent / f"{self.port}.log")
        words = ("-D", str(self.data), "-w", "-s", "-l", log, "-o", self.options)
        self.run("pg_ctl", *words, "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-w", "-s", "-m", "fast", "stop")


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder of the account postgres, which tmp_path does not let through."""
    made = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        shutil.chown(made, "postgres", "postgres")
        yield made
    finally:
        shutil.rmtree(made)


@pytest.fixture
def pair(folder: Path) -> Iterator[tuple[Server, Server]]:
    """Give an old writer that was shut down, and the standby that took over.

    Each has a row that the other one lacks.
    """
    old, new = (Server(folder / name, _find_port()) for name in ("old", "new"))
    old.run("initdb", "-D", str(old.data), "--data-checksums", "--no-sync")
    with contextlib.ExitStack() as stack:
        old.start()
        stack.callback(stop_if_running, old)
        old.sql("create table t (n int)")
        source = f"host={folder} port={old.port}"
        old.run(
            *("pg_basebackup", "-D", str(new.data), "-d", source),
            *("--write-recovery-conf", "--checkpoint=fast"),
        )
        new.start()
        stack.callback(stop_if_running, new)
        new.sql("select pg_promote()")
        new.sql("insert into t values (2)")
        new.sql("alter system set synchronous_standby_names = 'db3'")
        old.sql("insert into t values (1)")
        yield old, new


def stop_if_running(server: Server) -> None:
    if (server.data / "postmaster.pid").exists():
        server.stop()


def rebuild(folder: Path, old: Server, new: Server) -> subprocess.CompletedProcess[str]:
    """Run the program with an ssh and a systemctl that work on this machine."""
    program = read_program()
    for line, here in (
        ("bin=/usr/lib/postgresql/17/bin", f"bin={DEBIAN[-1].parent}"),
        ("data=/var/lib/postgresql/17/main", f"data={old.data}"),
        ("host=$writer user=rebuild", f"host={folder} port={new.port} user=postgres"),
        ("seq 120", "seq 30"),
    ):
        assert program.count(line) == 1
        program = program.replace(line, here)
    log = folder / f"{old.port}.log"
    control = f"runuser -u postgres -- {DEBIAN[-1].with_name('pg_ctl')} -D {old.data}"
    programs = {
        "rebuild": program,
        "ssh": '#!/bin/bash\n[ "$3" = root@db1 ] && shift 3 && exec "$@"\n',
        "systemctl": f"""#!/bin/bash
cd /
[ "$1" = stop ] && [ ! -e {old.data}/postmaster.pid ] && exit 0
{control} -w -s -m fast -l {log} -o "{old.options}" "$1"
""",
    }
    folder = folder / "bin"
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return subprocess.run(
        [folder / "rebuild", "db1", "db2"],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=180,
    )


@pytest.mark.parametrize("copied", [False, True], ids=["rewound", "copied"])
def test_an_old_writer_becomes_a_standby(
    folder: Path, pair: tuple[Server, Server], copied: bool
) -> None:
    old, new = pair
    if copied:  # pg_rewind cannot read what is left
        old.stop()
        (old.data / "global/pg_control").unlink()
    done = rebuild(folder, old, new)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("pg_rewind: error" in done.stderr) is copied, done.stderr
    assert old.sql("select pg_is_in_recovery()") == "t"
    new.sql("set synchronous_commit = local; insert into t values (3)")
    rows = "select n from t order by n"
    wait_until(lambda: old.sql(rows) == new.sql(rows) == "2\n3", "the same rows")
    assert old.sql("show synchronous_standby_names") == ""
    slots = new.sql("select slot_name, active from pg_replication_slots")
    assert slots == "db1|t"


def test_a_node_that_does_not_follow_is_a_failure(
    folder: Path, pair: tuple[Server, Server]
) -> None:
    old, new = pair
    new.stop()
    done = rebuild(folder, old, new)
    assert done.returncode != 0
    assert str(new.port) in done.stderr
