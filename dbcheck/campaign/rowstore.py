"""What the reading of surviving rows needs of the run that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from dbcheck.model.records import (
    AfterRecord,
    LoadRecord,
    PreparedRecord,
    StoredRows,
)
from dbcheck.rows.survivors import Records


class RowStore(Protocol):
    """A run's records, and where its rows are kept; see RunFolder for each method."""

    def load(self) -> LoadRecord | None: ...

    def earlier(self) -> list[AfterRecord | PreparedRecord]: ...

    def is_own(self) -> bool: ...

    def log_bytes(self) -> tuple[int, ...]: ...

    def prepared(self) -> PreparedRecord | None: ...

    def write_prepared(self, prepared: PreparedRecord) -> None: ...

    def write_survivors(self, table: str, batches: Iterable[Records]) -> StoredRows: ...

    def survivors(self, table: str) -> Iterator[Records]: ...

    def write_different(self, table: str, lines: Iterable[str]) -> None: ...
