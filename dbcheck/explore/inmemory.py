"""The rows that are read of one crash state, which nothing needs to keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dbcheck.model.records import (
    AfterRecord,
    LoadRecord,
    PreparedRecord,
    StoredRows,
)
from dbcheck.rows.survivors import Records


class InMemory:
    """A RowStore without a folder.

    claimed: what the client knew of its load by the moment of the state.
    """

    def __init__(self, claimed: LoadRecord) -> None:
        self._claimed = claimed
        self._rows: dict[str, list[Records]] = {}
        self._prepared: PreparedRecord | None = None

    def load(self) -> LoadRecord:
        return self._claimed

    def earlier(self) -> list[AfterRecord | PreparedRecord]:
        return []

    def is_own(self) -> bool:
        return False  # nothing is asked of a lab's host while states are judged

    def log_bytes(self) -> tuple[int, ...]:
        return ()

    def prepared(self) -> PreparedRecord | None:
        return self._prepared

    def write_prepared(self, prepared: PreparedRecord) -> None:
        self._prepared = prepared

    def write_survivors(self, table: str, batches: Iterable[Records]) -> StoredRows:
        self._rows[table] = [records.copy() for records in batches]
        return StoredRows(sum(map(len, self._rows[table])), "")

    def survivors(self, table: str) -> Iterator[Records]:
        return iter(self._rows[table])

    def write_different(self, table: str, lines: Iterable[str]) -> None:
        """Drop them: what was lost names each."""
