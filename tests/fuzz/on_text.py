"""Files that people write: inventories, workloads, matrices; and agents' metadata."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from dbcheck.base import limits
from dbcheck.base.errors import UsageError
from dbcheck.config import files
from dbcheck.config.workload_file import load as load_workload
from dbcheck.inventory import listed, load
from dbcheck.power.kinds import fence
from dbcheck.runner.matrix_rows import read_matrix
from tests.fuzz.script import Script, edit_value
from tests.fuzz.target import Target
from tests.kit.devices import XML
from tests.kit.memory import scratch

BASE = {
    "_meta": {
        "hostvars": {
            "db1": {
                "dbcheck_witness": "ssh://w/{{ inventory_hostname }}",
                "dbcheck_sessions": 4,
                "dbcheck_price": 1.5,
                "dbcheck_target": "postgresql://u@{{ ansible_host }}/d",
                "ansible_host": "{{ inventory_hostname }}.example",
                "dbcheck_power": "exec",
                "dbcheck_power_cut": ["cut", "{{ inventory_hostname }}"],
                "dbcheck_power_options": {"plug": 3, "password_env": "P"},
                "dbcheck_password_command": ["pass", "x"],
            },
            "db2": {
                "dbcheck_target": "mysql://u@{{ inventory_hostname_short }}/d",
                "dbcheck_witness": {"__ansible_vault": "x"},
                "dbcheck_power": "fence",
                "dbcheck_power_agent": "fence_x",
                "dbcheck_power_off_s": "20",
                "dbcheck_ask_host": False,
            },
        }
    },
    "all": {"children": ["ungrouped", "a"]},
    "a": {"hosts": ["db1", "db2", "db3"]},
}


def inventory(data: bytes) -> None:
    """What ansible-inventory prints, with things in it that do not belong there."""
    script = Script(data)
    value: object = BASE
    while not script.is_over:
        value = edit_value(script, value)
    path = Path("hosts.yml")
    with contextlib.suppress(UsageError):
        try:
            output = json.dumps(value).encode()
        except ValueError:  # a number of too many digits
            return
        listing = listed.parse_listing(path, output)
        found = load.make_inventory(path, listing.hosts, listing.groups)
        for name in listing.groups:
            with contextlib.suppress(UsageError):
                assert {*found.members([name])} <= {name, *found.targets()}
        for name in (*found.faults, *found.others):
            with contextlib.suppress(UsageError):
                found.entry(name)


def workload_file(data: bytes) -> None:
    with scratch() as folder, contextlib.suppress(UsageError):
        path = folder / "w.toml"
        path.write_bytes(data)
        found = load_workload(str(path))
        assert 1 <= (found.processes or 1) <= found.sessions <= limits.SESSIONS_MAX
        assert 0 < found.cut_after_s[0] <= found.cut_after_s[1]


def workloads() -> Iterator[bytes]:
    for name in files.list_workload_names():
        yield files.read_described_file("workload", name)[1].encode()
    yield b'plan = "insert"\npayload_bytes = [1]\nrate = 0xff\nramp_s = inf\n'


def matrix_file(data: bytes) -> None:
    with scratch() as folder:
        path = folder / "m.toml"
        path.write_bytes(data)
        for target in (False, True):
            with contextlib.suppress(UsageError):
                read_matrix(str(path), [], target=target, seed=1)


def matrices() -> Iterator[bytes]:
    for name in files.list_matrix_names():
        yield files.read_described_file("matrix", name)[1].encode()
    yield b'[defaults]\nengine = "mysql"\ncut = "drive"\n[[rows]]\ncache_mib = 4\n'


def metadata(data: bytes) -> None:
    with contextlib.suppress(UsageError):
        found = fence.parse_metadata("fence_x", data.decode("utf-8", "replace"))
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
    Target("inventory", inventory, choices),
    Target("workload", workload_file, workloads),
    Target("matrix", matrix_file, matrices),
    Target("fence-metadata", metadata, all_metadata),
)
