"""What the reading of surviving rows needs of the run that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from dbcheck.core.records import Listed, LoadRecord, StoredRows
from dbcheck.core.survivors import Records
from dbcheck.runs import Recalled


class RowStore(Protocol):
    """A run's records, and where its rows are kept; see RunFolder for each method."""

    def load(self) -> LoadRecord | None: ...

    def canary(self) -> bool | None: ...

    def recalled(self) -> Recalled: ...

    def listed(self) -> Listed | None: ...

    def write_listed(self, listed: Listed) -> None: ...

    def write_survivors(self, table: str, batches: Iterable[Records]) -> StoredRows: ...

    def survivors(self, table: str) -> Iterator[Records]: ...

    def write_different(self, table: str, lines: Iterable[str]) -> None: ...
