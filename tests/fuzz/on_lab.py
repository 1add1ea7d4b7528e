"""What the processes of a lab read from one another, see dbcheck.base.processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import msgspec

from dbcheck.base.errors import LabError
from dbcheck.base.processes import MESSAGE_BYTES_MAX, Channel, NotAMessage
from dbcheck.lab.calls import Callee, NotUnderstood, Reply, decode_result_as
from dbcheck.lab.daemon.interface import Description, LabCalls, PowerStatus
from dbcheck.lab.daemon.rpc import answer_message
from dbcheck.lab.drive.model import CutReport, DriveCounters
from tests.fuzz.target import Target

_KINDS = (PowerStatus, Description, CutReport, DriveCounters, dict[str, int], str, int)
_SENT_MAX = 1 << 15  # so much fits into a socket that nobody reads yet


def messages(data: bytes) -> None:
    """Whole messages are taken as they were sent, then there is the end or an error."""
    sent = rest = data[:_SENT_MAX]
    ours, theirs = Channel.pair()
    with ours:
        with theirs:
            theirs.sendall(sent)
        while True:
            length = int.from_bytes(rest[:4], "big")
            try:
                message = ours.receive()
            except EOFError:
                assert len(rest) < 4 + length
                return
            except NotAMessage:
                assert len(rest) >= 4 and length > MESSAGE_BYTES_MAX
                return
            assert message == rest[4 : 4 + length]
            rest = rest[4 + length :]


class _Noting:
    """Notes which of a lab's methods are called; none has a result."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda **_: self.called.append(name)


def requests(data: bytes) -> None:
    """Whatever a daemon is asked, it answers, and takes a call for what it is."""
    taken = _Noting()
    message, ends = answer_message(data, Callee(LabCalls, taken))
    assert not ends
    reply = msgspec.json.decode(message, type=Reply)
    assert bool(reply.error) is not bool(taken.called)
    for name in taken.called:
        assert json.loads(data)["method"] == name


def replies(data: bytes) -> None:
    """A reply is a result of its kind, an error to show, or not understood."""
    for kind in _KINDS:
        try:
            decode_result_as(data, kind)
        except LabError as error:
            assert str(error) == json.loads(data)["error"]
        except NotUnderstood:
            pass
        else:
            assert "ok" in json.loads(data)


def _framed() -> Iterator[bytes]:
    yield b"\0\0\0\1x\0\0\0\0\0\0\0\3abc"
    yield b"\0\0\0\5x"
    yield b'{"ok": null}\n'


def _requests() -> Iterator[bytes]:
    yield b'{"method":"cut"}'
    yield b'{"method":"restore","values":{"image":"/i"}}'
    yield b'{"method":"set_drive","values":{"changes":{"flush_ms":2.0,"seed":3}}}'
    yield b'{"method":"configure","values":{"settings":{"fsync":"off"}}}'
    yield b'{"method":"log","values":{"lines":1}}'


def _replies() -> Iterator[bytes]:
    yield b'{"ok":{"power":"on","failure":null,"broken":null}}'
    yield (
        b'{"ok":{"cached_writes":1,"cached_bytes":2,"kept_sectors":3,"lost_sectors":4}}'
    )
    yield b'{"ok":"text"}'
    yield b'{"error":"no","hint":"Do not ask."}'
    yield b"[" * 20_000


TARGETS = (
    Target("local-messages", messages, _framed),
    Target("lab-requests", requests, _requests),
    Target("lab-replies", replies, _replies),
)
