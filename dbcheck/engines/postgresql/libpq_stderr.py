"""Keeps libpq from printing a server's messages.

Until a connection stands, libpq writes a server's notices to C's stderr (PostgreSQL 17
manual, 34.13, Notice Processing), and psycopg2 takes them over only then.  A hostile
server could so send control sequences to a terminal.
"""

from __future__ import annotations

import ctypes
import os


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
