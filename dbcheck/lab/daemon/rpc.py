"""How a lab's daemon is spoken to: one JSON line in, one out, over a unix socket."""

from __future__ import annotations

import json
import logging
import selectors
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dbcheck.errors import DbcheckError, LabError

log = logging.getLogger(__name__)

Answer = Callable[[str, Mapping[str, Any]], Any]

_REQUEST_BYTES_MAX = 1 << 16
_CONNECTIONS_MAX = 32
_BACKLOG = 512  # beyond it, a client that sets a timeout is refused at once
_REPLY_TIMEOUT_S = 5.0


class Ended(Exception):
    """Raised by an answer: reply that all is well, then serve no more."""


def ask(path: Path, command: str, *, timeout_s: float, **fields: object) -> Any:
    """Send one request and return the answer.

    Raise LabError if the daemon cannot be reached, does not answer within
    timeout_s seconds, or answers that the request failed.
    """
    request = json.dumps({**fields, "command": command}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(request)
            with connection.makefile("rb") as stream:
                line = stream.readline()
    except TimeoutError:
        raise LabError(
            f"the lab did not answer {command!r} within {timeout_s:g} s",
            hint="End the lab with `dbcheck lab down`.",
        ) from None
    except OSError as error:
        raise LabError(
            f"the lab's daemon cannot be reached: {error.strerror}",
            hint="`dbcheck lab down` removes what a dead lab has left.",
        ) from None
    if not line:
        raise LabError(f"the lab's daemon ended while it was asked for {command!r}")
    if not line.endswith(b"\n"):
        raise LabError(
            f"the lab's daemon ended in the midst of its answer to {command!r}"
        )
    return _answer_in(line, command)


def _answer_in(line: bytes, command: str) -> Any:
    """Return what the daemon's whole reply says; raise the LabError that it tells."""
    reply: object
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        reply = None
    match reply:
        case {"error": str(message), "hint": str(hint)}:
            raise LabError(message, hint=hint)
        case {"ok": answer}:
            return answer
    raise LabError(
        f"what answers {command!r} is no daemon of this version's labs",
        hint="Take the lab down with the dbcheck that started it.",
    )


def failure(error: DbcheckError) -> dict[str, str]:
    """Return *error* as a reply."""
    return {"error": str(error), "hint": error.hint}


class ControlSocket:
    """The daemon's end: serves one request at a time, each on its own connection.

    A connection that sends nothing holds nobody up.
    """

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._heard: dict[socket.socket, bytes] = {}

    def serve(self, answer: Answer) -> None:
        """Answer requests until an answer raises Ended."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and self._hear(
                    key.fileobj, answer
                ):
                    return

    def close(self) -> None:
        """Drop all connections and stop listening."""
        for connection in list(self._heard):
            self._drop(connection)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        if len(self._heard) >= _CONNECTIONS_MAX:
            self._drop(next(iter(self._heard)))
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:  # the client has given up already
            return
        connection.setblocking(False)
        self._heard[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ)

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._heard[connection]
        connection.close()

    def _hear(self, connection: socket.socket, answer: Answer) -> bool:
        """Read what came; answer if the request is whole; say whether to end."""
        if connection not in self._heard:  # dropped earlier in the same round
            return False
        try:
            data = connection.recv(_REQUEST_BYTES_MAX)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        heard = self._heard[connection] + data
        self._heard[connection] = heard
        if not data or len(heard) > _REQUEST_BYTES_MAX:
            self._drop(connection)
        elif heard.endswith(b"\n"):
            reply, ended = _reply(heard, answer)
            try:
                connection.settimeout(_REPLY_TIMEOUT_S)
                connection.sendall(json.dumps(reply).encode() + b"\n")
            except OSError as error:
                log.warning("a client did not take its reply: %s", error)
            self._drop(connection)
            return ended
        return False


def _reply(request: bytes, answer: Answer) -> tuple[dict[str, Any], bool]:
    try:
        fields = json.loads(request)
        return {"ok": answer(fields.pop("command"), fields)}, False
    except Ended:
        return {"ok": None}, True
    except DbcheckError as error:
        return failure(error), False
    except Exception as error:
        # A fault of ours must reach the client too, and must not end the lab.
        log.exception("request failed")
        return failure(LabError(f"the lab's daemon failed: {error!r}")), False
