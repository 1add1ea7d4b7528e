"""How a host is reached, compared with the ssh that Ansible itself would run."""

from __future__ import annotations

import getpass
import json
import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.errors import UsageError
from dbcheck.inventory.load import load_inventory, make_inventory
from dbcheck.remote.address import Proxy, SshOptions, parse_ssh_url

TARGET = {"dbcheck_target": "postgresql://u@{{ inventory_hostname }}/d"}
RECORDS = """\
#!{python}
import json, sys
*arguments, command = sys.argv[1:]
with open("{folder}/" + command.split()[1], "w") as file:
    json.dump(arguments, file)
"""
ASKS_FOR_PARAMIKO = """
import json, sys
from ansible import constants
from ansible.plugins.loader import connection_loader
connection_loader.get("paramiko_ssh", class_only=True)
given = json.load(sys.stdin)
names = ("remote_addr", "port", "remote_user", "private_key_file", "proxy_command")
found = [
    constants.config.get_config_value(
        name, plugin_type="connection", plugin_name="paramiko_ssh", variables=given
    )
    for name in names
]
print(json.dumps(found))
"""
Variables = Mapping[str, Any]
Way = tuple[str, ...]
pytestmark = pytest.mark.skipif(not shutil.which("ssh"), reason="needs the ssh client")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for what Ansible runs; neither Ansible nor ssh has a configuration."""
    for name in os.environ:
        if name.startswith("ANSIBLE_"):
            monkeypatch.delenv(name)
    (tmp_path / "asked").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir("/")
    yield tmp_path


def by_ansible(folder: Path, hosts: Mapping[str, Variables]) -> dict[str, Way]:
    """Return how ssh, as Ansible runs it, would reach each host that it would."""
    file = folder / "hosts.json"
    file.write_text(json.dumps({"all": {"hosts": hosts}}))
    return by_file(folder, file)


def by_file(folder: Path, file: Path) -> dict[str, Way]:
    """Return the same of an inventory file."""
    program = folder / "ssh"
    program.write_text(RECORDS.format(python=sys.executable, folder=folder / "asked"))
    program.chmod(stat.S_IRWXU)
    subprocess.run(
        [
            *(sys.executable, "-m", "ansible.cli.adhoc", "all", "-i", str(file)),
            *("-m", "raw", "-a", "of {{ inventory_hostname }}"),
        ],
        env={
            **os.environ,
            "ANSIBLE_SSH_EXECUTABLE": str(program),
            "LC_ALL": "C.UTF-8",
        },
        capture_output=True,
    )
    return {
        path.name: way
        for path in (folder / "asked").iterdir()
        if (way := by_ssh(json.loads(path.read_text())))
    }


def by_ssh(arguments: list[str]) -> Way | None:
    """Return host, user, port, key, jump and command, None if ssh refuses these."""
    done = subprocess.run(
        ["ssh", "-G", "-F", "none", *arguments],
        capture_output=True,
        text=True,
    )
    if done.returncode or not arguments[-1]:
        return None
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    found = {key: value for key, _, value in reversed(list(lines))}
    key = found["identityfile"]
    return (
        found["hostname"],
        found["user"],
        found["port"],
        "" if key.startswith("~/.ssh/id_") else key,
        found.get("proxyjump", ""),
        found.get("proxycommand", ""),
    )


def by_dbcheck(folder: Path, hosts: Mapping[str, Variables]) -> dict[str, Way | str]:
    """Return how dbcheck would reach each host, or why it refuses."""
    found = make_inventory(
        folder / "hosts.json", {n: {**v, **TARGET} for n, v in hosts.items()}
    )
    ways: dict[str, Way | str] = {}
    for name in hosts:
        try:
            entry = found.entry(name)
            ways[name] = way(entry.host, entry.host_options)
        except UsageError as error:
            ways[name] = str(error)
    return ways


def way(url: str, options: SshOptions) -> Way:
    address, _ = parse_ssh_url(url, "a host", "")
    proxy = options.proxy or Proxy()
    return (
        address.host,
        address.user or getpass.getuser(),
        str(address.port or 22),
        str(options.identity_file or ""),
        *("" if one == "none" else one for one in (proxy.jump, proxy.command)),
    )


HOSTS: dict[str, Variables] = {
    "plain": {},
    "newer": {
        **{"ansible_host": "new", "ansible_port": 1, "ansible_user": "new"},
        "ansible_private_key_file": "/new",
    },
    "older": {
        **{"ansible_ssh_host": "old", "ansible_ssh_port": 2, "ansible_ssh_user": "old"},
        "ansible_ssh_private_key_file": "/old",
    },
    "smart": {"ansible_connection": "smart", "ansible_host": "h"},
    "whole": {"ansible_connection": "ansible.builtin.ssh", "ansible_host": "h"},
    "legacy": {"ansible_connection": "ansible.legacy.ssh", "ansible_host": "h"},
    "numbers": {"ansible_user": 1000, "ansible_port": "2222"},
    "nothing": {"ansible_host": None, "ansible_user": "", "ansible_port": None},
    "no-key": {"ansible_private_key_file": "/new", "ansible_ssh_private_key_file": ""},
    "percent": {"ansible_user": "a%41b"},
    "domain": {"ansible_user": "joe@corp.example"},
    "windows": {"ansible_user": "CORP\\joe"},
    "slash": {"ansible_user": "a/b#c?d"},
    "with-user": {"ansible_host": "root@h"},
    "two-users": {"ansible_host": "root@h", "ansible_user": "new"},
    "ipv6": {"ansible_host": "fe80::1%lo"},
    "jump": {"ansible_ssh_common_args": "-J hop.example"},
    "jumps": {"ansible_ssh_common_args": "-o ProxyJump=a@one:22,two"},
    "joined": {"ansible_ssh_common_args": "-4CJhop.example"},
    "command": {
        "ansible_ssh_common_args": '-o ProxyCommand="ssh -W %h:%p -q hop.example"'
    },
    "blank": {"ansible_ssh_extra_args": "-o 'proxycommand ssh -W %h:%p hop'"},
    "equals": {"ansible_ssh_args": "-o 'ProxyCommand = ssh -W %h:%p hop'"},
    "quoted": {"ansible_ssh_args": """-o 'ProxyCommand="hop" %h'"""},
    "first": {
        "ansible_ssh_args": "-o ProxyCommand=one",
        "ansible_ssh_common_args": "-o ProxyCommand=two -o ProxyJump=three",
    },
    "directly": {
        "ansible_ssh_args": "-o ProxyCommand=none",
        "ansible_ssh_common_args": "-o ProxyJump=hop",
    },
    "no-jump": {"ansible_ssh_args": "-J none -o ProxyJump=hop"},
    "no-jump-but": {"ansible_ssh_args": "-J none -o ProxyCommand=hop -o ProxyJump=hop"},
    "usual": {
        "ansible_ssh_args": "-C -o ControlMaster=auto -o ControlPersist=60s",
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no"
        " -o UserKnownHostsFile=/dev/null -o ConnectTimeout=10 -q",
        "ansible_ssh_extra_args": "-o ForwardAgent=yes -tt",
    },
}


def test_the_way_is_that_of_ansible(folder: Path) -> None:
    assert by_dbcheck(folder, HOSTS) == by_ansible(folder, HOSTS)


ELSEWHERE: dict[str, tuple[Variables, str]] = {
    "port": ({"ansible_ssh_args": "-p 2222"}, "ansible_ssh_args sets Port"),
    "user": ({"ansible_ssh_args": "-l eve"}, "ansible_ssh_args sets User"),
    "key": (
        {"ansible_ssh_args": "-qi /etc/hostname"},
        "ansible_ssh_args sets IdentityFile",
    ),
    "host": ({"ansible_ssh_extra_args": "-o HostName=h"}, "_extra_args sets HostName"),
    "blank": ({"ansible_ssh_extra_args": "-o 'user  x'"}, "_extra_args sets user"),
    "hop": ({"ansible_ssh_common_args": "hop.example ssh"}, "a word that is no option"),
}


def test_what_leads_elsewhere_in_another_way_is_refused(folder: Path) -> None:
    hosts = {name: variables for name, (variables, _) in ELSEWHERE.items()}
    ours, theirs = by_dbcheck(folder, hosts), by_ansible(folder, hosts)
    for name, (_, said) in ELSEWHERE.items():
        assert said in ours[name]
        assert theirs[name] != (name, getpass.getuser(), "22", "", "", "")


UNUSABLE: dict[str, Variables] = {
    "no-host": {"ansible_host": "new", "ansible_ssh_host": ""},
    "no-port": {"ansible_port": 1, "ansible_ssh_port": ""},
    "port": {"ansible_port": "many"},
    "no-plugin": {"ansible_connection": ""},
    "capitals": {"ansible_connection": "SSH"},
    "plugin": {"ansible_connection": "docker"},
    "quote": {"ansible_ssh_common_args": "-o 'ProxyJump=hop"},
    "list": {"ansible_ssh_common_args": ["-J", "hop"]},
    "no-file": {"ansible_ssh_common_args": "-F /no/such/file"},
    "no-value": {"ansible_ssh_common_args": "-o User=x -J"},
    "long": {"ansible_ssh_common_args": "--jump hop"},
    "pem": {"ansible_private_key": "-----BEGIN"},
}


def test_what_ansible_cannot_use_is_refused(folder: Path) -> None:
    assert not by_ansible(folder, UNUSABLE)
    ours = by_dbcheck(folder, UNUSABLE)
    assert {name for name, way in ours.items() if isinstance(way, str)} == {*UNUSABLE}


FILES = {
    "names.ini": """\
