"""Real engines whose sessions do what no session must."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from dbcheck.engines.postgresql.session import PostgresqlSession
from dbcheck.ports.connection import Session
from dbcheck.ports.engine import Engine
from dbcheck.rows.operation import Operation, StatementSpec
from tests.kit.sessions import run_on

Change = Callable[[Any], Session]


class _Wrapped:
    def __init__(self, engine: Engine, change: Change) -> None:
        self._engine, self._change = engine, change

    def open_session(
        self, statements: Sequence[StatementSpec], **options: Any
    ) -> Session:
        return self._change(self._engine.open_session(statements, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def wrapped(engine: Engine, change: Change) -> Engine:
    """Return *engine* with each session that it opens changed."""
    return cast(Engine, _Wrapped(engine, change))


class Changed:
    """A session that can be made to do something else."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._answer: int | None = None
        self._alarm = os.eventfd(0)
        self._either = select.epoll()  # what it waits for, as one descriptor
        self._either.register(self._alarm, select.EPOLLIN)
        self._either.register(session.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._either.fileno()

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        """Send *operation* as it must be."""
        sent: bool = self.session.send(operation, look=look)
        return sent

    def settings(self) -> Mapping[str, str]:
        """Return what the session found."""
        found: Mapping[str, str] = self.session.settings()
        return found

    def flush(self) -> bool:
        """Send what is left."""
        sent: bool = self.session.flush()
        return sent

    def receive(self) -> int | None:
        """Return what answer() was given, or what the session received."""
        if self._answer is None:
            received: int | None = self.session.receive()
            return received
        os.eventfd_read(self._alarm)
        answer, self._answer = self._answer, None
        return answer

    def answer(self, row_id: int) -> None:
        """Have the session receive this."""
        self._answer = row_id
        os.eventfd_write(self._alarm, 1)

    def close(self) -> None:
        """End the connection."""
        self.session.close()
        self._either.close()
        os.close(self._alarm)


class LeavesOpen(Changed):
    """Commits nothing, as a driver would for which autocommit is off."""

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        """Send *operation* in a transaction that is open."""
        run_on(self.session, "begin")
        return super().send(operation, look=look)


class RollsBack(Changed):
    """Rolls one operation back and yet answers with its id."""

    def __init__(self, session: Any, number: int, seq: int) -> None:
        super().__init__(session)
        self._key = (number, seq)

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        """Send *operation*, or only seem to."""
        if (operation.session, operation.seq) != self._key:
            return super().send(operation, look=look)
        (statement,) = operation.statements
        run_on(self.session, "begin")
        ((row_id,),) = run_on(self.session, _insert(self.session), *statement.values)
        run_on(self.session, "rollback")
        self.answer(row_id)
        return True


class Meanwhile(Changed):
    """Has something else done first when one operation is to be sent."""

    def __init__(
        self, session: Any, number: int, seq: int, do: Callable[[], None]
    ) -> None:
        super().__init__(session)
        self._key, self._do = (number, seq), do

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        """Send *operation*, perhaps after the other thing."""
        if (operation.session, operation.seq) == self._key:
            self._do()
        return super().send(operation, look=look)


def _insert(session: Any) -> str:
    is_postgresql = isinstance(session, PostgresqlSession)
    table = "dbcheck.ledger" if is_postgresql else "ledger"
    return (
        f"insert into {table} (epoch, session, seq, part, payload, checksum)"
        " values (%s, %s, %s, %s, %s, %s)" + " returning id" * is_postgresql
    )


class Stalls(Changed):
    """Sends nothing after *seq* operations, though it is asked to."""

    def __init__(self, session: Any, seq: int) -> None:
        super().__init__(session)
        self._seq = seq

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        """Send *operation*, or do nothing."""
        is_skipped = operation.seq > self._seq and operation.session != 0
        return is_skipped or super().send(operation, look=look)
