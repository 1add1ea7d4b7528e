"""dbcheck init at a terminal and without one; each command that it advises works."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.cli import PASS, USAGE
from dbcheck.inventory.load import load_inventory
from dbcheck.lab.servers.base import DatabaseServer
from tests.kit.terminal import Terminal

DBCHECK = (sys.executable, "-m", "dbcheck")
HERE = Path.cwd()


def run(*words: str, password: str = "") -> tuple[int, str]:
    """Run dbcheck without a terminal; return its exit code and all that it said."""
    done = subprocess.run(
        (*DBCHECK, *words),
        env=os.environ | {"DBCHECK_PASSWORD": password},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_the_commands_that_are_advised_work_as_they_stand(
    postgresql_server: DatabaseServer, tmp_path: Path
) -> None:
    server, file = postgresql_server, tmp_path / "hosts.yml"
    code, said = run(
        *("init", str(file), "--target", server.url, "--switch", "manual"),
        *("--witness", f"file:{tmp_path}/acks", "--target-host", "local:"),
    )
    assert code == PASS, said
    lines = [line.strip() for line in said.splitlines()]
    advised = [shlex.split(x)[1:] for x in lines if x.startswith("dbcheck ")]
    grants, audit, golive = advised
    code, said = run(*grants)
    assert code == PASS, said
    assert "create role" in said
    code, said = run(*audit, password=server.password)
    assert code == PASS, said
    assert "PostgreSQL" in said
    # This machine is the server's own, so the check begins and stops at the witness.
    folder = ("--folder", str(tmp_path / "check"))
    code, said = run(*golive, *folder, password=server.password)
    assert code == USAGE, said
    assert ErrorId.WITNESS_ON_TARGET in said
    assert (tmp_path / "check" / "golive.html").is_file()


def test_at_a_terminal_it_asks_for_what_it_needs(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yml"
    target = "postgresql+psycopg2://dbcheck@db7.example.net/dbcheck"
    words = (*DBCHECK, "init", str(file))
    with Terminal(*words, environment=os.environ, folder=HERE) as terminal:
        terminal.until("Server: ")
        terminal.type("postgresql://u:secret@db7/x\n")
        terminal.until("contains a password", "Server: ")
        terminal.type(f"{target}\n")
        terminal.until("Witness: ")
        terminal.type("ssh://me@w.example.net/~/acks\n")
        terminal.until("[ssh://root@db7.example.net]: ")
        terminal.type("\n")
        terminal.until("[manual]: ")
        terminal.type("\n")
        terminal.until("[db7]: ")
        terminal.type("\n")
        terminal.until("dbcheck golive db7")
    entry = load_inventory(file).entry("db7")
    assert (entry.target, entry.host) == (target, "ssh://root@db7.example.net")


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_a_question_that_is_left_writes_nothing(tmp_path: Path, key: str) -> None:
    words = (*DBCHECK, "init", str(tmp_path / "hosts.yml"))
    with Terminal(*words, environment=os.environ, folder=HERE) as terminal:
        terminal.until("Server: ")
        terminal.type(key)
        terminal.until("interrupted")
    assert not list(tmp_path.iterdir())
