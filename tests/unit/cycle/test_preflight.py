"""How the preflight waits until a server's start can be told from a later one.

And how it counts what the audit found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.preflight.audit import summarize_flags
from dbcheck.cycle.recovery import waiting
from dbcheck.model.audited import Flag, RuleStatus, Severity
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.listener import Phase
from tests.kit.partial_rig import RecordingListener
from tests.kit.refusals import refused
from tests.kit.samples import FACTS

HOUR_US = 3_600_000_000
POSTGRESQL_US, MYSQL_US = 1, 250_000  # how exactly each tells its start


class Server:
    """Started at HOUR_US; its clock goes on while its client sleeps, and no more."""

    def __init__(self, clock_us: int, started_error_us: int) -> None:
        self.clock_us, self._error_us = clock_us, started_error_us
        self.slept_s: list[float] = []

    def facts(self) -> ServerFacts:
        return replace(
            FACTS,
            started_us=HOUR_US,
            started_error_us=self._error_us,
            clock_us=self.clock_us,
        )

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.clock_us += round(seconds * 1e6)


def asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> RecordingListener:
    listener = RecordingListener()
    monkeypatch.setattr("time.sleep", server.sleep)
    facts = waiting.read_settled_facts(cast(Engine, server), listener)
    assert facts.start_ambiguous_us <= 0
    return listener


@pytest.mark.parametrize(
    ("later_us", "error_us", "slept_s"),
    [
        pytest.param(HOUR_US, MYSQL_US, [], id="an hour old"),
        pytest.param(4, POSTGRESQL_US, [], id="four microseconds old"),
        pytest.param(0, MYSQL_US, [1.0], id="started in this second"),
        pytest.param(-300_000, POSTGRESQL_US, [0.300004], id="a small step back"),
    ],
)
def test_a_short_wait_is_not_worth_a_word(
    monkeypatch: pytest.MonkeyPatch, later_us: int, error_us: int, slept_s: list[float]
) -> None:
    server = Server(HOUR_US + later_us, error_us)
    assert not asked(server, monkeypatch).phases
    assert server.slept_s == slept_s


def test_a_longer_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(HOUR_US - 5_000_000, MYSQL_US)
    listener = asked(server, monkeypatch)
    text = "6 s: the server has only just started"
    assert listener.phases == [(Phase.WAITING, text)]
    assert server.slept_s == [6.0]


@pytest.mark.parametrize("error_us", [POSTGRESQL_US, MYSQL_US])
def test_a_clock_that_went_back_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, error_us: int
) -> None:
    server = Server(HOUR_US - 2 * HOUR_US, error_us)
    with refused(ErrorId.SERVER_CLOCK_SET_BACK, EngineError, naming=" 720") as caught:
        asked(server, monkeypatch)
    assert "Restart the server" in caught.value.hint
    assert not server.slept_s


def test_an_audit_without_alarms_counts_its_notes() -> None:
    def flag(severity: Severity, status: RuleStatus) -> Flag:
        return Flag("rule", severity, status, "server", "fact", "off")

    note = flag(Severity.NOTE, RuleStatus.UNSAFE)
    unread = flag(Severity.ERROR, RuleStatus.UNKNOWN)
    alarm = flag(Severity.ERROR, RuleStatus.UNSAFE)
    told = summarize_flags([note, note, unread])
    assert told.startswith("no unsafe setting found; 2 notes; 1 could not be read (")
    assert summarize_flags([alarm, note]).startswith("1 error; 1 note (")
    assert summarize_flags([]) == "no unsafe setting found"
