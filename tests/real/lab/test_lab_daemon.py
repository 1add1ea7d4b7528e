"""The daemon's own end, when its client is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.waiting import await_end

# A daemon whose main thread never comes back, or does as it is told.
_DAEMON = """
import os, signal, sys, time
from pathlib import Path
from dbcheck.lab.daemon import serve as daemon
from dbcheck.lab.state import LabRecord
daemon._ORDERLY_END_S = 0.1 if sys.argv[2] == "deaf" else 60
handler = signal.SIG_IGN if sys.argv[2] == "deaf" else daemon._exit
signal.signal(signal.SIGTERM, handler)
record = LabRecord(Path(sys.argv[3]))
lock = os.open(record.path / "lock", os.O_RDWR | os.O_CREAT)
daemon._start_watch(record, int(sys.argv[1]), lock)
time.sleep(600)
"""


@pytest.mark.parametrize(("ears", "status"), [("deaf", 1), ("obedient", 0)])
def test_a_daemon_ends_with_its_client(ears: str, status: int, tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as client:
        handle = os.pidfd_open(client.pid)
        words = [sys.executable, "-c", _DAEMON, str(handle), ears, str(tmp_path)]
        daemon = subprocess.Popen(words, pass_fds=[handle])
        os.close(handle)
    assert await_end(daemon) == status
