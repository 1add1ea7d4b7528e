"""What the cycles of a row show of its cuts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.cycle.outcome import Outcome
from dbcheck.model.verdict import Verdict
from dbcheck.runner.matrix_cycles import RowResults
from dbcheck.runner.receipts import find_receipt, make_receipt_result
from tests.kit.reports import run_result

RULE = "pg-fsync"
FLAG = {
    **{"rule": RULE, "subject": "server", "fact": "fsync", "value": "off"},
    **{"severity": "error", "status": "unsafe"},
}


def outcome_of(verdict: Verdict, *, uncut: bool) -> Outcome:
    result = run_result({"verdict": verdict.value, "uncut": uncut, "audit": [FLAG]})
    judgement = SimpleNamespace(reasons=("9 rows are lost",))
    seen: Any = SimpleNamespace(verdict=verdict, result=result, judgement=judgement)
    return cast(Outcome, seen)


@pytest.mark.parametrize("uncut", [False, True])
def test_only_a_cut_that_lost_shows_what_a_rule_claims(uncut: bool) -> None:
    """A server that loses rows and stops by itself shows nothing of power cuts."""
    found = find_receipt(RULE, 1)
    row = RowResults(found.rows[0], error="")
    row.outcomes.append(outcome_of(Verdict.PASS, uncut=False))
    row.outcomes.append(outcome_of(Verdict.FAIL, uncut=uncut))
    shown = make_receipt_result(found.rule, row)
    assert (shown.named, shown.shown) == (True, not uncut)
    assert (shown.cuts, bool(shown.lost)) == (2 - uncut, not uncut)
    assert row.row.until_loss
    assert row.is_over is not uncut
