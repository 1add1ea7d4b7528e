"""Compares two readings of a table, which may be larger than the memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from dbcheck.rows.differences import CHANGED_MAX, ChangedRow, Digest, only_in
from dbcheck.rows.survivors import RECORD, Records
from dbcheck.rows.table import TableSpec
from dbcheck.runs import RunFolder

Read = Callable[[], Iterator[Records]]
_ROWS_AT_ONCE = 1 << 16


@dataclass(slots=True)
class Comparison:
    """Adds up how tables differ between a first reading and a second one.

    folder:  where the rows of the second reading are kept meanwhile.
    rows:    how many the second readings found.
    count:   how many rows only one of the two found.  changed: the first ones that
             each of them found alone.
    new:     how many of these the second one found.
    """

    folder: Path
    rows: int = 0
    count: int = 0
    new: int = 0
    changed: list[ChangedRow] = field(default_factory=list)

    def add(self, table: TableSpec, first: Read, second: Read) -> None:
        """Compare one table.

        first: a reading that can be made anew.  second: one that is made once.
        """
        with tempfile.TemporaryFile(dir=self.folder) as spool:
            earlier, later = Digest(), Digest()
            for records in second():
                later.add(records)
                spool.write(records.tobytes())
            for records in first():
                earlier.add(records)
            self.rows += later.rows
            if earlier == later:
                return
            for part in only_in(first(), _stored_in(spool)):
                self._note(table, part, was_there=True)
            for part in only_in(_stored_in(spool), first()):
                self._note(table, part, was_there=False)

    def _note(self, table: TableSpec, records: Records, *, was_there: bool) -> None:
        self.count += len(records)
        self.new += 0 if was_there else len(records)
        alike = sum(row.was_there is was_there for row in self.changed)
        room = CHANGED_MAX - alike
        for row_id, epoch, session, seq, part, _, _ in records[:room].tolist():
            self.changed.append(
                ChangedRow(table.name, row_id, epoch, session, seq, part, was_there)
            )


def compare_stored(
    found: Comparison, table: TableSpec, run: RunFolder, rows: Read
) -> None:
    """Compare the run's rows of a table on another node with those that are stored.

    rows: of all runs, there.
    """
    epoch = run.manifest().epoch
    found.add(
        table,
        lambda: _of_epoch(run.survivors(table.name), epoch),
        lambda: _of_epoch(rows(), epoch),
    )


def _of_epoch(parts: Iterable[Records], epoch: int) -> Iterator[Records]:
    for records in parts:
        yield records[records["epoch"] == epoch]


def _stored_in(spool: IO[bytes]) -> Iterator[Records]:
    """Yield the rows that were written to *spool*."""
    spool.seek(0)
    while content := spool.read(_ROWS_AT_ONCE * RECORD.itemsize):
        yield np.frombuffer(content, RECORD)
