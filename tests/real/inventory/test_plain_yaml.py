"""A plain YAML inventory means the same to dbcheck as to Ansible, or is not plain."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from ansible import constants  # type: ignore[import-untyped]
from ansible.inventory.manager import InventoryManager  # type: ignore[import-untyped]
from ansible.parsing.dataloader import DataLoader  # type: ignore[import-untyped]
from ansible.vars.manager import VariableManager  # type: ignore[import-untyped]

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import USAGE
from dbcheck.config import files
from dbcheck.inventory import listed
from dbcheck.inventory.listed import read_listing
from dbcheck.inventory.load import load_inventory
from dbcheck.inventory.newhost import INVENTED, format_inventory
from dbcheck.inventory.yaml_file import RESERVED, Listing, NotPlain, parse_yaml
from tests.kit.refusals import refused


@pytest.fixture(autouse=True)
def settings_of_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("ANSIBLE_"):
            monkeypatch.delenv(name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def without_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no ansible-core here."""
    monkeypatch.setattr(listed, "_PACKAGE", "dbcheck-no-such-package")


def write(folder: Path, text: str, name: str = "hosts.yml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def in_order(listing: Listing) -> list[object]:
    """Return all of a listing, with the types and the order of what is in it."""
    return [repr(sorted(listing.hosts.items())), [*listing.hosts], listing.groups]


PLAIN = {
    "one host": "all: {hosts: {db1: }}",
    "no group all": "db: {hosts: {db1: {a: 1}, db2: }, vars: {a: 2}}",
    "nested": """
all:
  vars: {a: all, b: all, c: all, d: all}
  children:
    outer:
      vars: {a: outer, b: outer, c: outer}
      children:
        inner: {vars: {b: inner, c: inner}, hosts: {db1: {c: own}, db2: }}
      hosts: {db3: }
  hosts: {db4: , db1: }
""",
    "a group in two": """
a: {children: {common: {hosts: {db1: , db2: }}}, vars: {x: 1}}
b: {children: {common: }, hosts: {db0: }, vars: {y: 1}}
""",
    "by its parts": """
g: {hosts: {db2: {a: 1}}}
all: {children: {g: {hosts: {db1: {b: 2}}, vars: {c: 3}}}, vars: {d: 4}}
h: {hosts: {db1: {e: 5}, db2: }}
""",
    "the same in two groups": """
a: {hosts: {db1: {x: 1}}, vars: {z: [1, {k: v}]}}
b: {hosts: {db1: {x: 1}}, vars: {z: [1, {k: v}]}}
""",
    "differs, and the host decides": """
a: {hosts: {db1: {x: own}}, vars: {x: a}}
b: {hosts: {db1: }, vars: {x: b}}
""",
    "names": "g-1.x: {hosts: {10.0.0.1: , a_b: , LOUD: , localhost: , 1e3: {a: 1}}}",
    "yaml 1.1": """
all:
  hosts:
    db1:
      a: [yes, No, on, OFF, "yes", 'no', y, n, true, ~, null, "", NULL]
      b: [010, 0x1f, 0b11, 1_000, 1:30, 0o17, -5, +7, 1e3, 1.5, -0.25, 08, 1.2.3]
      c: {z: 1, a: {y: 1, b: 2}, "1": x, "yes": 3}
      d: "{{ inventory_hostname }} {% if x %}"
      e: >-
        folded
        text
      f: |
        lines
          kept
      g: "\\u00e9 \\t \\\\ \\x41"
      h: 'it''s'
      i: "a\\
        b"
      j: # nothing
      k: 99999999999999999999999
""",
    "line ends": "all:\r\n  hosts:\r\n    db1:\r\n      a: |\r\n        x\r\n",
    "an anchor that nothing uses": "all: &x {hosts: {db1: {a: &y 1}}}",
    "one document": "---\nall: {hosts: {db1: {a: é}}}\n...\n",
    "empty groups": "all: {children: {a: , b: {hosts: }, c: {hosts: {db1: }}}}",
    "the connection": """
all:
  vars: {ansible_user: root, ansible_port: 2222, ansible_ssh_common_args: -J hop}
  hosts:
    db1: {ansible_host: 10.0.0.1, ansible_port: "22", ansible_connection: local}
""",
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_both_read_the_same(text: str, tmp_path: Path, without_ansible: None) -> None:
    path = tmp_path / "hosts.yml"
    path.write_bytes(text.encode())
    assert in_order(read_listing(path)) == in_order(listed._read_by_ansible(path))


@pytest.mark.parametrize("of", ["example", "switch"])
def test_what_init_writes_needs_no_ansible(
    tmp_path: Path, without_ansible: None, of: str
) -> None:
    text = files.read_inventory_example()
    if of == "switch":
        text = files.make_switch_inventory("shelly")
    path = write(tmp_path, text)
    assert load_inventory(path).entries
    assert in_order(read_listing(path)) == in_order(listed._read_by_ansible(path))


NOT_PLAIN = {
    "range": "all: {hosts: {'db[01:20]': }}",
    "list of names": "all: {hosts: {'a,b': }}",
    "port": "all: {hosts: {'db1:22': }}",
    "ipv6": "all: {hosts: {'::1': }}",
    "template as a name": "all: {hosts: {'{{ a }}': }}",
    "number as a name": "all: {hosts: {12: }}",
    "yes as a name": "all: {hosts: {yes: }}",
    "name of a group": "all: {children: {'a b': {hosts: {db1: }}}}",
    "host and group": "db1: {hosts: {db1: {a: 1}}}",
    "this machine twice": "all: {hosts: {localhost: , 127.0.0.1: }}",
    "vault": "all: {hosts: {db1: {a: !vault abc}}}",
    "unsafe": "all: {hosts: {db1: {a: !unsafe '{{ x }}'}}}",
    "tag": "all: {hosts: {db1: {a: !!str 1}}}",
    "no tag": "all: {hosts: {db1: {a: ! 1}}}",
    "alias": "all: {vars: &x {a: 1}, hosts: {db1: *x}}",
    "merge": "all: {hosts: {db1: {<<: {a: 1}}}}",
    "the value key": "all: {hosts: {db1: {=: 1}}}",
    "date": "all: {hosts: {db1: {a: 2026-01-01}}}",
    "infinite": "all: {hosts: {db1: {a: .inf}}}",
    "exponent": "all: {hosts: {db1: {a: 1.0e+3}}}",
    "minutes": "all: {hosts: {db1: {a: 1:30.5}}}",
    "same key": "all: {hosts: {db1: {a: 1}}, hosts: {db2: }}",
    "same variable": "all: {hosts: {db1: {a: 1, a: 2}}}",
    "same inside": "all: {hosts: {db1: {a: {b: 1, b: 1}}}}",
    "number as a key": "all: {hosts: {db1: {a: {1: x}}}}",
    "plugin": "plugin: amazon.aws.aws_ec2",
    "plugin beside a group": "all: {hosts: {db1: }}\nplugin: ",
    "two documents": "all: {hosts: {db1: }}\n---\nall: {hosts: {db2: }}",
    "directive": "%YAML 1.1\n---\nall: {hosts: {db1: }}",
    "json": '{"all": {"hosts": {"db1": {"a": 1, "a": 2}}}}',
    "list": "all: {hosts: [db1]}",
    "text": "all: {hosts: db1}",
    "false": "all: {hosts: {db1: false}}",
    "unknown section": "all: {host: {db1: }}",
    "a circle": "a: {children: {b: {children: {a: {hosts: {db1: }}}}}}",
    "in itself": "a: {children: {a: }}",
    "all inside": "a: {children: {all: {hosts: {db1: }}}}",
    "ungrouped": "ungrouped: {hosts: {db1: }}",
    "priority": "a: {vars: {ansible_group_priority: 9}, hosts: {db1: }}",
    "internal": "all: {vars: {inventory_hostname: x}, hosts: {db1: }}",
    "no name": "all: {vars: {a-b: x}, hosts: {db1: }}",
    "keyword": "all: {vars: {class: x}, hosts: {db1: }}",
    "two groups": "a: {hosts: {h: }, vars: {x: 1}}\nb: {hosts: {h: }, vars: {x: 2}}",
    "true and 1": "a: {hosts: {h: }, vars: {x: 1}}\nb: {hosts: {h: }, vars: {x: yes}}",
    "host twice": "a: {hosts: {db1: {x: 1}}}\nb: {hosts: {db1: {x: 2}}}",
    "group twice": "a: {vars: {x: 1}}\nall: {children: {a: {vars: {x: 2}}}}",
    "three groups": """
x: {hosts: {db1: }, vars: {v: 1}}
y: {vars: {v: 1}, children: {z: {hosts: {db1: }, vars: {v: 2}}}}
""",
    "a marker": "all: {hosts: {db1: {a: {__ansible_unsafe: x}}}}",
    "tab": "all:\n\thosts: {db1: }",
    "open": "all: {hosts: {db1: ",
    "byte order mark": "\ufeffall: {hosts: {db1: }}",
    "escape": "all: {hosts: {db1: {a: \x1b}}}",
    "escaped": 'all: {hosts: {db1: {a: "\\0"}}}',
    "deep": "all: {hosts: {db1: {a: " + "[" * 5000,
    "empty": "",
    "a number": "12",
}


@pytest.mark.parametrize("text", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_not_certain_is_left_to_ansible(
    text: str, tmp_path: Path, without_ansible: None
) -> None:
    with pytest.raises(NotPlain, match="."):
        parse_yaml(text)
    path = write(tmp_path, text)
    with refused(ErrorId.ANSIBLE_NOT_INSTALLED, UsageError, naming=str(path)) as e:
        load_inventory(path)
    assert "dbcheck[ansible]" in e.value.hint
    assert "constraints/ansible.txt" in e.value.hint


SIMPLE = "all: {hosts: {db1: {dbcheck_target: 'postgresql://u@h/d'}}}"


@pytest.mark.parametrize(
    "case",
    [
        *("group_vars", "host_vars", "ini", "folder", "program", "not utf-8"),
        *("environment", "settings", "vars plugin", "inventory plugin"),
    ],
)
def test_what_lies_beside_a_plain_file_is_seen(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_ansible: None
) -> None:
    path, home = write(tmp_path, SIMPLE), tmp_path / "home"
    assert load_inventory(path).entry("db1")
    if case in ("group_vars", "host_vars"):
        (tmp_path / case).mkdir()
    elif case == "ini":
        path = write(tmp_path, "[all]\ndb1\n", "hosts.ini")
    elif case == "folder":
        path = write(tmp_path, SIMPLE, "inventory/hosts.yml").parent
    elif case == "program":
        path.chmod(0o755)
    elif case == "not utf-8":
        path.write_bytes(SIMPLE.encode() + b" # \xfc\n")
    elif case == "environment":
        monkeypatch.setenv("ANSIBLE_HASH_BEHAVIOUR", "merge")
    elif case == "settings":
        write(home, "[defaults]\nhash_behaviour = merge\n", ".ansible.cfg")
    else:
        write(home, "", f".ansible/plugins/{case.split()[0]}/mine.py")
    with refused(ErrorId.ANSIBLE_NOT_INSTALLED, UsageError):
        load_inventory(path)


def test_settings_in_the_folder_where_ansible_starts_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_ansible: None
) -> None:
    path, exists = write(tmp_path, SIMPLE), Path.exists
    monkeypatch.setattr(
        Path, "exists", lambda self: str(self) == "/ansible.cfg" or exists(self)
    )
    with refused(ErrorId.ANSIBLE_NOT_INSTALLED, UsageError, naming="/ansible.cfg"):
        load_inventory(path)


@pytest.mark.parametrize("name", ["group_vars", "host_vars"])
@pytest.mark.parametrize("beside", ["link", "file", "both"])
def test_a_link_whose_variables_are_not_those_of_its_file_is_refused(
    name: str, beside: str, tmp_path: Path
) -> None:
    """Ansible takes those beside the link, which may name another host to cut."""
    file = write(tmp_path / "file", SIMPLE)
    link = tmp_path / "link" / "hosts.yml"
    link.parent.mkdir()
    link.symlink_to(file)
    assert load_inventory(link).entry("db1")
    for folder in (link.parent, file.parent):
        if beside in (folder.name, "both"):
            write(folder, "ansible_host: other", f"{name}/db1.yml")
    with refused(ErrorId.INVENTORY_IS_LINK, UsageError, naming=name):
        load_inventory(link)
    if beside == "file":
        (link.parent / name).symlink_to(file.parent / name)
        assert load_inventory(link).entry("db1").host == (
            "ssh://other" if name == "host_vars" else "ssh://db1"
        )


@pytest.mark.parametrize("name", ["on", "12", "1.5", "db1"])
def test_both_read_what_init_writes_for_a_host(
    name: str, tmp_path: Path, without_ansible: None
) -> None:
    odd = "'\"#: %41 \\ é \U0001f600 \n\t| > - {x} [y], !z &a *b"
    host = replace(INVENTED, name=name, target=f"postgresql://u@h/{odd}")
    path = write(tmp_path, format_inventory(host))
    assert read_listing(path).hosts[name]["dbcheck_target"] == host.target
    assert in_order(read_listing(path)) == in_order(listed._read_by_ansible(path))


def test_an_older_ansible_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, NOT_PLAIN["range"])
    assert read_listing(path).hosts
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.14.18")
    with refused(ErrorId.ANSIBLE_NOT_INSTALLED, UsageError, naming="2.14.18"):
        read_listing(path)


def test_a_plain_file_starts_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "run", run)
    assert load_inventory(write(tmp_path, SIMPLE)).entry("db1")


