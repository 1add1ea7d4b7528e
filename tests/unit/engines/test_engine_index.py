"""What is kept of the ids that were read, to be compared with an index."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.verdict import Judgement, judge_index
from dbcheck.model.verdict import Verdict
from dbcheck.rows.loss import IndexLoss, Losses
from dbcheck.rows.reconcile import Reconciliation

INDEX = IndexLoss("the primary key has 9 rows where the table has 10", 1)
CLEAN = Reconciliation(9, 9, 0, 0, 0, 0, {}, Losses.of(()))
GONE = Reconciliation(9, 0, 0, 0, 0, 0, {}, Losses.of(()))


@pytest.mark.parametrize(
    ("verdict", "found", "items", "expected"),
    [
        pytest.param(Verdict.PASS, CLEAN, (), Verdict.FAIL, id="nothing else"),
        pytest.param(Verdict.INCONCLUSIVE, CLEAN, (), Verdict.FAIL, id="no cut"),
        pytest.param(Verdict.FAIL, CLEAN, (), Verdict.FAIL, id="rows, too"),
        pytest.param(
            Verdict.INCONCLUSIVE, None, (), Verdict.INCONCLUSIVE, id="a damaged log"
        ),
        pytest.param(
            Verdict.INCONCLUSIVE,
            CLEAN,
            (Item(ItemId.NOT_RESTORED, Status.CONTRADICTED, "a copy", True),),
            Verdict.INCONCLUSIVE,
            id="other data",
        ),
        pytest.param(
            Verdict.INCONCLUSIVE,
            GONE,
            (),
            Verdict.INCONCLUSIVE,
            id="nothing of the run is there",
        ),
        pytest.param(
            Verdict.INCONCLUSIVE,
            replace(CLEAN, earlier_lost={3: 1}),
            (Item(ItemId.SAME_TABLE, Status.ABSENT, "ledger was recreated", False),),
            Verdict.INCONCLUSIVE,
            id="the table was replaced",
        ),
    ],
)
def test_an_index_that_disagrees_is_a_loss_of_this_run_s_data_alone(
    verdict: Verdict,
    found: Reconciliation | None,
    items: tuple[Item, ...],
    expected: Verdict,
) -> None:
    judgement = Judgement(verdict, ("as the rows say",), items)
    judged = judge_index(judgement, found, INDEX)
    assert judged.verdict is expected
    assert (INDEX.reason in judged.reasons[-1]) == (expected is Verdict.FAIL)
    assert judge_index(judgement, found, None) == judgement


@pytest.mark.parametrize(("reason", "rows"), [("", 1), ("it lost rows", 0)])
def test_no_loss_without_reason_and_rows(reason: str, rows: int) -> None:
    with pytest.raises(ValueError, match="an index lost"):
        IndexLoss(reason, rows)