[pg]
db1 ansible_ssh_host=127.0.0.1 ansible_ssh_port=2299 ansible_private_key_file=/k
db2:2222 ansible_host=127.0.0.2 ansible_ssh_user=eve
db[03:04].example
[pg:vars]
ansible_user='root'
""",
    "quotes.ini": """\
[pg]
db1 ansible_ssh_common_args="-o ProxyJump=joe@hop.example"
db2 ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p -q hop" -o ForwardAgent=yes'
db3
[pg:vars]
ansible_ssh_common_args='-o ProxyCommand="ssh -q -W %h:%p joe@hop -i ~/.ssh/k"'
""",
    "plain.ini": """\
[pg]
db1
[pg:vars]
ansible_ssh_common_args=-o ProxyJump=joe@hop -o StrictHostKeyChecking=no
""",
    "folded.yml": """\
all:
  vars:
    bastion: hop.example
    ansible_ssh_common_args: >-
      -o ProxyCommand="ssh -o UserKnownHostsFile=/dev/null
      -o StrictHostKeyChecking=no -W %h:%p -q {{ ansible_user }}@{{ bastion }}"
  hosts:
    db1: {ansible_user: joe}
    db2: {ansible_user: ann, ansible_ssh_common_args: ''}
    db3: {ansible_user: ann, ansible_ssh_common_args: "-F none"}
