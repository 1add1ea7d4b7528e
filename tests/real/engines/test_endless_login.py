"""Servers that have libpq compute for an hour at the login: each is left, cleanly.

libpq looks at no clock and at no signal while it computes what SCRAM asks for, so a
thread is still in it when the process ends.
"""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import struct
import subprocess
from collections.abc import Iterator

import pytest

from dbcheck.base import processes
from tests.kit.hostile import PgPeer, hostile

AT_ONCE = 4  # an end within libpq's own end crashes about every second time
ITERATIONS = (1 << 31) - 1  # the most that libpq takes: half an hour

# Of the ten seconds in which a connection must be made one is left.
IMPATIENT = """
from dbcheck.engines.postgresql import libpq
libpq.LOGIN_S, libpq.GRACE_S = -9.0, 0.2
from dbcheck import cli
"""
AUDIT = IMPATIENT + "cli.main()"
# The load's sessions log in by the other driver: a server may have let the first in.
SESSION = (
    IMPATIENT
    + """
import sys
from dbcheck.cli import root
from dbcheck.cli.say import say_error
from dbcheck.engines.postgresql.session import PostgresqlSession
from dbcheck.base.errors import EngineError
from dbcheck.rows.plans.plan import INSERT
given = {"host": "127.0.0.1", "port": sys.argv[1], "user": "eve", "password": "pw"}
def run():
    for _ in range(2):
        try:
            PostgresqlSession("db1", given, (INSERT,))
        except EngineError as error:
            say_error(error)
    return 4
root.run = run
cli.main()
"""
)


def computes(client: socket.socket) -> None:
    """Ask for as many steps of SCRAM as the protocol allows."""
    with contextlib.closing(PgPeer(client)) as peer:
        peer.start()
        peer.send((b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0"))
        nonce = peer.receive()[1].partition(b"r=")[2]
        salt = base64.b64encode(bytes(16))
        first = b"r=%sx,s=%s,i=%d" % (nonce, salt, ITERATIONS)
        peer.send((b"R", struct.pack("!i", 11) + first))
        peer.receive()


@pytest.fixture
def port() -> Iterator[int]:
    with hostile(computes, at_once=AT_ONCE) as found:
        yield found


def ended(code: str, *words: str) -> tuple[list[int], list[str]]:
    """Run this at once, a few times; return the exit codes, and what was said."""
    started = [
        subprocess.Popen(
            [processes.PYTHON, "-c", code, *words],
            env={**os.environ, "DBCHECK_PASSWORD": "pw", "COLUMNS": "400"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(AT_ONCE)
    ]
    said = [child.communicate(timeout=120)[0] for child in started]
    return [child.returncode for child in started], said


def test_a_command_ends_with_its_exit_code_while_libpq_computes(port: int) -> None:
    codes, said = ended(
        AUDIT, "audit", "--target", f"postgresql://eve@127.0.0.1:{port}/d"
    )
    assert codes == [4] * AT_ONCE, said
    for text in said:
        assert "did not end its login within 1 s" in text
        assert "scram_iterations" in text


def test_a_session_of_the_load_is_left_and_no_second_one_is_begun(port: int) -> None:
    codes, said = ended(SESSION, str(port))
    assert codes == [4] * AT_ONCE, said
    for text in said:
        assert text.count("did not end its login within 1 s") == 1
        assert text.count("an earlier login to it has not ended") == 1
