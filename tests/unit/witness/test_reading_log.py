"""A connection broke while the rows were read: does the log say that data ended it?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, HostError
from dbcheck.cycle.recovery import reading_log
from dbcheck.model.host import LogTail
from dbcheck.rows.table import LEDGER
from tests.kit.nodes import site_of
from tests.kit.server_logs import (
    MARIA,
    MARIA_ASSERTED,
    MARIA_KILLED,
    MARIA_MYISAM,
    MARIA_PAGE,
)


@pytest.fixture(autouse=True)
def one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_log, "LOG_WAIT_S", 0.0)


def _log(
    logged: str,
    *,
    truncated: bool = False,
    rewound: bool = False,
    over_sql: str | None = None,
    earlier: str = "",
) -> reading_log.ReadingLog:
    def mark(path: str) -> dict[str, tuple[int, int]]:
        if over_sql is not None:
            raise HostError("no such file", id=ErrorId.HOST_NOT_ANSWERING)
        return {path: (1, 0)}

    host = SimpleNamespace(
        mark_log=mark,
        read_log=lambda path, marks: LogTail(
            logged if marks else earlier + logged, truncated, rewound
        ),
    )
    engine = SimpleNamespace(
        names_in_log=lambda tables: ("app/t",),
        logged=lambda since_us, server=None: over_sql,
    )
    power = SimpleNamespace(failure=lambda: "")
    site = site_of(engine, power, host)
    before = SimpleNamespace(log_path="/log", log_marks={})
    names = {"server_uid": "own"}
    facts = SimpleNamespace(clock_us=0, started_us=0, log_names=names)
    parts: list[Any] = [site, before, facts]
    return reading_log.ReadingLog(*parts)


def _of_sql(logged: str) -> reading_log.ReadingLog:
    """Return a log that is read over SQL alone."""
    return _log("", truncated=True, over_sql=logged)


def _why(logged: str) -> str:
    return (
        _log(logged).find_cause(EngineError("lost", id=ErrorId.STATEMENT_FAILED)).damage
    )


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
    assert "page corruption on disk" in _why(MARIA_PAGE + MARIA_ASSERTED)


SHUT = f"{MARIA}[Note] mariadbd: Shutdown complete\n"
START = "2026-11-22  1:16:33 0 [Note] Starting MariaDB 10.11.6-MariaDB as process 9\n"


@pytest.mark.parametrize(
    ("logged", "names"),
    [
        ("", False),
        (START, False),
        (MARIA_PAGE, False),  # before the power was cut
        (MARIA_PAGE + START, False),  # an earlier start
        (START + MARIA_PAGE, True),
    ],
)
def test_only_the_last_start_names_damage(logged: str, names: bool) -> None:
    said = _log(logged).damage((LEDGER,))
    assert ("page corruption on disk" in said) == names


@pytest.mark.parametrize("name", ["own", "another"])
def test_a_start_of_another_server_in_the_log_accuses_nobody(name: str) -> None:
    start = START.replace(" as process", f" server_uid {name} as process")
    own = name == "own"
    assert bool(_why(MARIA_PAGE + start)) is own
    assert bool(_log(start + MARIA_PAGE).damage((LEDGER,))) is own
    # Before this server's own last start, too.
    for log in (_log(start + START + MARIA_PAGE), _of_sql(start + START + MARIA_PAGE)):
        assert bool(log.damage((LEDGER,))) is own


@pytest.mark.parametrize("name", ["own", "another"])
def test_another_server_that_started_before_the_reading_writes_to_the_log(
    name: str,
) -> None:
    """It may end itself, and start again only after that was seen."""
    started = START.replace(" as process", f" server_uid {name} as process")
    own = name == "own"
    log = _log(MARIA_PAGE + MARIA_ASSERTED, earlier=started)
    lost = EngineError("lost", id=ErrorId.STATEMENT_FAILED)
    assert bool(log.find_cause(lost).damage) is own
    again = _log(SHUT + START, earlier=started).had_orderly_end()
    assert again is (True if own else None)


@pytest.mark.parametrize(
    ("name", "before", "orderly"),
    [
        pytest.param("own", SHUT, True, id="shut down"),
        pytest.param("own", "", False, id="started without that"),
        pytest.param("another", SHUT, None, id="a shutdown, perhaps of another"),
        pytest.param("another", "", None, id="a start of another"),
    ],
)
def test_an_orderly_end_is_that_of_this_server(
    name: str, before: str, orderly: bool | None
) -> None:
    start = START.replace(" as process", f" server_uid {name} as process")
    for log in (_log(before + start), _of_sql(before + start)):
        assert log.had_orderly_end() is orderly
    assert _log(start + before + start).had_orderly_end() is (
        None if name == "another" else False
    )


def test_without_a_log_nothing_shows_an_orderly_end() -> None:
    assert _log("").had_orderly_end() is None


@pytest.mark.parametrize("how", ["truncated", "rewound"])
def test_a_log_that_may_lack_the_last_start_names_no_damage(how: str) -> None:
    """MySQL is asked for what it logged."""
    truncated = how == "truncated"
    lacking = _log(START + MARIA_PAGE, truncated=truncated, rewound=not truncated)
    assert lacking.damage((LEDGER,)) == ""
    asked = _log("", truncated=True, over_sql=MARIA_PAGE)
    assert "page corruption on disk" in asked.damage((LEDGER,))
