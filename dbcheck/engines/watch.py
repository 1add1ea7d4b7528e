"""A connection that asks the same again and again while others work on the server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from dbcheck.engines.link import Link


class Watch:
    """Takes over a link; another thread can end a question by sever()."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def _rows(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        with self._abandoning():
            return self._link.rows(statement, parameters)

    @contextlib.contextmanager
    def _abandoning(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._link.abandon(error)
            raise

    def sever(self) -> None:
        """End a question of another thread, which then raises; never raises."""
        self._link.sever()

    def close(self) -> None:
        """End the connection; never raises."""
        self._link.close()
