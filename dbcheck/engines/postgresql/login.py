"""A login by libpq, which prints nothing, and is left when it takes too long.

While libpq computes what a server asks for it looks at no clock, no signal and no
connection: SCRAM has the server name the number of steps (RFC 5802, 5.1, "i="), and
libpq takes up to 2^31 - 1 of them (PostgreSQL 17, fe-auth-scram.c), half an hour on one
core.  A thread that does so cannot be ended, and the process ends without waiting for
it (interrupt.leave).  While one is left, no other login to its server begins.  Those
that had begun by then may be left as well: each process of a load begins up to 16 at
once (load.loop).

Until a connection stands, libpq writes a server's notices to C's stderr (PostgreSQL 17
manual, 34.13, Notice Processing), and psycopg2 takes them over only then.  A hostile
server could so send control sequences to a terminal.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import psycopg

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.deadline import StillRunning, interruptible

T = TypeVar("T")
# For all of a login: libpq's limit is for each host, and none is the drivers' for what
# they ask a server then, e.g. psycopg2 one whose dates are not of the form ISO.
LOGIN_S = 60.0
GRACE_S = 5.0  # after it was severed
_HINT = (
    "Check what answers at that address. If it is your server, look at its"
    " scram_iterations when the account's password was set: 4096 are usual."
)
_left: dict[str, threading.Thread] = {}


def silence() -> None:
    """Let C's stderr lead nowhere; Python's own, and that of children, stay.

    A fatal error of the interpreter itself is not shown any more either.

    The GNU C library has it as a variable that may be set (its manual, 12.2, Standard
    Streams).  With another one, such as musl, nothing is changed.
    """
    if not _is_glibc():
        return
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    nowhere = libc.fopen(os.devnull.encode(), b"we")
    if nowhere:
        ctypes.c_void_p.in_dll(libc, "stderr").value = nowhere


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (ValueError, OSError):  # not known there
        return False


def login(
    target: str, connect: Callable[[], T], sever: Callable[[], None], limit_s: float
) -> T:
    """Return what *connect* returns, raise what it raises; leave it after limit_s.

    target: how error messages name the server.  sever: see interruptible().
    Raise EngineError if it was left, and as long as an earlier one of that server was.
    """
    left = _left.get(target)
    if left is not None and left.is_alive():
        raise _endless(target, "an earlier login to it has not ended")
    try:
        return interruptible(connect, sever, limit_s + GRACE_S)
    except StillRunning as error:
        _left[target] = error.thread
        raise _endless(
            target, f"it did not end its login within {limit_s:g} s"
        ) from None


def new_session(
    target: str, arguments: Mapping[str, Any], connect_s: float
) -> psycopg.Connection:
    """Return a connection in autocommit mode; raise psycopg.Error, and as login() does.

    connect_s: within which each host of the URL must answer.
    """
    left = threading.Event()

    def connect() -> psycopg.Connection:
        options = {**arguments, "connect_timeout": connect_s}
        made = psycopg.connect(**options, autocommit=True)
        if left.is_set():
            made.close()
        return made

    return login(target, connect, left.set, connect_s + LOGIN_S)


def _endless(target: str, why: str) -> EngineError:
    return EngineError(
        f"cannot connect to {target}: {why}",
        id=ErrorId.SERVER_NOT_ANSWERING,
        hint=_HINT,
    )
