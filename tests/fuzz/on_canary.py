"""The canaries' files after a cut, and the logs that a server wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from dbcheck.agent.host import canary as host_canary
from dbcheck.agent.host.canary import BLOCK_BYTES, RECORD_BYTES, RUN, make_record
from dbcheck.agent.host.devices import parse_nvme, parse_smartctl
from dbcheck.model.depth import Remains
from tests.fuzz.script import Script, edit_bytes, edit_value
from tests.fuzz.target import Target
from tests.kit.devices import ATA, NVME
from tests.kit.memory import scratch

NONCE = bytes(range(16))


def canary_files() -> dict[str, bytes]:
    run = {"nonce": NONCE.hex(), "rings": 2, "ring_blocks": 3, "records_per_file": 4}
    blocks = b"".join(make_record(NONCE, n, BLOCK_BYTES) for n in (4, 2, 3))
    records = [
        b"".join(make_record(NONCE, n, RECORD_BYTES) for n in range(a, a + 4))
        for a in (1, 5)
    ]
    return {
        RUN: json.dumps(run).encode(),
        host_canary.DIRECT.format(1): blocks,
        host_canary.DIRECT.format(2): bytes(3 * BLOCK_BYTES),
        host_canary.BUFFERED.format(1): records[0],
        host_canary.BUFFERED.format(2): records[1][:-9],
    }


def remains(data: bytes) -> None:
    """What is left of canaries is told, whatever a cut made of them."""
    script = Script(data)
    files = canary_files()
    for _ in range(1 + script.below(4)):
        name = script.choice(sorted(files))
        how = script.below(6)
        if how == 0:
            del files[name]
        elif how == 1 and name == RUN:
            try:
                value = edit_value(script, json.loads(files[RUN]))
                files[RUN] = json.dumps(value).encode()
            except ValueError:
                continue
        elif how == 2:
            files[script.choice(("buffered-x", "direct-9", "x"))] = files[name]
        else:
            files[name] = edit_bytes(script, files[name])
    with scratch() as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        found = host_canary.read_survivors(str(folder))
    assert {"run", "buffered", "first", "rings"} == set(found)
    for first, last in found["buffered"]:
        assert 1 <= first <= last
    msgspec.convert({**found, "missing": "", "ring_blocks": 3}, Remains)


def counters(data: bytes) -> None:
    """A drive's counters are whole numbers, or not there."""
    text = data.decode("utf-8", "replace")
    for found in (parse_nvme(text), parse_smartctl(text)):
        assert all(type(value) is int for value in found.values())


def shown() -> Iterator[bytes]:
    yield json.dumps(ATA).encode()
    yield json.dumps({"nvme_smart_health_information_log": NVME}).encode()
    yield json.dumps({"unsafe_shutdowns": "1,234"}).encode()


def choices() -> Iterator[bytes]:
    for step in range(24):
        yield bytes((step * 3 + place * (step + 2)) % 256 for place in range(20))


TARGETS = (
    Target("canaries", remains, choices),
    Target("counters", counters, shown),
)
