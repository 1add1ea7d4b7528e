"""The slow link of the benchmarks, before a real socket."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from dbcheck.lab.process import Process
from dbcheck.remote.address import SshOptions
from tests.kit.waiting import wait_until
from tools.bench.slow_link import SlowLink

_ROUND_TRIP_MS = 40.0
_SENT = bytes(range(256)) * 4096
_MAKER = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from dbcheck.remote.address import SshOptions
from tools.bench.slow_link import SlowLink
folder = Path(sys.argv[1])
lab = SimpleNamespace(
    witness_url="ssh://me@127.0.0.1:9/w", ssh=SshOptions(known_hosts=folder / "known")
)
with SlowLink(lab, 1.0, folder) as link:
    print(link._child.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def echo() -> Iterator[int]:
    """Send back what comes, on a port of its own; yield the port."""

    def answer() -> None:
        with contextlib.suppress(OSError):  # nobody came until the test was over
            connection, _ = listener.accept()
            with connection:
                while got := connection.recv(1 << 16):
                    connection.sendall(got)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def lab_at(port: int, folder: Path) -> Any:
    known = folder / "known"
    known.write_text(f"[127.0.0.1]:{port} ssh-ed25519 AAAA")
    url = f"ssh://me@127.0.0.1:{port}/w"
    return SimpleNamespace(witness_url=url, ssh=SshOptions(known_hosts=known))


def test_bytes_come_whole_in_order_and_no_sooner_than_a_round_trip(
    echo: int, tmp_path: Path
) -> None:
    with SlowLink(lab_at(echo, tmp_path), _ROUND_TRIP_MS, tmp_path) as link:
        port = urlsplit(link.url).port
        assert port not in (None, echo)
        assert link.ssh.known_hosts is not None
        assert link.ssh.known_hosts.read_text().startswith(f"[127.0.0.1]:{port} ")
        with socket.create_connection(("127.0.0.1", port)) as client:
            began = time.monotonic()
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            assert time.monotonic() - began >= _ROUND_TRIP_MS / 1e3
            sending = threading.Thread(target=client.sendall, args=(_SENT,))
            sending.start()
            back = b""
            while len(back) < len(_SENT):
                back += client.recv(1 << 16)
            sending.join()
            assert back == _SENT
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_relay_ends_with_its_maker(how: int, tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    maker = subprocess.Popen(
        [sys.executable, "-c", _MAKER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert maker.stdout is not None
    relay = Process.of(int(maker.stdout.readline()))
    assert relay is not None
    os.kill(maker.pid, how)
    maker.communicate()
    wait_until(lambda: not relay.alive(), "the relay ends")
