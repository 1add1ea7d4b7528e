"""The verbs in a folder where somebody else has put modules and programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec

MODULES = sys.stdlib_module_names | {
    *("asyncssh", "click", "cryptography", "dbcheck", "msgspec", "mysql", "numpy"),
    *("ansible", "jinja2", "paramiko", "psycopg", "psycopg2", "rich", "sqlalchemy"),
    *("yaml",),
    *("sitecustomize", "usercustomize"),
}
PROGRAMS = (
    *("ansible-inventory", "env", "initdb", "journalctl", "mkfs.xfs", "mount"),
    *("nvme", "postgres", "python3", "setpriv", "sh", "smartctl", "sshd", "sudo"),
    *("sync", "timeout", "umount", "unshare"),
)
QUICK = (
    'plan = "insert"\npayload_bytes = [200]\nsessions = 4\ncut_after_s = [0.6, 0.6]\n'
)
MATRIX = """
cuts = 1
workload = "{workload}"
[[rows]]
name = "durable"
engine = "postgresql"
cut = "process"
"""
PAIR = ("shared-one", "shared-two")


class Shared:
    """A folder with planted modules and programs; ran: a list of those that ran."""

    def __init__(self, folder: Path, private: Path) -> None:
        self.folder, self.private = folder, private
        self.labs: list[str] = []
        self.ran = private / "ran"
        self.ran.touch()
        for name in MODULES:
            text = f"open({str(self.ran)!r}, 'a').write({name!r} + '\\n')\n"
            (folder / f"{name}.py").write_text(f"{text}raise ImportError('planted')\n")
        for name in PROGRAMS:
            script = f"#!/bin/sh\necho ./{name} >> {self.ran}\nexit 9\n"
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        self.workload = private / "quick.toml"
        self.workload.write_text(QUICK)
        self.inventory = private / "inventory.yml"
        self.environment = os.environ | {"PATH": f".::bin:{os.environ['PATH']}"}

    def dbcheck(self, *words: str, code: int = 0) -> str:
        """Run a command as the console script would: -P; return what it printed."""
        return self.run([sys.executable, "-P", "-m", "dbcheck", *words], code)

    def run(self, command: list[str], code: int = 0) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert self.ran.read_text() == "", command
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def list_hosts(self, hosts: dict[str, Any]) -> None:
        """Write the inventory."""
        variables = {"dbcheck_workload": str(self.workload)}
        listed = {"all": {"hosts": hosts, "vars": variables}}
        self.inventory.write_text(json.dumps(listed))

    def host(self, verb: str, *words: str, code: int = 0) -> str:
        """Run a command about a host of the inventory."""
        return self.dbcheck(verb, *words, "--inventory", str(self.inventory), code=code)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    if lacking := list_missing(LabSpec("postgresql", cut="process")):
        pytest.skip("; ".join(lacking))
    folder, private = tmp_path / "shared", tmp_path / "private"
    folder.mkdir()
    private.mkdir(mode=0o700)
    here = Shared(folder, private)
    try:
        yield here
    finally:
        for name in here.labs:
            here.dbcheck("lab", "down", name)


def up(here: Shared, *names: str, cut: str = "process") -> dict[str, Any]:
    """Start labs; write them as the inventory, and return their variables."""
    for name in names:
        words = ("--engine", "postgresql", "--cut", cut, "--name", name)
        here.dbcheck("lab", "up", *words)
        here.labs.append(name)
    listed = json.loads(here.dbcheck("lab", "inventory"))
    hosts: dict[str, Any] = listed["all"]["hosts"]
    here.list_hosts({name: hosts[name] for name in names})
    return hosts


def test_nothing_there_is_run(shared: Shared) -> None:
    shared.dbcheck("init", str(shared.private / "written.yml"))
    host = up(shared, "shared-one")["shared-one"]
    assert shared.run(host["dbcheck_password_command"]).strip()
    shared.host("run", "shared-one", "--runs", str(shared.private / "runs"))
    shared.host("power", "state", "shared-one")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        shared.dbcheck("witness", "check", "--witness", f"file:{folder}/acks")


@pytest.mark.wide
def test_nothing_there_is_run_by_the_other_verbs(shared: Shared) -> None:
    up(shared, "shared-drive", cut="auto")
    hosts = up(shared, *PAIR)
    # A campaign's own process needs the variable that its inventory names.
    tell = hosts[PAIR[1]].pop("dbcheck_password_command")
    shared.environment["SHARED_SECRET"] = shared.run(tell).strip()
    hosts[PAIR[1]]["dbcheck_password_env"] = "SHARED_SECRET"
    shared.list_hosts({name: hosts[name] for name in PAIR})
    folder = str(shared.private / "campaign")
    shared.host("campaign", *PAIR, "--cuts", "1", "--folder", folder)
    shared.host("clean", PAIR[0])
    shared.dbcheck("demo", "--list")  # a demo's cycles are those of `lab run`
    runs = shared.private / "runs"
    lab = ("--engine", "postgresql", "--cut", "process", "--runs", str(runs))
    shared.dbcheck("lab", "run", *lab, "--workload", str(shared.workload))
    (run,) = runs.iterdir()
    shared.dbcheck("reconcile", str(run), "--offline")
    preset = shared.private / "matrix.toml"
    preset.write_text(MATRIX.format(workload=shared.workload))
    shared.dbcheck("matrix", "--preset", str(preset), "--runs", str(runs))
