"""A connection that reads the newest rows of a table while others write to it."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.engines.link import Link
from dbcheck.engines.watch import Watch
from dbcheck.ports.connection import KeyRead
from dbcheck.rows.table import TableSpec


class Newest(Watch):
    """See ports.engine.NewestRows."""

    def __init__(self, link: Link, table: TableSpec, epoch: int) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._epoch = epoch
        self._statement = f"newest_{table.name}"

    def read(self, after_id: int) -> Sequence[KeyRead]:
        found = self._rows(self._statement, {"after": after_id, "epoch": self._epoch})
        return [KeyRead(*map(int, values)) for values in reversed(found)]
