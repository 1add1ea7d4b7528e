"""Whose fault is a server that is not back: its data's, or perhaps something else's."""

from __future__ import annotations

import dataclasses

import pytest

from dbcheck.core.target import LogTail
from dbcheck.judge.absence import Absence, judge_absence
from tests.kit.cases import case, loaded
from tests.kit.host_samples import BEFORE, after
from tests.kit.server_logs import MARIA_REDO, PG_SCANNED, PG_SLOT, PG_WAL


def _absence(log: LogTail) -> Absence:
    host = dataclasses.replace(after(), log=log)
    return judge_absence(case(BEFORE, host, load=loaded(), off_s=15.0))


@pytest.mark.parametrize("text", [PG_WAL, MARIA_REDO])
def test_a_log_that_is_known_to_its_end_accuses(text: str) -> None:
    found = _absence(LogTail(text, False, False))
    assert found.failure.startswith("it does not start: "), found


@pytest.mark.parametrize("text", [PG_WAL, MARIA_REDO])
def test_a_log_that_goes_on_does_not(text: str) -> None:
    """The start that it ends with need not have been the last."""
    found = _absence(LogTail(text, True, False))
    assert found.failure == ""
    assert "more was logged" in found.doubt


@pytest.mark.parametrize("text", [PG_SLOT, PG_SCANNED])
def test_errors_that_do_not_name_the_data_do_not_accuse(text: str) -> None:
    found = _absence(LogTail(text, False, False))
    assert found.failure == ""
    assert found.doubt
