"""A client whose wall clock is wrong: the run is dated wrongly, and says so."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dbcheck.cycle.cycle import run_cycle
from dbcheck.model.verdict import Verdict
from dbcheck.report.words.summary import summarize_run
from tests.kit.labs import process_lab
from tests.kit.rigs import SEED, bench, quick

HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize("wrong_h", [0, -2, 2])
@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_a_clock_that_is_wrong_is_reported_and_changes_no_verdict(
    engine: str, wrong_h: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The witness's agent and the server are other processes, with the right clock."""
    right_ns = time.time_ns
    with bench(process_lab(engine), tmp_path) as here:
        monkeypatch.setattr("time.time_ns", lambda: right_ns() + wrong_h * HOUR_NS)
        outcome = run_cycle(here.rig, quick(), SEED)
    assert outcome.verdict is Verdict.PASS
    shown = dict(summarize_run(outcome.result).about).get("clocks", "")
    said = f"{abs(wrong_h)} h {'ahead of' if wrong_h < 0 else 'behind'} the client's"
    for place in (shown, here.said.text):
        assert (f"lock of the witness is {said}" in place) == (wrong_h != 0)
        assert (f"the clock of the server is {said}. " in place) == (wrong_h != 0)
    assert ("clock" in shown) == (wrong_h != 0)
