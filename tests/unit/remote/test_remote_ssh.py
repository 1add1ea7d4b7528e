"""A pipe over SSH whose connection ends at the worst moment; paramiko's is a fake."""

from __future__ import annotations

from typing import Any

import paramiko
import pytest

from dbcheck.remote.ssh import SshPipe


class Broken:
    """A channel whose connection ends while a message is being written."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def settimeout(self, timeout_s: float | None) -> None:
        """Take it."""

    def fail(self, *_: object) -> Any:
        raise self._error

    send = recv = recv_stderr = shutdown_write = close = fail


@pytest.mark.parametrize("error", [EOFError(), paramiko.SSHException("rekeying")])
def test_a_connection_that_ends_is_an_os_error(error: Exception) -> None:
    channel: Any = Broken(error)
    pipe = SshPipe(channel)
    for call in (lambda: pipe.send(b"x"), lambda: pipe.receive(1), pipe.finish):
        with pytest.raises(BrokenPipeError, match="the connection ended|rekeying"):
            call()
    assert pipe.stderr_text() == ""
    pipe.close()


def test_what_takes_too_long_is_told_as_that() -> None:
    channel: Any = Broken(TimeoutError())
    with pytest.raises(TimeoutError):
        SshPipe(channel).receive(1)
