"""What an agent on the target's host answers is checked before it is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dbcheck.agent import wire
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.hosts.host import TargetHost
from tests.kit.channels import Script, reply
from tests.kit.refusals import refused

ANSWERS: list[Any] = [None, 5, [], {}, {"addresses": 5}, {"run": {}}, {"folder": 5}]


@pytest.mark.parametrize("value", ANSWERS)
def test_answers_that_make_no_sense_are_told(value: object) -> None:
    def pipe(_: bytes = b"") -> Script:
        return Script(wire.HELLO, reply(wire.RESULT, json.dumps(value).encode()))

    host = TargetHost("h", pipe)
    questions: list[Callable[[], object]] = [
        lambda: host.facts("/d"),
        lambda: host.read_log("/l", {}),
        lambda: host.read_canaries("/c", "n"),
        lambda: host.start_canaries("/d"),
        host.identity,
        lambda: host.arm_reset("/t"),
        lambda: host.counting(["sda"]).read(),
    ]
    for question in questions:
        with refused(ErrorId.AGENT_REPLY_INVALID, HostError, naming="the host"):
            question()


@pytest.mark.parametrize(
    ("at_us", "field"), [(-1, 0), (1 << 53, 0), (1, -1), (1, 1 << 53), (1, 10**400)]
)
def test_counters_that_no_kernel_has_are_refused(at_us: int, field: int) -> None:
    devices = [{"name": "sda", "stat": [field] * 17, "queues": True}]
    answer = json.dumps({"at_us": at_us, "devices": devices}).encode()
    pipe = Script(wire.HELLO, reply(wire.RESULT, answer))
    counters = TargetHost("h", lambda _: pipe).counting(["sda"])
    with refused(ErrorId.AGENT_REPLY_INVALID, HostError, naming="the host"):
        counters.read()


def test_devices_that_were_not_asked_for_are_left_out() -> None:
    fields = list(range(17))
    devices = [{"name": n, "stat": fields, "queues": True} for n in ("sda", "\x1b[2J")]
    answer = json.dumps({"at_us": 1, "devices": devices}).encode()
    pipe = Script(wire.HELLO, reply(wire.RESULT, answer))
    counters = TargetHost("h", lambda _: pipe).counting(["sda", "sdb"])
    assert counters.read().devices.keys() == {"sda"}
    counters.close()
    assert pipe.closed
