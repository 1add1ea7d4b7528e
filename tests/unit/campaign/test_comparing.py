"""How the rows of two readings are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dbcheck.cycle.recovery.survivors import Comparison
from dbcheck.rows.differences import CHANGED_MAX
from dbcheck.rows.survivors import RECORD, Records
from dbcheck.rows.table import LEDGER


def rows(*ids: int) -> Records:
    found = np.zeros(len(ids), RECORD)
    found["row_id"] = ids
    return found


def test_rows_of_each_reading_are_counted_and_kept_by_name(tmp_path: Path) -> None:
    """Many that one reading found alone do not hide those of the other one."""
    found, new = Comparison(tmp_path), range(1000, 1000 + 2 * CHANGED_MAX)
    found.add(LEDGER, lambda: iter([rows(1, 2)]), lambda: iter([rows(1, *new)]))
    assert (found.rows, found.count, found.new) == (
        *(1 + len(new), 1 + len(new)),
        len(new),
    )
    found.add(LEDGER, lambda: iter([rows(7)]), lambda: iter([rows()]))
    gone = [row.row_id for row in found.changed if row.was_there]
    assert gone == [2, 7]
    assert len(found.changed) == len(gone) + CHANGED_MAX
    assert list(tmp_path.iterdir()) == []
