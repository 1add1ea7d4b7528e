"""What a cycle learned after its cut, as it is stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dbcheck.core.indexloss import IndexLoss
from dbcheck.core.server import ServerFacts
from dbcheck.core.table import TableFacts
from dbcheck.core.target import HostAfter


@dataclass(frozen=True, slots=True)
class RestoreRecord:
    """That the power was given back.

    off_s: seconds without power, 0 or more, None if that was not measured.
    """

    off_s: float | None

    def __post_init__(self) -> None:
        """Refuse a time that no clock can have measured."""
        if self.off_s is not None and not 0 <= self.off_s < math.inf:
            raise ValueError(f"no power is off for {self.off_s} s")


@dataclass(frozen=True, slots=True)
class StoredRows:
    """One file of survivors: how many rows it holds, and its SHA-256."""

    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class AfterRecord:
    """What was found after the power came back.

    facts:  the server's, None if it did not come back.
    failure: why it, or its table, certainly did not come back; "" if it did.
    survivors: table -> the rows that were read of it.
    canary: whether the row that recovery from a crash removes was still there, None
            if there was none or it could not be read.
    host:   what the target's host reported, None without --target-host.
    missing: the server is there and has no such table.
    log:    what the server said over SQL that it logged since the preflight, None if
            it does not tell.
    index:  why the table's index, read after the table, disagrees with it; None if it
            does not.
    unanswered: why the server took no queries in its time, where its data may not be
            to blame; "" if it did, or if they are.  Nothing is final then: the run can
            be reconciled once the server is back.
    tables: what was read of each table, by its name, with the table's identity after
            that; {} if they were not read to their end.
    failed_before: the failure that was on record when the server took queries after
            all, "" if there was none.
    answered_us: when the server was first seen to take queries again, on the clock of
            LoadRecord; None if it did not, or if that clock does not tell.
    """

    facts: ServerFacts | None
    failure: str
    survivors: Mapping[str, StoredRows]
    canary: bool | None
    host: HostAfter | None = None
    missing: bool = False
    log: str | None = None
    index: IndexLoss | None = None
    unanswered: str = ""
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    failed_before: str = ""
    answered_us: int | None = None

    def of_only_table(self, unnamed: str, name: str) -> AfterRecord:
        """Return the record with *name* in the place of a table's name, *unnamed*."""
        names = {unnamed: name}
        return replace(
            self,
            survivors={names.get(k, k): v for k, v in self.survivors.items()},
            tables={names.get(k, k): v for k, v in self.tables.items()},
        )
