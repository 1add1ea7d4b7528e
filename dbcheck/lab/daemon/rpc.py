"""Calls of a lab's daemon, each over a connection of its own."""

from __future__ import annotations

import logging
import selectors
import socket
from pathlib import Path
from typing import ParamSpec, TypeVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, LabError
from dbcheck.base.processes import Channel, NotAMessage
from dbcheck.lab.calls import (
    Callee,
    Method,
    NotUnderstood,
    decode_result,
    encode_call,
    encode_failure,
    encode_success,
    time_limit_s,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

_CLIENTS_MAX = 32
_BACKLOG = 512  # beyond it, a client that sets a timeout is refused at once
_CLIENT_S = 5.0  # a client that takes longer to send or to receive is dropped
_OTHER_VERSION_HINT = (
    "If another version of dbcheck started the lab, end it with that version."
)


class Ended(Exception):
    """A called method raises it: the server replies success, then serves no more."""


def call(path: Path, method: Method[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call a method of the daemon at *path* and return its result.

    Raise LabError if the daemon cannot be reached, does not answer within the limit
    of the method, or answers that the call failed.
    """
    name, timeout_s = method.__name__, time_limit_s(method)
    try:
        with Channel.to(path, timeout_s) as channel:
            channel.send(encode_call(method, *args, **named), timeout_s)
            message = channel.receive(timeout_s)
        return decode_result(method, message)
    except TimeoutError:
        raise LabError(
            f"the lab did not answer {name!r} within {timeout_s:g} s",
            id=ErrorId.LAB_NOT_ANSWERING,
            hint="End the lab with `dbcheck lab down`.",
        ) from None
    except OSError as error:
        raise LabError(
            f"cannot reach the lab's daemon: {error.strerror}",
            id=ErrorId.LAB_DAEMON_GONE,
            hint="`dbcheck lab down` removes what a dead lab left.",
        ) from None
    except EOFError:
        raise LabError(
            f"the lab's daemon ended before it answered {name!r}",
            id=ErrorId.LAB_DAEMON_GONE,
            hint="`dbcheck lab down` removes what a dead lab left.",
        ) from None
    except (NotAMessage, NotUnderstood):
        raise LabError(
            f"the lab's daemon gave an invalid reply to {name!r}",
            id=ErrorId.LAB_OF_OTHER_VERSION,
            hint=_OTHER_VERSION_HINT,
        ) from None


def answer_message(message: bytes, callee: Callee) -> tuple[bytes, bool]:
    """Return the reply to a message, and whether the daemon is to end."""
    try:
        name, called = callee.call_in(message)
    except NotUnderstood as error:
        text = f"the lab does not understand the request: {error}"
        return encode_failure(
            LabError(text, id=ErrorId.LAB_OF_OTHER_VERSION, hint=_OTHER_VERSION_HINT)
        ), False
    log.info("asked for %s", name)
    try:
        return encode_success(called()), False
    except Ended:
        return encode_success(None), True
    except DbcheckError as error:
        return encode_failure(error), False
    except Exception as error:
        # A defect of dbcheck must reach the client, too, and must not end the lab.
        log.exception("request failed")
        return encode_failure(describe_fault(error)), False


def describe_fault(error: Exception) -> LabError:
    """Return the error that tells a client of a defect of the daemon."""
    return LabError(
        f"the lab's daemon failed: {error!r}",
        id=ErrorId.LAB_DAEMON_FAILED,
        hint="Start a new lab; dbcheck lab down ends this one.",
    )


class RequestServer:
    """The daemon's end: serves one request at a time.

    A client that sends nothing does not delay the others.
    """

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(_BACKLOG)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._clients: list[Channel] = []

    def serve(self, callee: Callee) -> None:
        """Answer calls until one raises Ended."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data in self._clients and self._serve(key.data, callee):
                    return

    def close(self) -> None:
        """Drop all clients and stop listening."""
        for client in list(self._clients):
            self._drop(client)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        if len(self._clients) >= _CLIENTS_MAX:
            self._drop(self._clients[0])
        client = Channel(self._listener.accept()[0])
        self._clients.append(client)
        self._selector.register(client, selectors.EVENT_READ, client)

    def _drop(self, client: Channel) -> None:
        self._selector.unregister(client)
        self._clients.remove(client)
        client.close()

    def _serve(self, client: Channel, callee: Callee) -> bool:
        """Answer the request of *client*; return whether the daemon is to end."""
        is_end = False
        try:
            message = client.receive(_CLIENT_S)
            reply, is_end = answer_message(message, callee)
            client.send(reply, _CLIENT_S)
        except (OSError, EOFError, NotAMessage) as error:
            log.warning("a client was dropped: %r", error)
        self._drop(client)
        return is_end
