"""What a connection is, whichever the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

ANSWER_S = 30.0  # a catalogue query on a server that works
SCAN_S = 3600.0  # a scan of a whole table


def one_line(error: BaseException, secret: str) -> str:
    """Return the message of *error* on one line, without the password."""
    text = "; ".join(line.strip() for line in str(error).splitlines() if line)
    text = text or type(error).__name__
    return text.replace(secret, "***") if secret else text


class Link(ABC):
    """A connection in autocommit mode; a context manager that closes it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def rows(
        self,
        statement: str,
        parameters: Mapping[str, object] | None = None,
        *,
        answer_s: float = ANSWER_S,
    ) -> list[tuple[Any, ...]]:
        """Run sql/FAMILY/STATEMENT.sql and return its rows, if it has any.

        Raise EngineError if the server refuses it or is silent for answer_s.
        """

    def row(
        self, statement: str, parameters: Mapping[str, object] | None = None
    ) -> tuple[Any, ...]:
        """Return the one row of a statement that always has one."""
        (found,) = self.rows(statement, parameters)
        return found

    @abstractmethod
    def close(self) -> None:
        """End the connection; never raises."""
