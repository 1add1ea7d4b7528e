"""How far canaries came, by when their reports were heard."""

from __future__ import annotations

import json

import pytest

from dbcheck.agent import wire
from dbcheck.agent.host import serve as host_agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.hosts import canary
from dbcheck.hosts.canary import Canaries, Pace
from dbcheck.hosts.host import TargetHost
from dbcheck.model.depth import Counted
from tests.kit.channels import Script, reply
from tests.kit.refusals import refused

PACE = Pace(rings=2)


def report(number: int, sent_us: int = 0) -> bytes:
    payload = host_agent.report_layout(PACE.rings).pack(sent_us, *[number] * 3)
    return reply(host_agent.COMPLETED, payload)


def result(answer: object) -> bytes:
    return reply(wire.RESULT, json.dumps(answer).encode())


def ended_canaries(script: Script) -> Canaries:
    """Return canaries that were stopped, of a host that said *script*."""
    host = TargetHost("here", lambda _: script, lambda: None)
    canaries = host.start_canaries("/data", pace=PACE)
    canaries.stop()
    return canaries


def test_an_answer_heard_late_tells_of_when_they_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The host goes at 1.2 s, and what ended them is heard two seconds later."""
    moments = iter([0, 500_000, 1_200_000, 3_200_000])
    monkeypatch.setattr(canary, "now_us", lambda: next(moments))
    ended = {"buffered": 35, "direct": [31, 32], "stopped": "Input/output error"}
    script = Script(
        wire.HELLO,
        result({"folder": "/beside"}),
        *(report(number) for number in (10, 20, 30)),
        result(ended),
    )
    canaries = ended_canaries(script)
    done = canaries.completed()
    assert done.buffered == Counted(35, 10)
    assert done.direct == (Counted(31, 10), Counted(32, 10))
    assert canaries.failure == "Input/output error"
    assert canaries.answered()


def test_a_report_is_dated_by_its_host_however_late_it_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The host's clock is 5 s ahead; its last report rests 3 s in some buffer."""
    moments = iter([0, 501_000, 4_200_000])
    monkeypatch.setattr(canary, "now_us", lambda: next(moments))
    sent_us = (5_000_500, 5_500_000, 6_200_000)
    script = Script(
        wire.HELLO,
        result({"folder": "/beside"}),
        *(report(n, sent) for n, sent in zip((1, 5, 8), sent_us, strict=True)),
    )
    canaries = ended_canaries(script)
    done = canaries.completed()
    assert canaries.heard_us() == 4_200_000
    assert (done.as_of_us, done.interval_us) == (1_199_500, 571)


def test_a_host_that_is_gone_did_not_answer() -> None:
    script = Script(wire.HELLO, result({"folder": "/beside"}), report(10))
    canaries = TargetHost("here", lambda _: script, lambda: None).start_canaries("/d")
    canaries.stop()
    assert not canaries.answered()


def test_a_clock_that_no_host_has_ends_the_canaries() -> None:
    script = Script(
        wire.HELLO, result({"folder": "/beside"}), report(1), report(2, (1 << 64) - 1)
    )
    host = TargetHost("here", lambda _: script, lambda: None)
    canaries = host.start_canaries("/d", pace=PACE)
    canaries.stop()
    assert canaries.completed().buffered.last == 1
    assert "unexpected reply from the host agent" in canaries.failure


def test_a_host_that_only_reports_is_given_up() -> None:
    class Endless(Script):
        def receive(self, timeout_s: float | None) -> bytes:
            return super().receive(timeout_s) or report(1) * 1000

    script = Endless(wire.HELLO)
    host = TargetHost("here", lambda _: script, lambda: None)
    with refused(ErrorId.AGENT_REPLY_INVALID, HostError, naming="the host"):
        host.start_canaries("/data", pace=PACE)
    assert script.closed


def test_a_host_that_keeps_running_reports_on_without_its_drive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The drive goes at 0.6 s; the page cache takes records until an error at 3 s."""
    moments = iter([100_000, 500_000, 600_000, 2_000_000, 3_000_000, 3_100_000])
    monkeypatch.setattr(canary, "now_us", lambda: next(moments))
    counts = host_agent.report_layout(PACE.rings)
    numbers = ((10, 10, 10), (20, 20, 20), (30, 31, 32), (60, 31, 32), (90, 31, 32))
    ended = {"buffered": 90, "direct": [31, 32], "stopped": "Input/output error"}
    script = Script(
        wire.HELLO,
        result({"folder": "/beside"}),
        *(reply(host_agent.COMPLETED, counts.pack(0, *each)) for each in numbers),
        result(ended),
    )
    canaries = ended_canaries(script)
    assert canaries.last_progress_us() == 600_000
    done = canaries.completed(canaries.last_progress_us())
    assert done.direct == (Counted(31, 0), Counted(32, 0))
    assert done.buffered == Counted(30, 0)
    assert canaries.completed().direct == (Counted(31, 31), Counted(32, 32))
