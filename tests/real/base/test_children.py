"""What child processes get: no secret that they do not need, no program from here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dbcheck.base import processes
from tests.kit.inventories import loaded

INVENTORY = """\
all:
  hosts:
    db1:
      dbcheck_target: postgresql://dbcheck@db1/dbcheck
      dbcheck_password_env: DB_SECRET
      dbcheck_power: fence
      dbcheck_power_agent: fence_apc_snmp
      dbcheck_power_options: {ip: pdu1, community_env: PDU_COMMUNITY}
      dbcheck_power_password_env: PDU_SECRET
"""
DATABASE = {"DBCHECK_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "DB_SECRET"}
SWITCH = {"PDU_COMMUNITY", "PDU_SECRET"}


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set every variable, and read the inventory that names some of them."""
    for name in (*DATABASE, *SWITCH, "VAULT_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    assert loaded(tmp_path, INVENTORY).entry("db1")


@pytest.mark.usefixtures("named")
def test_a_child_gets_no_variable_that_holds_a_secret() -> None:
    got = processes.make_environment()
    assert not got.keys() & (DATABASE | SWITCH)
    assert got["VAULT_TOKEN"] == "hunter2"
    assert {"PGPASSWORD"} == DATABASE & processes.make_environment(
        ["PGPASSWORD"]
    ).keys()


@pytest.mark.usefixtures("named")
def test_a_program_that_switches_keeps_the_secrets_of_switches() -> None:
    got = processes.make_environment(processes.list_switch_variables())
    assert (DATABASE | SWITCH) & got.keys() == SWITCH


@pytest.mark.parametrize(
    ("path", "left"),
    [
        (":/usr/bin::.:bin:/bin:", "/usr/bin:/bin"),
        (".", "/bin:/usr/bin"),
        (None, "/bin:/usr/bin"),
    ],
)
def test_no_program_is_taken_from_the_working_directory(
    path: str | None, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "true").write_text("#!/bin/sh\ntouch planted\n")
    (tmp_path / "true").chmod(0o755)
    monkeypatch.setenv("PATH", path) if path else monkeypatch.delenv("PATH")
    assert processes.make_environment()["PATH"] == left
    subprocess.run(
        ["sh", "-c", "env true"], env=processes.make_environment(), check=True
    )
    assert not (tmp_path / "planted").exists()


def test_nothing_is_imported_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "dbcheck.py").write_text("raise SystemExit('planted')")
    (tmp_path / "json.py").write_text("raise SystemExit('planted')")
    for command in (
        processes.make_module_command("dbcheck", "--version"),
        processes.make_standalone_command("import json"),
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
