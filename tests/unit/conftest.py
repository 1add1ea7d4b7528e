"""A unit test starts no process and opens no way to another one."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

# As Python's table of audit events has them.
FORBIDDEN = frozenset(
    {
        "subprocess.Popen",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "socket.bind",
        "socket.connect",
    }
)
_seen: list[str] | None = None  # since a test began; None between tests


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _seen is None or event not in FORBIDDEN:
        return
    if event.startswith("socket.") and is_datagram(arguments[0]):
        return  # which sends nothing: the kernel says by which address it would
    _seen.append(f"{event} {arguments!r:.200}")


def is_datagram(candidate: object) -> bool:
    """Say whether *candidate* is a socket without connections."""
    return isinstance(candidate, socket.socket) and candidate.type is socket.SOCK_DGRAM


sys.addaudithook(_note)


@pytest.fixture(autouse=True)
def _pure() -> Iterator[None]:
    """Fail a test that starts a process, or binds or connects a socket."""
    global _seen
    _seen = []
    yield
    seen, _seen = _seen, None
    assert not seen, "this test belongs in tests/real"
