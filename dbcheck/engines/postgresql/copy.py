"""A COPY out of a table, as batches of messages.

psycopg2 pushes each message to a file; a thread of its own turns that round.  It and
the reader take turns: both need the interpreter's lock, and fighting for it at every
message takes longer than what they could do at once.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Self

import psycopg2.extensions

BATCH_BYTES = 2 << 20

Messages = list[bytes]


class _Stopped(Exception):
    """Nobody wants the rest."""


class Copy:
    """A running COPY; a context manager that ends it, and its connection if need be."""

    def __init__(
        self,
        connection: psycopg2.extensions.connection,
        statement: str,
        sever: Callable[[], None],
    ) -> None:
        """Begin *statement*.  sever: break the connection, from another thread."""
        self._connection, self._statement, self._sever = connection, statement, sever
        self._batches: queue.SimpleQueue[Messages | BaseException]
        self._batches = queue.SimpleQueue()
        self._wanted = threading.Semaphore(0)
        self._messages: Messages = []
        self._room = BATCH_BYTES
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        if self._thread.is_alive():
            self._sever()
        self._wanted.release()
        self._thread.join()

    def read(self) -> Messages:
        """Return the next messages, [] at the end.

        Their bytes exceed BATCH_BYTES by the last message at most.  Raise
        psycopg2.Error if the COPY failed.  Not to be called again after the end.
        """
        self._wanted.release()
        found = self._batches.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def write(self, message: bytes) -> None:
        """Take a message; psycopg2 calls this, in the thread."""
        self._messages.append(message)
        self._room -= len(message)
        if self._room <= 0:
            self._hand_over()

    def _hand_over(self) -> None:
        self._batches.put(self._messages)
        self._messages = []
        self._room = BATCH_BYTES
        self._await_turn()

    def _await_turn(self) -> None:
        self._wanted.acquire()
        if self._stopped:
            raise _Stopped

    def _run(self) -> None:
        try:
            self._await_turn()
            with self._connection.cursor() as cursor:
                cursor.copy_expert(self._statement, self)
            if self._messages:
                self._hand_over()
            self._batches.put([])
        except _Stopped:
            pass
        except BaseException as error:
            self._batches.put(error)
