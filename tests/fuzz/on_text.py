"""Files that people write: inventories, workloads, matrices; and agents' metadata."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from unittest import mock

from dbcheck import files, workload
from dbcheck.cli.matrix_rows import read_matrix
from dbcheck.core.workload import SESSIONS_MAX
from dbcheck.errors import UsageError
from dbcheck.inventory import listed, load
from dbcheck.power.kinds import fence_metadata
from tests.fuzz.script import Script, edit_value
from tests.fuzz.target import Target
from tests.kit.devices import XML
from tests.kit.memory import scratch


def inventory(data: bytes) -> None:
    """It is read or refused, with group_vars/ beside it."""
    refused = UsageError("it is Ansible's")
    with scratch() as folder, contextlib.suppress(UsageError):
        path = folder / "hosts.yml"
        content, _, beside = data.partition(b"\n----\n")
        path.write_bytes(content)
        (folder / "group_vars").mkdir()
        (folder / "group_vars" / "all.yml").write_bytes(beside)
        with mock.patch.object(listed, "variables", side_effect=refused):
            load.load(path)


BASE = {
    "all": {
        "vars": {"dbcheck_witness": "ssh://w/{{ inventory_hostname }}"},
        "children": {
            "a": {"hosts": {"db[1:3]": None}, "vars": {"ansible_group_priority": 2}},
            "b": {
                "hosts": {"db1": {"dbcheck_sessions": 4, "dbcheck_price": 1.5}},
                "vars": {
                    "dbcheck_target": "postgresql://u@{{ ansible_host }}/d",
                    "ansible_host": "{{ inventory_hostname }}.example",
                    "dbcheck_power": "exec",
                    "dbcheck_power_cut": ["cut", "{{ inventory_hostname }}"],
                    "dbcheck_power_options": {"plug": 3, "password_env": "P"},
                    "dbcheck_password_command": ["pass", "x"],
                },
            },
        },
    }
}


def inventory_values(data: bytes) -> None:
    """An inventory of JSON, with things in it that do not belong there."""
    script = Script(data)
    value: object = BASE
    while not script.is_over:
        value = edit_value(script, value)
    with contextlib.suppress(ValueError):  # a number of too many digits
        inventory(json.dumps(value).encode())


def inventories() -> Iterator[bytes]:
    yield files.inventory_example().encode()
    yield json.dumps(BASE).encode()
    yield b"a: &a\n  hosts:\n    db[01:02]: {x: *a}\n  children: {b: }\nb: *a\n"
    yield b"all: {hosts: {db1: {x: !vault y, d: 2020-01-01}}}\n----\nx: 1\n"
    yield b"%YAML 1.2\n---\n? [1, 2]\n: 0x1f\n<<: {a: 1:30:00}\n"


def workload_file(data: bytes) -> None:
    with scratch() as folder, contextlib.suppress(UsageError):
        path = folder / "w.toml"
        path.write_bytes(data)
        found = workload.load(str(path))
        assert 1 <= found.processes <= found.sessions <= SESSIONS_MAX
        assert 0 < found.cut_after_s[0] <= found.cut_after_s[1]


def workloads() -> Iterator[bytes]:
    for name in files.workload_names():
        yield files.described("workload", name)[1].encode()
    yield b'plan = "insert"\npayload_bytes = [1]\nrate = 0xff\nramp_s = inf\n'


def matrix_file(data: bytes) -> None:
    with scratch() as folder:
        path = folder / "m.toml"
        path.write_bytes(data)
        for target in (False, True):
            with contextlib.suppress(UsageError):
                read_matrix(str(path), [], target=target, seed=1)


def matrices() -> Iterator[bytes]:
    for name in files.matrix_names():
        yield files.described("matrix", name)[1].encode()
    yield b'[defaults]\nengine = "mysql"\nrung = "drive"\n[[rows]]\ncache_mib = 4\n'


def metadata(data: bytes) -> None:
    with contextlib.suppress(UsageError):
        found = fence_metadata.parse("fence_x", data.decode("utf-8", "replace"))
        found.require_power("fence_x")
        found.require_options("fence_x", ["ip", "plug", "password"])


def all_metadata() -> Iterator[bytes]:
    actions = "".join(
        f'<action name="{n}"/>' for n in ("on", "off", "reboot", "status")
    )
    yield XML.format(actions).encode()
    yield b'<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><a>&d;</a>'
    yield b'<?xml version="1.0" encoding="utf-7"?><a xmlns:x="y" x:z="1"/>'


def choices() -> Iterator[bytes]:
    for step in range(24):
        yield bytes((step * 11 + place * (step + 5)) % 256 for place in range(16))


TARGETS = (
    Target("inventory", inventory, inventories),
    Target("inventory-values", inventory_values, choices),
    Target("workload", workload_file, workloads),
    Target("matrix", matrix_file, matrices),
    Target("fence-metadata", metadata, all_metadata),
)
