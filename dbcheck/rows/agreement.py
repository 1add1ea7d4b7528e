"""Whether the nodes of a cluster hold the same rows, once each has applied all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbcheck.rows.changed import ChangedRow
from dbcheck.rows.loss import LossKind


@dataclass(frozen=True, slots=True)
class OtherNode:
    """What one of the other nodes holds, compared with the node that was read.

    rows:     how many of the run it has, in the tables of the plan.
    unlike:   how many rows only one of the two nodes has.  first: the first ones;
              was_there: on the node that was read.  Without those in extra.
    extra:    of a node that followed the other one only once that was read: how many
              rows only it has.  Those that were acknowledged are lost on the other
              one, and count there.  first_extra: the first ones.
    failure:  why a table of it cannot be read, or disagrees with its own index, "" if
              neither.  That may be older than the run.
    not_done: why it was not compared, "" if it was.
    """

    rows: int = 0
    unlike: int = 0
    first: tuple[ChangedRow, ...] = ()
    failure: str = ""
    not_done: str = ""
    extra: int = 0
    first_extra: tuple[ChangedRow, ...] = ()

    def extra_reason(self, name: str, reader: str) -> str:
        """Return what this node alone has, for a person; "" if nothing."""
        if not self.extra:
            return ""
        rows = "1 row" if self.extra == 1 else f"{self.extra:,} rows"
        example = f", e.g. id {self.first_extra[0].row_id}" if self.first_extra else ""
        return (
            f"rejoined-extra: {name} rejoined, and has {rows} that {reader}"
            f" lacks{example}; its clients see them"
        )

    def reason(self, name: str, reader: str) -> str:
        """Return what differs, for a person; "" if nothing does.

        name: of this node.  reader: of the one that was read.
        """
        if not self.unlike:
            return ""
        rows = "1 row" if self.unlike == 1 else f"{self.unlike:,} rows"
        reason = f"{name} and {reader} differ in {rows}, although both have applied all"
        for row in self.first[:1]:
            without = name if row.was_there else reader
            reason += (
                f"; {without} lacks id {row.row_id} of {row.table}, or has it with"
            )
            reason += " other content"
        return reason


def counts(others: Mapping[str, OtherNode]) -> dict[str, int]:
    """Return the loss by its kind, as Reconciliation.counts has the others."""
    count = sum(one.unlike for one in others.values())
    return {LossKind.DIVERGED.value: count} if count else {}
