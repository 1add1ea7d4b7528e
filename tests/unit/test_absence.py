"""Whose fault is a server that is not back: its data's, or perhaps something else's."""

from __future__ import annotations

import dataclasses

import pytest

from dbcheck.core.absence import CutFacts, judge_absence
from dbcheck.core.target import HostAfter, LogTail
from tests.kit.host_samples import BEFORE, after
from tests.kit.server_logs import MARIA_REDO, PG_SCANNED, PG_SLOT, PG_WAL

CUT = CutFacts(asked=True, measured=True, farewell="", lab="")


def _back(log: LogTail) -> HostAfter:
    return dataclasses.replace(after(), log=log)


@pytest.mark.parametrize("text", [PG_WAL, MARIA_REDO])
def test_a_log_that_is_known_to_its_end_accuses(text: str) -> None:
    found = judge_absence(CUT, BEFORE, _back(LogTail(text, False, False)))
    assert found.failure.startswith("it does not start: "), found


@pytest.mark.parametrize("text", [PG_WAL, MARIA_REDO])
def test_a_log_that_goes_on_does_not(text: str) -> None:
    """The start that it ends with need not have been the last."""
    found = judge_absence(CUT, BEFORE, _back(LogTail(text, True, False)))
    assert found.failure == ""
    assert "more was logged" in found.doubt


@pytest.mark.parametrize("text", [PG_SLOT, PG_SCANNED])
def test_errors_that_do_not_name_the_data_do_not_accuse(text: str) -> None:
    found = judge_absence(CUT, BEFORE, _back(LogTail(text, False, False)))
    assert found.failure == ""
    assert found.doubt
