"""An index that disagrees with its table: a loss even if no row is missing."""

from __future__ import annotations

from dataclasses import dataclass

from dbcheck.rows.loss import LossKind


@dataclass(frozen=True, slots=True)
class IndexLoss:
    """What was found once the table had been read.

    reason: why table and index disagree.
    rows:   on how many rows, at least.
    ids:    of the rows that the index does not find, in their order, as far as they
            were checked.
    table:  its name, "" if the server's own check found it.
    """

    reason: str
    rows: int
    ids: tuple[int, ...] = ()
    table: str = ""

    def __post_init__(self) -> None:
        """Refuse what no reading can have found."""
        if not self.reason or self.rows < max(1, len(self.ids)):
            raise ValueError(f"an index lost {self.rows} rows: {self.reason!r}")

    @property
    def counts(self) -> dict[str, int]:
        """The loss by its kind, as Reconciliation.counts has the others."""
        return {LossKind.INDEX_MISMATCH.value: self.rows}