def test_each_variable_that_ansible_sets_itself_is_reserved() -> None:
    for name in constants.INTERNAL_STATIC_VARS:
        assert RESERVED.fullmatch(name), name


def by_library(path: Path) -> dict[str, dict[str, Any]]:
    """Return the hosts' variables by Ansible's classes, which is faster."""
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(path)])
    variables = VariableManager(loader=loader, inventory=inventory)
    return {
        host.name: {
            name: value
            for name, value in variables.get_vars(
                host=host, include_hostvars=False, stage="all"
            ).items()
            if name not in constants.INTERNAL_STATIC_VARS
        }
        for host in inventory.get_hosts()
    }


def drawn(draws: random.Random) -> str:
    """Return an inventory of a few groups, each in groups before it, and hosts."""
    names = [f"{draws.choice('abcxyz')}{number}" for number in range(6)]
    groups: dict[str, dict[str, Any]] = {}
    few = draws.random() < 0.6  # so that not all are contradictory
    for number, name in enumerate(names):
        group: dict[str, Any] = groups.setdefault(name, {})
        draw_variables(draws, group, "vars", 1 if few else 3)
        for child in names[number + 1 :]:
            if draws.random() < 0.35:
                group.setdefault("children", {})[child] = None
        for host in ("h1", "h2", "h3"):
            if draws.random() < 0.25:
                hosts = group.setdefault("hosts", {})
                draw_variables(draws, hosts, host, 1)
    draws.shuffle(names)
    text = {name: groups[name] for name in names}
    if draws.random() < 0.5:
        text["all"] = {"vars": {"v1": "all", "v2": "all"}, "hosts": {"h4": None}}
    return str(yaml.safe_dump(text, sort_keys=False))


