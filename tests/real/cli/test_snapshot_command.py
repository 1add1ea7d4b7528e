"""dbcheck snapshot and the reconciliation of its run, by an inventory's programs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from sqlalchemy.engine import make_url

from dbcheck.base.processes import make_environment
from dbcheck.lab.servers.postgresql import PostgresqlServer
from dbcheck.lab.spec import LabSpec
from tests.kit.rigs import Bench, bench
from tests.kit.servers import account_for, skip_without_server

LIMIT_S = 180


@dataclass(frozen=True)
class Drill:
    """A server, an inventory that says how to copy it, and the copies.

    broken: the restore fails as long as this file is there.
    """

    here: Bench
    folder: Path
    inventory: Path

    @property
    def broken(self) -> Path:
        return self.folder / "broken"

    @property
    def copies(self) -> list[str]:
        return os.listdir(self.folder / "copies")

    def dbcheck(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run dbcheck with this inventory, in the folder."""
        command = [sys.executable, "-m", "dbcheck", *words]
        given = ["--inventory", str(self.inventory)]
        secret = {"DBCHECK_PASSWORD": self.here.lab.password}
        return subprocess.run(
            [*command, *given],
            env={**make_environment(), **secret, "COLUMNS": "200"},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )


def _write_inventory(here: Bench, folder: Path) -> Path:
    """Write the inventory of the host db1, with pg_basebackup as its program."""
    postgres = PostgresqlServer.find("postgres")
    assert postgres is not None
    bin, url = postgres.parent, make_url(here.lab.target_url)
    data = here.lab.folder / "files/data"
    account, as_it = account_for(PostgresqlServer, data), ""
    copies, secret = folder / "copies", folder / "pgpass"
    copies.mkdir()
    secret.touch(0o600)
    secret.write_text(f"*:*:*:*:{here.lab.password}\n")
    if account is not None:
        as_it = f"setpriv --reuid={account.uid} --regid={account.gid} --clear-groups"
        for path in (copies, secret):
            os.chown(path, account.uid, account.gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    programs = {
        "copy": f"PGPASSFILE={secret} exec {as_it} {bin}/pg_basebackup -h 127.0.0.1"
        f" -p {url.port} -U {url.username} -D {copies}/$1 -X stream -c fast",
        "restore": f"test ! -e {folder}/broken\n"
        f"{as_it} {bin}/pg_ctl status -D {copies}/$1"
        f" || {as_it} {bin}/pg_ctl start -w -s -D {copies}/$1 -l {copies}/log"
        f' -o "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="',
        "remove": f"{as_it} {bin}/pg_ctl stop -s -m immediate -w -D {copies}/$1\n"
        f"rm -r {copies}/$1 {copies}/log",
    }
    restore = {name: ["sh", "-ec", text, name] for name, text in programs.items()}
    shown = url.set(port=port).render_as_string(hide_password=False)
    host = {
        "dbcheck_target": here.lab.target_url,
        "dbcheck_witness": f"file:{folder}/acks",
        "dbcheck_sessions": 4,
        "dbcheck_restore": {**restore, "target": shown, "timeout_s": 60},
    }
    file = folder / "inventory.yml"
    plain = {"dbcheck_target": "postgresql://u@db2/d", "dbcheck_witness": "file:db2"}
    file.write_text(yaml.safe_dump({"all": {"hosts": {"db1": host, "db2": plain}}}))
    return file


@pytest.fixture(scope="module")
def drill() -> Iterator[Drill]:
    skip_without_server("postgresql")
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    folder.chmod(0o755)
    try:
        with bench(LabSpec("postgresql", cut="process"), folder / "lab") as here:
            yield Drill(here, folder, _write_inventory(here, folder))
    finally:
        shutil.rmtree(folder)


def test_a_whole_copy_passes_and_leaves_nothing(drill: Drill) -> None:
    done = drill.dbcheck("snapshot", "db1")
    assert done.returncode == 0, done.stderr
    assert "Every commit that was acknowledged before the copy was begun" in done.stdout
    assert drill.copies == []


@pytest.mark.wide
def test_several_copies_are_a_table_and_leave_nothing(drill: Drill) -> None:
    done = drill.dbcheck("snapshot", "db1", "--copies", "2", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"] == "PASS"
    assert len({one["run"] for one in found["copies"]}) == 2
    assert drill.copies == []
    shown = drill.dbcheck("snapshot", "db1", "--copies", "2").stdout
    assert "2 of 2 copies came back with every commit that must be there" in shown


def test_a_restore_that_failed_is_tried_again_by_reconcile(drill: Drill) -> None:
    drill.broken.touch()
    failed = drill.dbcheck("snapshot", "db1")
    drill.broken.unlink()
    assert failed.returncode == 4
    assert "[copy-not-restored]" in failed.stderr
    assert "dbcheck reconcile runs/" in failed.stderr
    (copy,) = drill.copies
    done = drill.dbcheck("reconcile", "--name", "db1", f"runs/{copy}")
    assert done.returncode == 0, done.stderr
    assert "Every commit that was acknowledged before the copy was begun" in done.stdout
    assert drill.copies == []
    again = drill.dbcheck("reconcile", "--name", "db1", f"runs/{copy}")
    assert again.returncode == 2
    assert "[survivors-read-already]" in again.stderr


def test_a_host_that_cannot_be_copied_says_what_it_lacks(drill: Drill) -> None:
    done = drill.dbcheck("snapshot", "db2")
    assert done.returncode == 2
    assert "db2 has no dbcheck_restore" in done.stderr
    assert "[restore-not-set-up]" in done.stderr


def test_a_workload_that_changes_rows_is_refused(drill: Drill) -> None:
    done = drill.dbcheck("snapshot", "db1", "--workload", "mixed")
    assert done.returncode == 2
    assert "[workload-not-for-copy]" in done.stderr
