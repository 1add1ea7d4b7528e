"""Ansible itself is the oracle: both must find the same variables for each host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cli import USAGE
from dbcheck.errors import UsageError
from dbcheck.inventory import folders
from dbcheck.inventory.document import plain, read
from dbcheck.inventory.groups import Tree, merged
from dbcheck.inventory.load import load

HOSTS = """\
all:
  vars: {a: all, b: all, c: all, d: all, octal: 010, truth: yes}
  hosts:
    lonely:
    db[01:03]: {own: 1}
  children:
    west:
      vars: {a: west, b: west, e: west}
      children:
        cellar:
          hosts: db01
          vars: {a: cellar, f: cellar}
    east:
      vars: {a: east, b: east, f: east, e: east, ansible_group_priority: 5}
      hosts:
        db[02:03]: {own: 2, c: host}
    north:
      vars: {a: north, b: north, g: north}
      hosts: {db02: , db03: {own: 3}}
attic:
  hosts:
    db[a:c]:
    db01:
  vars: {a: attic, f: attic}
  children: {cellar: }
ungrouped:
  vars: {h: ungrouped}
  hosts: {apart: , db02: }
"""
FILES = {
    "group_vars/all.yml": "d: folder\nb: folder\n",
    "group_vars/west.yml": "e: folder-west\n",
    "group_vars/north/2.yml": "g: two\n",
    "group_vars/north/1.yaml": "g: one\nk: 1\n",
    "group_vars/north/.hidden.yml": "g: hidden\n",
    "group_vars/north/sub/3": "m: 3\n",
    "group_vars/nobody.yml": "z: 1\n",
    "host_vars/db02": "own: folder\n",
    "host_vars/db03.json": '{"n": [1, 2]}',
}


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The inventory above, with ansible-inventory on the path."""
    here = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", here, prepend=":")
    monkeypatch.setenv("ANSIBLE_LOCAL_TEMP", str(tmp_path / "ansible"))
    if shutil.which("ansible-inventory") is None:
        pytest.skip("needs ansible-core")
    path = tmp_path / "hosts.yml"
    path.write_text(HOSTS)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return path


def as_ansible(path: Path) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        ("ansible-inventory", "-i", str(path), "--list"),
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)["_meta"]["hostvars"]
    return found


def test_variables_are_those_that_ansible_finds(inventory: Path) -> None:
    tree = Tree(read(inventory))
    ours = merged(
        tree,
        folders.variables(inventory.parent / "group_vars", tree.groups),
        folders.variables(inventory.parent / "host_vars", tree.hosts),
    )
    found = {
        host: {name: plain(value.value) for name, value in variables.items()}
        for host, variables in ours.items()
    }
    assert found == as_ansible(inventory)


def test_what_is_not_yaml_is_read_by_ansible(inventory: Path) -> None:
    path = inventory.with_name("hosts.ini")
    path.write_text(
        "[db]\ndb[1:2] ansible_user=root\n[db:vars]\n"
        "dbcheck_target=postgresql://u@{{ inventory_hostname }}/d\ndbcheck_sessions=8\n"
    )
    found = load(path)
    assert set(found.entries) == {"db1", "db2"}
    assert found.entry("db2").target == "postgresql://u@db2/d"
    assert (found.entry("db2").host, found.entry("db2").sessions) == (
        "ssh://root@db2",
        8,
    )


def test_without_ansible_that_is_said(
    inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = inventory.with_name("hosts.ini")
    path.write_text("db1\n")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UsageError, match="ansible-inventory, which is not here"):
        load(path)


def test_init_writes_what_loads_and_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    assert dbcheck("init", str(path)).returncode == 0
    assert load(path).entries
    path.write_text("mine")
    again = dbcheck("init", str(path))
    assert again.returncode == USAGE
    assert path.read_text() == "mine"
    assert dbcheck("init", str(path / "no")).returncode == USAGE


def dbcheck(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "dbcheck", *words),
        capture_output=True,
        text=True,
        timeout=60,
    )


SETTINGS = """\
[defaults]
inventory_plugins = ./plugins
[inventory]
enable_plugins = evil,ini
"""
EVIL = """\
open({marker!r}, "w").close()
from ansible.plugins.inventory import BaseInventoryPlugin
class InventoryModule(BaseInventoryPlugin):
    NAME = "evil"
"""


@pytest.fixture
def elsewhere(inventory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory for Ansible; the working directory is another user's."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a folder of another user")
    path = inventory.with_name("hosts.ini")
    path.write_text("db1 dbcheck_target=postgresql://u@db1/d\n")
    here = inventory.parent / "here"
    (here / "plugins").mkdir(parents=True)
    (here / "ansible.cfg").write_text(SETTINGS)
    evil = EVIL.format(marker=str(inventory.parent / "ran"))
    (here / "plugins/evil.py").write_text(evil)
    os.chown(here, 54321, -1)
    monkeypatch.chdir(here)
    return path


def test_ansible_runs_no_plugin_of_another_users_folder(elsewhere: Path) -> None:
    with pytest.raises(UsageError, match=r"would read ansible\.cfg in"):
        load(elsewhere)
    assert not elsewhere.with_name("ran").exists()
    Path("ansible.cfg").unlink()
    assert load(elsewhere).entry("db1").sessions is None


def test_ansible_reads_no_variables_of_another_users_folder(elsewhere: Path) -> None:
    Path("ansible.cfg").unlink()
    Path("group_vars").mkdir()
    Path("group_vars/all.yml").write_text("dbcheck_password_command: [touch, ran]\n")
    with pytest.raises(UsageError, match="would read group_vars in"):
        load(elsewhere)
    os.chown(".", 0, -1)
    assert load(elsewhere).entry("db1").password is not None


def test_an_inventory_that_is_a_program_is_run_if_nobody_else_may_write_it(
    inventory: Path,
) -> None:
    """As Ansible does, and README says."""
    path = inventory.with_name("program")
    told = {"_meta": {"hostvars": {"db1": {"dbcheck_target": "postgresql://u@db1/d"}}}}
    told["all"] = {"hosts": ["db1"]}  # type: ignore[dict-item]
    path.write_text(f"#!/bin/sh\ntouch {path}.ran\necho '{json.dumps(told)}'\n")
    path.chmod(0o757)
    with pytest.raises(UsageError, match="anybody may write"):
        load(path)
    assert not path.with_name("program.ran").exists()
    path.chmod(0o755)
    assert load(path).entry("db1").target == "postgresql://u@db1/d"
