"""What a second reading of the rows showed, after the server was restarted cleanly.

A recovery can leave in memory what it never writes, or replay again what it had
replayed: then the first reading finds every row, and the next one does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbcheck.rows.changed import ChangedRow
from dbcheck.rows.loss import LossKind


@dataclass(frozen=True, slots=True)
class SecondReading:
    """What became of the second reading.

    rows:     how many it found, in all tables.
    changed:  how many rows only one of the two readings found.  first: the first ones.
    index:    why an index disagreed with its table in it, "" if none did.
    orderly:  the server's log shows that it was shut down in an orderly way; None if
              that is not known.
    not_done: why there was none, "" if there was.
    failure:  why the server, or a table, certainly did not come back from the restart.
    """

    rows: int = 0
    changed: int = 0
    first: tuple[ChangedRow, ...] = ()
    index: str = ""
    orderly: bool | None = None
    not_done: str = ""
    failure: str = ""

    @property
    def reason(self) -> str:
        """What is otherwise than in the first reading, "" if nothing is."""
        parts = [self.index] if self.index else []
        if self.changed:
            parts.append(
                f"{self.changed:,} rows are otherwise after a clean restart, which"
                f" wrote none; {self.first[0]}"
            )
        return "; ".join(parts)

    @property
    def counts(self) -> dict[str, int]:
        """The loss by its kind, as Reconciliation.counts has the others."""
        count = self.changed or int(bool(self.index))
        return {LossKind.UNSTABLE.value: count} if count else {}
