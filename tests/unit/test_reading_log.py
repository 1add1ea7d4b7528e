"""A connection broke while the rows were read: does the log say that data ended it?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.campaign import reading_log
from dbcheck.core.target import LogTail
from dbcheck.errors import EngineError
from tests.unit.test_startlog import MARIA_KILLED, MARIA_MYISAM, MARIA_PAGE


@pytest.fixture(autouse=True)
def one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_log, "LOOK_S", 0.0)


def _why(logged: str) -> str:
    host = SimpleNamespace(
        mark_log=lambda path: {path: (1, 0)},
        read_log=lambda path, marks: LogTail(logged, False, False),
    )
    rig = SimpleNamespace(host=host, power=SimpleNamespace(failure=lambda: ""))
    manifest = SimpleNamespace(host=SimpleNamespace(log_path="/log"))
    facts = SimpleNamespace(clock_us=0)
    parts: list[Any] = [rig, manifest, facts]
    return reading_log.ReadingLog(*parts).why(EngineError("lost")).damage


@pytest.mark.parametrize(
    "logged",
    [
        pytest.param("", id="nothing"),
        pytest.param(MARIA_MYISAM, id="an application's table"),
        pytest.param(MARIA_MYISAM + MARIA_KILLED, id="that, and a crash"),
        pytest.param(MARIA_PAGE, id="a page, and the server goes on"),
        pytest.param(MARIA_KILLED, id="a crash alone"),
    ],
)
def test_a_log_that_does_not_say_so_accuses_nobody(logged: str) -> None:
    assert _why(logged) == ""


def test_a_page_and_a_crash_are_why() -> None:
    assert "page corruption on disk" in _why(MARIA_PAGE + MARIA_KILLED)
