"""Answers of servers that cannot run here, as their documents or users show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError

Rows = Sequence[tuple[Any, ...]]


class RecordedLink:
    """A connection that answers each statement with what was recorded, or refuses it.

    A statement of which nothing was recorded is one that such a server refuses.
    """

    def __init__(self, answers: Mapping[str, Rows]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def rows(self, statement: str, *_: object, **__: object) -> Rows:
        """Return the rows that were recorded."""
        self.asked.append(statement)
        if statement not in self._answers:
            raise EngineError(f"refused: {statement}", id=ErrorId.STATEMENT_FAILED)
        return self._answers[statement]

    def row(self, statement: str, *_: object) -> tuple[Any, ...]:
        """Return the one row that was recorded."""
        (found,) = self.rows(statement)
        return found
