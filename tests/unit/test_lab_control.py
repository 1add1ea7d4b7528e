"""Requests to a lab's daemon: answered one by one, whatever clients do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dbcheck.errors import LabError
from dbcheck.lab.daemon.rpc import ControlSocket, Ended, ask


def _answer(command: str, fields: Mapping[str, Any]) -> object:
    if command == "down":
        raise Ended
    if command == "refuse":
        raise LabError("no", hint="Do not ask.")
    if command == "stumble":
        raise ZeroDivisionError
    return {"command": command, **fields}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "control"
    served = ControlSocket(path)
    thread = threading.Thread(target=served.serve, args=(_answer,))
    thread.start()
    yield path
    if thread.is_alive():
        ask(path, "down", timeout_s=5)
    thread.join()
    served.close()


def test_a_request_is_answered(path: Path) -> None:
    assert ask(path, "echo", timeout_s=5, a=1) == {"command": "echo", "a": 1}


def test_an_expected_failure_arrives_with_its_hint(path: Path) -> None:
    with pytest.raises(LabError, match="^no$") as caught:
        ask(path, "refuse", timeout_s=5)
    assert caught.value.hint == "Do not ask."


def test_a_fault_of_the_daemon_arrives_and_does_not_end_it(path: Path) -> None:
    with pytest.raises(LabError, match="ZeroDivisionError"):
        ask(path, "stumble", timeout_s=5)
    assert ask(path, "echo", timeout_s=5)


@pytest.mark.parametrize("garbage", [b"", b"{", b"no json\n", b"[]\n", b"\xff" * 70000])
def test_a_client_that_makes_no_sense_holds_nobody_up(
    path: Path, garbage: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.connect(str(path))
        stale.sendall(garbage)
        assert ask(path, "echo", timeout_s=5)


def test_many_silent_clients_hold_nobody_up(path: Path) -> None:
    with contextlib.ExitStack() as stale:
        for _ in range(100):
            client = stale.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(path))
        assert ask(path, "echo", timeout_s=5)


def test_a_client_that_takes_no_reply_holds_nobody_up(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hasty:
        hasty.connect(str(path))
        hasty.sendall(b'{"command": "echo"}\n')
    assert ask(path, "echo", timeout_s=5)


def test_nobody_there_is_a_lab_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot be reached"):
        ask(tmp_path / "control", "echo", timeout_s=5)


def test_no_answer_in_time_is_a_lab_error(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "control"))
        deaf.listen()
        with pytest.raises(LabError, match=r"'echo' within 0\.01 s"):
            ask(tmp_path / "control", "echo", timeout_s=0.01)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        pytest.param(b"", "ended while it was asked", id="none"),
        pytest.param(b'{"ok": nu', "in the midst of its answer", id="torn"),
        pytest.param(b"7\n", "no daemon of this version", id="no object"),
        pytest.param(b'{"error": "no"}\n', "no daemon of this version", id="no hint"),
        pytest.param(b"[" * 90_000 + b"\n", "no daemon of this version", id="too deep"),
    ],
)
def test_a_reply_that_makes_no_sense_is_a_lab_error(
    tmp_path: Path, reply: bytes, said: str
) -> None:
    def answer(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client:
            client.recv(1 << 16)
            client.sendall(reply)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control"))
        listener.listen()
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        try:
            with pytest.raises(LabError, match=said):
                ask(tmp_path / "control", "echo", timeout_s=5)
        finally:
            thread.join()
