"""A pipe to an agent, of which the test plays the other end."""

from __future__ import annotations

from dbcheck.agent import wire
from dbcheck.hosts.host import PARTS
from dbcheck.witness import witness

# The modules that an agent is sent with, by that of the agent.
AGENTS = {"dbcheck.agent.witness": witness.PARTS, "dbcheck.agent.host.serve": PARTS}


class Script:
    """A pipe whose other end says what a test wants; see witness.Pipe."""

    def __init__(self, *parts: bytes, words: str = "", hangs: bool = False) -> None:
        self.parts = list(parts)
        self.words = words
        self.hangs = hangs
        self.sent = b""
        self.closed = False

    def send(self, data: bytes) -> None:
        self.sent += data

    def receive(self, timeout_s: float | None) -> bytes:
        if not self.parts and self.hangs:
            raise TimeoutError
        return self.parts.pop(0) if self.parts else b""

    def finish(self) -> None:
        raise BrokenPipeError

    def close(self) -> None:
        self.closed = True

    def is_alive(self) -> bool:
        return not self.closed

    def stderr_text(self) -> str:
        return self.words


def reply(kind: int, payload: bytes) -> bytes:
    return wire.MESSAGE.pack(kind, 0, 0, len(payload)) + payload
