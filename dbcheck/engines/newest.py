"""A connection that reads the newest rows of a table while others write to it."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.core.table import TableSpec
from dbcheck.engines.link import Link
from dbcheck.ports.engine import KeyRead


class Newest:
    """See ports.engine.NewestRows."""

    def __init__(self, link: Link, table: TableSpec, epoch: int) -> None:
        """Take over *link*."""
        self._link, self._epoch = link, epoch
        self._statement = f"newest_{table.name}"

    def read(self, after_id: int) -> Sequence[KeyRead]:
        wanted = {"after": after_id, "epoch": self._epoch}
        try:
            found = self._link.rows(self._statement, wanted)
            return [KeyRead(*map(int, values)) for values in reversed(found)]
        except BaseException as error:
            self._link.abandon(error)
            raise

    def sever(self) -> None:
        self._link.sever()

    def close(self) -> None:
        self._link.close()
