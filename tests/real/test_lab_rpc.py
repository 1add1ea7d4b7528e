"""Requests to a lab's daemon: answered one by one, whatever clients do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any

import msgspec
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.base.local import Channel
from dbcheck.lab.daemon import rpc
from dbcheck.lab.daemon.requests import (
    ANY,
    Configure,
    Down,
    Log,
    Rejoin,
    Request,
    SetDrive,
    Show,
)
from dbcheck.lab.daemon.requests import Status as Refused
from dbcheck.lab.daemon.requests import Thaw as Stumbles
from dbcheck.lab.daemon.rpc import Ended, RequestServer, ask
from dbcheck.lab.reply import NotUnderstood, result_in

_ECHO = Log(7)


def _answer(request: Request) -> object:
    match request:
        case Down():
            raise Ended
        case Refused():
            raise LabError("no", id=ErrorId.LAB_DAEMON_FAILED, hint="Do not ask.")
        case Stumbles():
            raise ZeroDivisionError
    return request


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "control"
    served = RequestServer(path)
    thread = threading.Thread(target=served.serve, args=(_answer,))
    thread.start()
    yield path
    if thread.is_alive():
        ask(path, Down(), NoneType, timeout_s=5)
    thread.join()
    served.close()


def echo(path: Path, request: Request = _ECHO) -> Request:
    """Ask for the request itself."""
    return ask(path, request, type(request), timeout_s=5)


@pytest.mark.parametrize(
    "request_", [_ECHO, SetDrive(flush_ms=0.5, seed=0), Configure({"fsync": "off"})]
)
def test_a_request_is_answered(path: Path, request_: Request) -> None:
    assert echo(path, request_) == request_


def test_what_is_not_to_change_is_not_sent() -> None:
    assert SetDrive(seed=0).changes() == {"seed": 0}


def test_every_request_can_be_sent() -> None:
    for kind in Request.__subclasses__():
        values: dict[type, Any] = {Configure: ({},), Log: (1,), Show: ([],)}
        values[Rejoin] = (1, "password", "member")
        one = kind(*values.get(kind, ()))
        assert msgspec.json.decode(msgspec.json.encode(one), type=ANY) == one


def test_an_expected_failure_arrives_with_its_hint(path: Path) -> None:
    with pytest.raises(LabError, match="^no$") as caught:
        ask(path, Refused(), NoneType, timeout_s=5)
    assert caught.value.hint == "Do not ask."


def test_a_fault_of_the_daemon_arrives_and_does_not_end_it(path: Path) -> None:
    with pytest.raises(LabError, match="ZeroDivisionError"):
        ask(path, Stumbles(), NoneType, timeout_s=5)
    assert echo(path)


def test_an_answer_of_another_kind_is_a_lab_error(path: Path) -> None:
    with pytest.raises(LabError, match="an invalid reply to 'log'"):
        ask(path, _ECHO, str, timeout_s=5)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(b"", "truncated", id="empty"),
        pytest.param(b"[]", "Expected `object`", id="no object"),
        pytest.param(b'{"type": "spin"}', "Invalid value 'spin'", id="unknown"),
        pytest.param(
            b'{"type": "log", "lines": "all"}', "Expected `int`", id="another type"
        ),
        pytest.param(
            b'{"type": "cut", "now": 1}', "unknown field `now`", id="another field"
        ),
        pytest.param(b"[" * 90_000, "does not understand the request", id="too deep"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    path: Path, asked: bytes, said: str
) -> None:
    with Channel.to(path, 5) as client:
        client.send(asked, 5)
        reply = msgspec.json.decode(client.receive(5))
    assert said in reply["error"]
    assert "another version" in reply["hint"]
    assert echo(path)


@pytest.mark.parametrize("message", [b'{"no": 1}', b"null", b'{"ok": 1}'])
def test_only_a_reply_is_a_result(message: bytes) -> None:
    assert result_in(b'{"ok": null}', NoneType) is None
    with pytest.raises(NotUnderstood):
        result_in(message, NoneType)


@pytest.mark.parametrize("garbage", [b"", b"\0", b"{", b'{"a": 1}\n', b"\xff" * 70000])
def test_a_client_of_another_kind_holds_nobody_up(path: Path, garbage: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.connect(str(path))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stale.sendall(garbage)
            stale.shutdown(socket.SHUT_WR)
        assert echo(path)


def test_a_client_that_stops_in_its_request_is_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "_CLIENT_S", 0.01)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.connect(str(path))
        stale.sendall(b"\0\0\0\7{")
        assert echo(path)
        assert stale.recv(1) == b""


def test_many_silent_clients_hold_nobody_up(path: Path) -> None:
    with contextlib.ExitStack() as stale:
        for _ in range(100):
            client = stale.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(path))
        assert echo(path)


def test_a_client_that_takes_no_reply_holds_nobody_up(path: Path) -> None:
    with Channel.to(path, 5) as hasty:
        hasty.send(msgspec.json.encode(_ECHO))
    assert echo(path)


def test_nobody_there_is_a_lab_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot reach"):
        echo(tmp_path / "control")


def test_no_answer_in_time_is_a_lab_error(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "control"))
        deaf.listen()
        with pytest.raises(LabError, match=r"'log' within 0\.01 s"):
            ask(tmp_path / "control", _ECHO, Log, timeout_s=0.01)


def framed(message: bytes) -> bytes:
    """Return a message as it goes over the socket."""
    return len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        pytest.param(b"", "ended before it answered", id="none"),
        pytest.param(framed(b'{"ok"')[:-1], "ended before it", id="torn"),
        pytest.param(b'{"ok": null}\n', "an invalid reply", id="an older one"),
        pytest.param(framed(b"7"), "an invalid reply", id="no object"),
        pytest.param(framed(b'{"no": 1}'), "an invalid reply", id="another object"),
        pytest.param(framed(b"[" * 90_000), "an invalid reply", id="too deep"),
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
                echo(tmp_path / "control")
        finally:
            thread.join()
