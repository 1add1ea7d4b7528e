"""Secrets from each place that may hold one: where they are seen, and where never.

The processes of dbcheck's own note each child that they start, by an audit hook.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dbcheck.cli import FAILED
from dbcheck.lab import state
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import LabSpec
from tests.kit import fence_lab

# PYTHONPATH gives it to every process of dbcheck's; what they start is noted before it
# starts, so that none is too short-lived to be seen.
HOOK = """
import json, os, sys

def note(event, arguments):
    if event == "subprocess.Popen":
        _, words, _, environment = arguments
        if environment is None:
            environment = dict(os.environ)
        told = [[str(word) for word in words], dict(environment)]
        descriptor = os.open({notes!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, json.dumps(told).encode() + b"\\n")
        os.close(descriptor)

sys.addaudithook(note)
"""
QUICK = (
    'plan = "insert"\npayload_bytes = [200]\nsessions = 4\ncut_after_s = [0.6, 0.6]\n'
)
PROXY = """
Host *
  Port {}
  ProxyCommand bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'
"""
EXEC = "echo on; [ ! -e fault ] || { printenv PDU_SECRET; exit 3; }"
NOTHING: Mapping[str, str] = {}
OTHER = "hunter2-of-another-server"
SWITCH = "hunter2-of-the-switch"


@dataclass(frozen=True)
class Child:
    """A process that dbcheck started, as it was started."""

    words: list[str]
    environment: dict[str, str]

    def is_(self, name: str) -> bool:
        """Say whether its command line has this word, or a path that ends so."""
        return any(word == name or word.endswith(f"/{name}") for word in self.words)


class Site:
    """A home with nothing in it, a lab, and whatever is said or stored meanwhile."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.home = folder / "home"
        self.notes = folder / "notes"
        self.planted: set[Path] = {self.notes}
        self.said = ""
        hook = folder / "hook"
        for one in (self.home, self.home / ".ssh", hook):
            one.mkdir(mode=0o700)
        port = urlsplit(lab.witness_url).port
        (self.home / ".ssh/config").write_text(PROXY.format(port))
        (hook / "sitecustomize.py").write_text(HOOK.format(notes=str(self.notes)))
        path = [str(hook), *filter(None, [os.environ.get("PYTHONPATH")])]
        secret = {"DBCHECK_PASSWORD", "PGPASSWORD", "MYSQL_PWD"}
        self.environment = {k: v for k, v in os.environ.items() if k not in secret} | {
            "HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(path),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def plant(self, name: str, text: str) -> Path:
        """Write a file that may hold a secret."""
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        self.planted.add(path)
        return path

    def run(
        self, *words: str, given: Mapping[str, str] = NOTHING, code: int = 0
    ) -> str:
        """Run dbcheck, with more variables; return what it says."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dbcheck", *words],
            cwd=self.folder,
            env={**self.environment, **given},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        self.said += done.stdout
        assert done.returncode == code, done.stdout
        return done.stdout

    def children(self) -> list[Child]:
        """Return those that were started since the last call."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return [Child(*json.loads(line)) for line in lines]

    def holding(self, secret: str) -> list[Path]:
        """Return the files that hold *secret* though nobody planted it there."""
        entry = state.find(self.lab.name)
        files = {path for path in self.folder.rglob("*") if path.is_file()}
        files |= {path for path in entry.path.rglob("*") if path.is_file()}
        found = [p for p in files - self.planted if secret.encode() in p.read_bytes()]
        # The lab's own server has to know its password.
        return [path for path in found if path.name != "password"]


@pytest.fixture
def site() -> Iterator[Site]:
    spec = LabSpec("postgresql", cut="process")
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    # Not below pytest's folder, which is ours alone: the server's account must pass.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="dbcheck-") as base:
        Path(base).chmod(0o755)
        with Lab.start(spec, Path(base, "lab")) as lab:
            yield Site(lab, Path(base))


def test_a_password_of_the_environment_goes_no_further(site: Site) -> None:
    """Through a run with agents here, an SSH proxy and processes of the load."""
    lab = site.lab
    secrets = {
        "DBCHECK_PASSWORD": lab.password,
        "PGPASSWORD": OTHER,
        "MYSQL_PWD": OTHER,
    }
    (site.folder / "quick.toml").write_text(QUICK)
    words = ["--target", lab.target_url, "--power", f"lab:{lab.name}"]
    words += ["--witness", lab.witness_url, "--identity", str(lab.identity_file)]
    words += ["--known-hosts", str(lab.known_hosts), "--workload", "quick.toml"]
    site.run("run", *words, "--processes", "2", "--json", given=secrets)
    site.run("witness", "check", "--witness", f"file:{site.folder}/acks", given=secrets)
    children = site.children()
    connecting = ("dbcheck.load.worker", "dbcheck.outage.worker")  # as this process
    for kind in (*connecting, "-I", "/bin/sh"):
        assert any(child.is_(kind) for child in children), kind
    for child in children:
        told = str(child)
        assert lab.password not in told
        assert OTHER not in told or any(map(child.is_, connecting))
        assert "MYSQL_PWD" not in child.environment
    for secret in (lab.password, OTHER):
        assert secret not in site.said
        assert site.holding(secret) == []


def test_each_place_that_may_hold_a_password_keeps_it(site: Site) -> None:
    """And what a switch needs is for the switch alone."""
    password, target = site.lab.password, site.lab.target_url
    file = site.plant("password-file", f"{password}\n")
    tell = ("--password-command", f"cat {file}")
    site.run("clean", "--target", target, *tell, given={"DBCHECK_PASSWORD": OTHER})
    site.run("clean", "--target", target, given={"PGPASSWORD": password})
    site.plant("home/.pgpass", f"*:*:*:*:{password}\n")
    site.run("clean", "--target", target)
    (site.home / ".pgpass").unlink()
    for source, value in (("file", str(file)), ("env", "DB_SECRET")):
        write_inventory(site, source, value)
        site.run("clean", "db1", given={"DB_SECRET": password})
    for child in site.children():
        assert password not in str(child)
        assert OTHER not in str(child)

    variables = {"DB_SECRET": password, "PDU_SECRET": SWITCH}
    for name, told in (("db1", "on\n"), ("db2", "on\n")):
        assert site.run("power", "state", name, given=variables) == told
    (site.folder / "fault").touch()  # its state program prints the secret and fails
    assert "***" in site.run("power", "state", "db2", code=FAILED, given=variables)
    agents = [child for child in site.children() if child.is_("timeout")]
    assert len(agents) == 4  # fence_lab for its metadata and its state, and sh
    for agent in agents:
        assert SWITCH not in str(agent.words)
        assert agent.environment.get("PDU_SECRET") == (
            SWITCH if agent.is_("sh") else None
        )
        assert "DB_SECRET" not in agent.environment
    for secret in (password, OTHER, SWITCH):
        assert secret not in site.said
        assert site.holding(secret) == []


def write_inventory(site: Site, source: str, value: str) -> None:
    """Write one of a host with an agent, and of another one with programs."""
    agent = str(fence_lab.install(site.folder))
    hosts: dict[str, Any] = {
        "db1": {
            "dbcheck_target": site.lab.target_url,
            "dbcheck_ask_host": False,  # no such host is there
            f"dbcheck_password_{source}": value,
            "dbcheck_power": "fence",
            "dbcheck_power_agent": agent,
            "dbcheck_power_plug": site.lab.name,
            "dbcheck_power_password_env": "PDU_SECRET",
        },
        "db2": {
            "dbcheck_target": "postgresql://dbcheck@db2.invalid/dbcheck",
            "dbcheck_power": "exec",
            "dbcheck_power_state": ["sh", "-c", EXEC],
            "dbcheck_power_cut": ["true"],
        },
    }
    text = json.dumps({"all": {"hosts": hosts}})
    (site.folder / "inventory.yml").write_text(text)
