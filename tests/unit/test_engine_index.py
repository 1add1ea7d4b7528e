"""What is kept of the ids that were read, to be compared with an index."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.core.indexloss import IndexLoss
from dbcheck.core.loss import Losses
from dbcheck.core.reconcile import Reconciliation
<<<<<<< HEAD
from dbcheck.core.verdict import Verdict
from dbcheck.engines.postgresql import index as postgresql_index
from dbcheck.engines.postgresql.index import IdsRead
from dbcheck.judge.item import Item, ItemId, Standing
from dbcheck.judge.verdict import Judgement, judge_index

IDS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def remainder(value: int, modulus: int) -> int:
    """Return PostgreSQL's %."""
    return abs(value) % modulus * (1 if value >= 0 else -1)


@given(st.lists(st.lists(IDS, max_size=40), max_size=20))
def test_ids_are_counted_digested_and_sampled(batches: list[list[int]]) -> None:
    whole = [row_id for batch in batches for row_id in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgresql_index, "LOOKUPS_MAX", 30)
        read = IdsRead()
        for batch in batches:
            read.add(np.array(batch, np.int64))
    some = read.some.tolist()
    strides = (whole[:: 2**power] for power in range(12))
    assert some == next(ids for ids in strides if len(ids) <= 30)
    assert read.count == len(whole)
    assert read.digest == sum(
        remainder(row_id, 1048573) * remainder(row_id, 65521) for row_id in whole
    )

=======
>>>>>>> tests

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
            (Item(ItemId.NOT_RESTORED, Standing.CONTRADICTED, "a copy", True),),
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
            (Item(ItemId.SAME_TABLE, Standing.ABSENT, "ledger was recreated", False),),
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
    assert ("index-mismatch" in judged.reasons[-1]) == (expected is Verdict.FAIL)
    assert judge_index(judgement, found, None) == judgement


@pytest.mark.parametrize(("reason", "rows"), [("", 1), ("it lost rows", 0)])
def test_no_loss_without_reason_and_rows(reason: str, rows: int) -> None:
    with pytest.raises(ValueError, match="an index lost"):
        IndexLoss(reason, rows)
