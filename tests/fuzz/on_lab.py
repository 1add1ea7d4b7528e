"""What the processes of a lab read from one another, see dbcheck.base.local."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from dbcheck.base.errors import LabError
from dbcheck.base.local import MESSAGE_BYTES_MAX, Channel, NotAMessage
from dbcheck.lab.daemon.requests import Description, PowerStatus, Request
from dbcheck.lab.daemon.rpc import answered
from dbcheck.lab.drive.model import CutReport, DriveCounters
from dbcheck.lab.reply import NotUnderstood, Reply, result_in
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


def requests(data: bytes) -> None:
    """Whatever a daemon is asked, it answers, and takes a request for what it is."""
    taken: list[Request] = []
    message, ends = answered(data, taken.append)
    assert not ends
    reply = msgspec.json.decode(message, type=Reply)
    assert bool(reply.error) is not bool(taken)
    for request in taken:
        assert json.loads(data)["type"] == request.name


def replies(data: bytes) -> None:
    """A reply is a result of its kind, an error to show, or not understood."""
    for kind in _KINDS:
        try:
            result_in(data, kind)
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
    yield b'{"type":"cut"}'
    yield b'{"type":"restore","image":"/i"}'
    yield b'{"type":"setdrive","flush_ms":2.0,"survivors":"torn","seed":3}'
    yield b'{"type":"configure","settings":{"fsync":"off"}}'
    yield b'{"type":"log","lines":1}'


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
