"""How far canaries came, by when their reports were heard."""

from __future__ import annotations

import json

import pytest

from dbcheck.core.depth import Counted
from dbcheck.probes import canary, host_agent
from dbcheck.probes.canary import Pace
from dbcheck.probes.host import TargetHost
from dbcheck.remote import wire
from tests.unit.test_witness_channel import Script, reply

PACE = Pace(rings=2)


def report(number: int) -> bytes:
    payload = host_agent.counts(PACE.rings).pack(*[number] * 3)
    return reply(host_agent.COMPLETED, payload)


def result(answer: object) -> bytes:
    return reply(wire.RESULT, json.dumps(answer).encode())


def test_an_answer_heard_late_tells_of_when_they_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The host goes at 1.2 s, and what ended them is heard two seconds later."""
    moments = iter([0, 500_000, 1_200_000, 3_200_000])
    monkeypatch.setattr(canary, "_now_us", lambda: next(moments))
    ended = {"buffered": 35, "direct": [31, 32], "stopped": "Input/output error"}
    script = Script(
        wire.HELLO,
        result({"folder": "/beside"}),
        *(report(number) for number in (10, 20, 30)),
        result(ended),
    )
    host = TargetHost("here", lambda _: script, lambda: None)
    canaries = host.start_canaries("/data", pace=PACE)
    canaries.stop()
    done = canaries.completed()
    assert done.buffered == Counted(35, 10)
    assert done.direct == (Counted(31, 10), Counted(32, 10))
    assert canaries.failure == "Input/output error"
    assert canaries.answered()


def test_a_host_that_is_gone_did_not_answer() -> None:
    script = Script(wire.HELLO, result({"folder": "/beside"}), report(10))
    canaries = TargetHost("here", lambda _: script, lambda: None).start_canaries("/d")
    canaries.stop()
    assert not canaries.answered()
