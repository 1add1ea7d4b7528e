"""The host's agent ends a process while it is held (agent/host/servers.py)."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from dbcheck.agent.host import servers

NO_SUCH_CALL = 100_000  # the kernel answers ENOSYS, as Linux before 5.3 does


@pytest.fixture(params=[servers.PIDFD_OPEN, NO_SUCH_CALL])
def process(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[subprocess.Popen[bytes]]:
    monkeypatch.setattr(servers, "PIDFD_OPEN", request.param)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        yield started


def test_the_process_that_is_meant_is_ended(process: subprocess.Popen[bytes]) -> None:
    looked_at: list[int] = []

    def is_meant(pid: int) -> bool:
        looked_at.append(pid)
        return True

    servers.kill_if_meant(process.pid, is_meant)
    assert process.wait() == -signal.SIGKILL
    assert looked_at == [process.pid]
    servers.kill_if_meant(process.pid, is_meant)  # it is gone


def test_another_process_lives_on(process: subprocess.Popen[bytes]) -> None:
    servers.kill_if_meant(process.pid, lambda pid: False)
    process.communicate()  # ends its input
    assert process.returncode == 0
