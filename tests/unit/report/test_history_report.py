"""The report on a folder of runs, in each format that needs no verdict of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.campaign.history import read_history
from dbcheck.judge.checks import HistoryResult
from dbcheck.report.formats import FORMATS, format_report
from tests.kit.chosen_runs import manifest_of, run_of

SHOWING = [each.name for each in FORMATS.values() if not each.needs_verdict]


@pytest.fixture
def history(tmp_path: Path) -> HistoryResult:
    """Two checks of a server, of which the newer one lost rows."""
    run_of(tmp_path, 1)
    writer = manifest_of(2).writer
    settings = {**writer.facts.settings, "fsync": "off"}
    changed = replace(writer, facts=replace(writer.facts, settings=settings))
    run_of(tmp_path, 2, changed, lost=1)
    return read_history(tmp_path)


@pytest.mark.parametrize("name", SHOWING)
def test_it_shows_each_check_and_what_changed(
    name: str, history: HistoryResult
) -> None:
    text = format_report(history, name)
    for shown in ("2026-01-02", "2026-01-01", "FAIL", "PASS", "fsync"):
        assert shown in text, shown
