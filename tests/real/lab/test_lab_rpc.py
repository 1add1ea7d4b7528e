"""Requests to a lab's daemon: answered one by one, whatever clients do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.base.processes import Channel
from dbcheck.lab.calls import (
    Callee,
    NotUnderstood,
    decode_result_as,
    encode_call,
    remote,
)
from dbcheck.lab.daemon import rpc
from dbcheck.lab.daemon.interface import LabCalls
from dbcheck.lab.daemon.rpc import Ended, RequestServer, call
from tests.kit.refusals import refused


class Asked:
    """Stands for a lab."""

    @remote(5)
    def log(self, lines: int = 7) -> int:
        return lines

    @remote(5)
    def echo(self, values: dict[str, Any]) -> dict[str, Any]:
        return values

    @remote(5)
    def cut(self) -> None:
        """Do nothing."""

    @remote(5)
    def refused(self) -> None:
        raise LabError("no", id=ErrorId.LAB_DAEMON_FAILED, hint="Do not ask.")

    @remote(5)
    def stumbles(self) -> None:
        raise ZeroDivisionError

    @remote(5)
    def other(self) -> str:
        return 7  # type: ignore[return-value]

    @remote(5)
    def down(self) -> None:
        raise Ended

    def private(self) -> None:
        """Not to be called from elsewhere."""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "control"
    served = RequestServer(path)
    thread = threading.Thread(target=served.serve, args=(Callee(Asked, Asked()),))
    thread.start()
    yield path
    if thread.is_alive():
        call(path, Asked.down)
    thread.join()
    served.close()


def echo(path: Path) -> int:
    """Ask for what is sent."""
    return call(path, Asked.log, 7)


@pytest.mark.parametrize(
    "values", [{}, {"flush_ms": 0.5, "seed": 0}, {"fsync": "off"}, {"a": [1, None]}]
)
def test_a_call_is_answered(path: Path, values: dict[str, Any]) -> None:
    assert call(path, Asked.echo, values) == values


def test_a_value_may_be_left_out_or_named(path: Path) -> None:
    assert call(path, Asked.log) == 7
    assert call(path, Asked.log, lines=8) == 8


def test_every_call_of_a_lab_arrives() -> None:
    source = {"port": 1, "password": "pw", "member": "node1", "host": "10.0.1.2"}
    values: dict[str, dict[str, Any]] = {
        "configure": {"settings": {}},
        "log": {"lines": 1},
        "show": {"states": [(1, [(2, 3, 4)])], "start": False},
        "rejoin": source,
        "copy": source,
        "reassign": {"settings": {}, "is_writer": True},
        "set_drive": {"changes": {"seed": 1}},
        "restore": {"image": "file"},
        "prepare_copies": {"method": "dump"},
        "take_copy": {"name": "one"},
        "restore_copy": {"name": "one", "point": ""},
        "remove_copy": {"name": "one"},
    }
    target = MagicMock(spec_set=LabCalls)
    callee = Callee(LabCalls, target)
    methods = [each for name, each in vars(LabCalls).items() if name[0] != "_"]
    assert len(methods) > len(values)
    for method in methods:
        given = values.get(method.__name__, {})
        name, called = callee.call_in(encode_call(method, *given.values()))
        called()
        assert name == method.__name__
        received = getattr(target, name).call_args.kwargs
        assert {**received, **given} == received


def test_an_expected_failure_arrives_with_its_hint(path: Path) -> None:
    with refused(ErrorId.LAB_DAEMON_FAILED, LabError) as caught:
        call(path, Asked.refused)
    assert (str(caught.value), caught.value.hint) == ("no", "Do not ask.")


def test_a_fault_of_the_daemon_arrives_and_does_not_end_it(path: Path) -> None:
    with refused(ErrorId.LAB_DAEMON_FAILED, LabError, naming="ZeroDivisionError"):
        call(path, Asked.stumbles)
    assert echo(path)


def test_an_answer_of_another_kind_is_a_lab_error(path: Path) -> None:
    with refused(ErrorId.LAB_OF_OTHER_VERSION, LabError, naming="other"):
        call(path, Asked.other)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(b"", "truncated", id="empty"),
        pytest.param(b"[]", "Expected `object`", id="no object"),
        pytest.param(b'{"method": "spin"}', "nothing is called 'spin'", id="unknown"),
        pytest.param(b'{"method": "private"}', "is called 'private'", id="not marked"),
        pytest.param(
            b'{"method": "log", "values": {"lines": "all"}}',
            "Expected `int`",
            id="another type",
        ),
        pytest.param(
            b'{"method": "cut", "values": {"now": 1}}',
            "unknown field `now`",
            id="another field",
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
    assert decode_result_as(b'{"ok": null}', NoneType) is None
    with pytest.raises(NotUnderstood):
        decode_result_as(message, NoneType)


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
        hasty.send(encode_call(Asked.log))
    assert echo(path)


def test_nobody_there_is_a_lab_error(tmp_path: Path) -> None:
    with refused(ErrorId.LAB_DAEMON_GONE, LabError, naming="cannot reach"):
        echo(tmp_path / "control")


class Hasty:
    @remote(0.01)
    def hasty(self) -> None:
        """Be asked, and do not answer."""


def test_no_answer_in_time_is_a_lab_error(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "control"))
        deaf.listen()
        with refused(ErrorId.LAB_NOT_ANSWERING, LabError, naming=("hasty", "0.01")):
            call(tmp_path / "control", Hasty.hasty)


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
