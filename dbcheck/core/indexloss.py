"""An index that disagrees with its table: a loss though every row is there."""

from __future__ import annotations

from dataclasses import dataclass

from dbcheck.core.evidence import (
    Judgement,
    Verdict,
    all_gone,
    replaced,
    stranger,
)
from dbcheck.core.loss import LossKind
from dbcheck.core.reconcile import Reconciliation


@dataclass(frozen=True, slots=True)
class IndexLoss:
    """What was found once the table had been read.

    reason: why table and index disagree.
    rows:   on how many rows, at least.
    ids:    of the rows that the index does not find, in their order, as far as they
            were looked up.
    """

    reason: str
    rows: int
    ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no reading can have found."""
        if not self.reason or self.rows < max(1, len(self.ids)):
            raise ValueError(f"an index lost {self.rows} rows: {self.reason!r}")

    @property
    def counts(self) -> dict[str, int]:
        """The loss by its kind, as Reconciliation.counts has the others."""
        return {LossKind.INDEX_MISMATCH.value: self.rows}


def judge_index(
    judgement: Judgement, found: Reconciliation | None, index: IndexLoss | None
) -> Judgement:
    """Return FAIL if the *index* disagrees with its table, else *judgement*.

    The server said that a row is stored, and a query that looks for it does not find
    it.  Data that are not this run's, or may not be, are held against nobody.
    """
    items = judgement.items
    unknown = found is None or all_gone(found) or stranger(items) is not None
    unknown = unknown or (found is not None and bool(replaced(found, items)))
    if index is None or (unknown and judgement.verdict is not Verdict.FAIL):
        return judgement
    reason = f"{LossKind.INDEX_MISMATCH.value}: {index.reason}"
    rest = judgement.reasons if judgement.verdict is Verdict.FAIL else ()
    return Judgement(Verdict.FAIL, (*rest, reason), judgement.items)