def draw_variables(
    draws: random.Random, to: dict[str, Any], key: str, most: int
) -> None:
    values: Sequence[object] = (1, 2, "1", True, [1], {"k": 1})
    found: Mapping[str, object] = {
        f"v{draws.randint(1, 4)}": draws.choice(values)
        for _ in range(draws.randint(0, most))
    }
    to[key] = dict(found)


def test_drawn_groups_are_merged_as_ansible_merges_them(tmp_path: Path) -> None:
    draws, plain = random.Random(45), 0
    for _ in range(int(os.environ.get("DBCHECK_DRAWS", "150"))):
        text = drawn(draws)
        try:
            ours = parse_yaml(text).hosts
        except NotPlain:
            continue
        plain += 1
        theirs = by_library(write(tmp_path, text))
        assert {k: repr(sorted(v.items())) for k, v in ours.items()} == {
            k: repr(sorted(v.items())) for k, v in theirs.items()
        }, text
    assert plain > 30


def test_without_the_package_a_command_says_what_to_install(tmp_path: Path) -> None:
    """In a process that has no ansible-core, as after pip install dbcheck."""
    path = write(tmp_path, NOT_PLAIN["range"])
    code = (
        "import importlib.metadata as m, sys\n"
        "def version(name): raise m.PackageNotFoundError(name)\n"
        "m.version = version\n"
        "from dbcheck.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "audit", "db01", "--inventory", str(path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == USAGE
    assert "line 1 of" in done.stderr and "dbcheck[ansible]" in done.stderr
