"""Messages between processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.processes import MESSAGE_BYTES_MAX, Channel, NotAMessage

Pair = tuple[Channel, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A channel, and the socket at its other end."""
    ours, theirs = Channel.pair()
    with ours, theirs:
        yield ours, theirs


def test_messages_of_any_length_arrive_whole_and_in_order(pair: Pair) -> None:
    """Also one that no socket takes at once."""
    ours, theirs = pair
    messages = [b"", b"x", bytes(range(256)) * 20_000, b"last"]

    def send() -> None:
        for message in messages:
            Channel(theirs).send(message)

    sender = threading.Thread(target=send)
    sender.start()
    assert [ours.receive() for _ in messages] == messages
    sender.join()


@pytest.mark.parametrize("sent", [b"", b"\0", b"\0\0\0\2x"])
def test_the_end_comes_once_the_other_end_is_closed(pair: Pair, sent: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(sent)
    theirs.close()
    with pytest.raises(EOFError):
        ours.receive()


def test_an_end_that_is_closed_with_something_unread_is_closed(pair: Pair) -> None:
    ours, theirs = pair
    ours.send(b"unread")
    theirs.close()
    with pytest.raises(EOFError):
        ours.receive()


@pytest.mark.parametrize("sent", [b"", b"\0", b"\0\0\0\2x"])
def test_what_does_not_come_in_time_is_too_late(pair: Pair, sent: bytes) -> None:
    """Also where it has begun."""
    ours, theirs = pair
    theirs.sendall(sent)
    with pytest.raises(TimeoutError):
        ours.receive(timeout_s=0.01)


def test_what_is_not_taken_in_time_is_too_late(pair: Pair) -> None:
    ours, _ = pair
    with pytest.raises(TimeoutError):
        ours.send(bytes(1 << 24), timeout_s=0.01)


@pytest.mark.parametrize("sent", [b'{"ok": null}\n', b"\xff" * 4])
def test_another_program_is_recognised_by_its_first_bytes(
    pair: Pair, sent: bytes
) -> None:
    ours, theirs = pair
    assert int.from_bytes(sent[:4], "big") > MESSAGE_BYTES_MAX
    theirs.sendall(sent)
    with pytest.raises(NotAMessage):
        ours.receive()


def test_a_channel_leads_to_a_socket_in_a_folder(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        client = Channel.to(tmp_path / "socket", 10)
        with client, Channel(listener.accept()[0]) as server:
            client.send(b"question", 10)
            assert server.receive(10) == b"question"
    with pytest.raises(OSError, match="No such file"):
        Channel.to(tmp_path / "none", 10)


CHILD = """
import sys
from dbcheck.base.processes import Channel
with Channel.inherited(int(sys.argv[1])) as parent:
    parent.send(parent.receive()[::-1])
    try:
        parent.receive()
    except EOFError:
        sys.exit(7)
"""


def test_a_child_notices_that_its_parent_is_gone() -> None:
    ours, theirs = Channel.pair()
    with ours, theirs:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        theirs.close()
        ours.send(b"abc")
        assert ours.receive() == b"cba"
    assert child.wait(30) == 7