""",
    "socks.yml": """\
all:
  hosts:
    db1:
      ansible_ssh_common_args: -o ProxyCommand='nc -X 5 -x proxy:1080 %h %p'
    db2:
      ansible_ssh_args: -C -o ControlMaster=auto -J one,two
      ansible_ssh_extra_args: |
        -o ServerAliveInterval=30
    db3: {ansible_host: db3.example, ansible_ssh_host: "{{ inventory_hostname }}-old"}
""",
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_alike(folder: Path, name: str) -> None:
    file = folder / name
    file.write_text(FILES[name])
    (folder / "group_vars").mkdir()
    (folder / "group_vars/all").write_text(json.dumps(TARGET))
    ours = {
        name: way(entry.host, entry.host_options)
        for name, entry in load_inventory(file).entries.items()
    }
    assert ours == by_file(folder, file) != {}


NAMES = {
    "host": ("a", "b", "10.0.0.1", "u@c", "::1"),
    "port": (1, "22", 2222),
    "user": ("root", "joe", "", "a b"),
    "private_key_file": ("/a", "/b c", ""),
}


def test_any_mixture_of_names_leads_where_ansible_goes(folder: Path) -> None:
    draws = random.Random(7)
    hosts = {
        f"db{number}": {
            f"ansible_{prefix}{name}": draws.choice(values)
            for name, values in NAMES.items()
            for prefix in ("", "ssh_")
            if draws.random() < 0.4
        }
        for number in range(60)
    }
    ours, theirs = by_dbcheck(folder, hosts), by_ansible(folder, hosts)
    assert {name: ours[name] for name in theirs} == theirs


@pytest.mark.parametrize("kind", ["paramiko", "ansible.builtin.paramiko_ssh"])
def test_ansibles_paramiko_has_names_of_its_own(folder: Path, kind: str) -> None:
    given = {
        **{"inventory_hostname": "db1", "ansible_connection": kind},
        **{"ansible_host": "new", "ansible_ssh_host": "old"},
        **{"ansible_paramiko_host": "own", "ansible_paramiko_port": 3},
        **{"ansible_ssh_user": "old", "ansible_user": "new", "ansible_port": 1},
        **{"ansible_paramiko_private_key_file": "/own", "ansible_ssh_args": "-J hop"},
        "ansible_paramiko_proxy_command": "own",
    }
    done = subprocess.run(
        [sys.executable, "-c", ASKS_FOR_PARAMIKO],
        input=json.dumps(given),
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    host, port, user, key, command = json.loads(done.stdout)
    ours = by_dbcheck(folder, {"db1": given})["db1"]
    assert ours == (host, user, str(port), key, "", command)
    assert ours == ("own", "old", "3", "/own", "", "own")
    given["ansible_connection"] = "ssh"
    ours = by_dbcheck(folder, {"db1": given})["db1"]
    assert ours == ("old", "old", "1", "", "hop", "")
