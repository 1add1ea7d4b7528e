"""The client's side of an agent: the program to send, and messages as in wire.py.

Nothing is installed where an agent runs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from dbcheck.agent import wire
from dbcheck.base.decoding import UNDECODABLE, convert
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError

# An agent may send as slowly as this, a tenth of a slow line over a satellite.
SLOWEST_BYTES_PER_S = 4 << 10
_MODULES_OF_EVERY_AGENT = ("dbcheck.base.system", "dbcheck.agent.wire")
REPLY_TIMEOUT_S = 60.0  # a slow disk may take long; a silent host is dead
_HELLO_TIMEOUT_S = 60.0  # for a login shell, and Python's start
_NOISE_BYTES_MAX = 1 << 16  # that a login shell may print before the agent's greeting
_ERROR_CHARACTERS_MAX = 2000
T = TypeVar("T")


class Patience:
    """The time that may still be spent on waiting for one answer.

    If each byte restarted the wait, a byte now and then would keep the reader waiting
    for ever.  So a byte gives back only the time that it takes at SLOWEST_BYTES_PER_S.
    Only waiting counts: the reader may take as long as it likes between waits.
    """

    def __init__(
        self, most_s: float, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Allow for *most_s* seconds in which nothing comes."""
        self.most_s = most_s
        self.received = 0
        self._left_s = most_s
        self._now = now

    def wait(self, take: Callable[[float], int]) -> None:
        """Call *take* with the seconds that are left; it returns how many bytes came.

        Raise TimeoutError if the time is over.
        """
        began_s = self._now()
        received = take(self._left_s)
        self.received += received
        gained_s = received / SLOWEST_BYTES_PER_S - (self._now() - began_s)
        self._left_s = min(self.most_s, self._left_s + gained_s)
        if self._left_s <= 0:
            raise TimeoutError


@functools.cache
def build_program(agent: str, *parts: str) -> bytes:
    """Return the program of the module *agent*, behind the modules that it needs.

    Of dbcheck the agent may import base/system.py, agent/wire.py and the modules
    *parts*, each of which may import the modules before it; the program brings the
    texts of all of them along.
    """
    lines = ["import sys, types"]
    for module in (*_MODULES_OF_EVERY_AGENT, *parts):
        lines += [
            f"part = types.ModuleType({module!r})",
            f"exec(compile({_read_source(module)!r}, {module!r}, 'exec'),"
            " part.__dict__)",
            f"sys.modules[{module!r}] = part",
        ]
    text = f"compile({_read_source(agent)!r}, {agent!r}, 'exec')"
    lines.append(f"exec({text}, {{'__name__': '__main__'}})")
    return "\n".join(lines).encode()


def make_bootstrap(size: int) -> str:
    """Return the Python program that reads a program of *size* bytes, and runs it.

    One line without a single quote: it passes through any login shell in quotes.
    """
    return (
        "import sys;"
        'sys.version_info<(3,8)and sys.exit("this is Python "+sys.version.split()[0]);'
        f"exec(sys.stdin.buffer.read({size}))"
    )


def _read_source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return importlib.resources.files(package).joinpath(f"{name}.py").read_text("utf-8")


class Pipe(Protocol):
    """Standard input, output and error of one agent."""

    def send(self, data: bytes) -> None:
        """Hand over all of *data*; raise OSError if the agent is gone."""

    def receive(self, timeout_s: float | None) -> bytes:
        """Return the next bytes, b"" at the end; raise TimeoutError, OSError."""

    def finish(self) -> None:
        """Send nothing more; the agent ends when it has read everything."""

    def close(self) -> None:
        """End the agent; calls blocked in other threads return.  Never raises."""

    def is_alive(self) -> bool:
        """Return True if the agent still runs, as far as is known here."""

    def stderr_text(self) -> str:
        """Return the standard error of the agent, or of its shell."""


@dataclass(frozen=True, slots=True)
class AgentProtocol:
    """One kind of agent, and how its failures are reported.

    program:    the agent's program, made by build_program().
    who:        the host's role, e.g. "witness".
    failure:    raised when it fails.
    refusals:   code of a refusal -> the id of its error, and the hint.
    ended_hint: the hint of the error if the agent is gone.
    """

    program: bytes
    who: str
    failure: type[DbcheckError]
    refusals: Mapping[str, tuple[ErrorId, str]]
    ended_hint: str


class Channel:
    """A conversation with one agent.

    One thread may send while another receives.  place names the host in errors;
    they are of the class protocol.failure, called the failure below.
    """

    def __init__(self, pipe: Pipe, place: str, protocol: AgentProtocol) -> None:
        """Send the agent its program; raise the failure unless it answers."""
        self._pipe = pipe
        self._protocol = protocol
        self.place = place
        self._buffer = bytearray()
        try:
            pipe.send(protocol.program)
            self._await_hello()
        except OSError as error:
            failure = self._agent_ended_error()
            pipe.close()
            raise failure from error
        except BaseException:
            pipe.close()
            raise

    def send(
        self, verb: int, payload: bytes, *, token: int = 0, count: int = 0
    ) -> None:
        """Send one message; raise OSError if the agent is gone."""
        head = wire.MESSAGE.pack(verb, token, count, len(payload))
        self._pipe.send(head + payload)

    def ask(self, verb: int, token: int = 0, /, **question: object) -> None:
        """Send a request in JSON; raise the failure if the agent is gone."""
        try:
            self.send(verb, json.dumps(question).encode(), token=token)
        except OSError as error:
            raise self._agent_ended_error() from error

    def request(self, verb: int, **question: object) -> Any:
        """Return the answer to a request."""
        self.ask(verb, **question)
        return self.decoded(self.expect(wire.RESULT))

    def answer(self, kind: type[T], verb: int, **question: object) -> T:
        """Return the answer to a request, which must be a *kind*."""
        return self.understood(kind, self.request(verb, **question))

    def decoded(self, payload: bytes) -> Any:
        """Parse *payload* as JSON; raise the failure if it is not JSON."""
        try:
            return json.loads(payload)
        except (ValueError, RecursionError):
            raise self.invalid_reply() from None

    def understood(self, kind: type[T], value: object) -> T:
        """Convert plain values to a *kind*; raise the failure if they do not fit."""
        try:
            return convert(value, kind)
        except UNDECODABLE:
            raise self.invalid_reply() from None

    def stream(self, verb: int, **question: object) -> Iterator[bytes]:
        """Yield the parts of a long answer, none of them empty."""
        self.ask(verb, **question)
        patience = Patience(REPLY_TIMEOUT_S)
        while True:
            kind, payload = self._receive(patience)
            if kind == wire.END:
                return
            if kind != wire.DATA or not payload:
                raise self.invalid_reply()
            yield payload

    def wait(self, timeout_s: float) -> bool:
        """Return True if anything of a reply comes within *timeout_s* seconds."""
        if not self._buffer:
            try:
                self._buffer_next(timeout_s)
            except TimeoutError:
                return False
        return True

    def expect(self, wanted: int, timeout_s: float | None = REPLY_TIMEOUT_S) -> bytes:
        """Return the payload of the next reply, which must be *wanted*."""
        kind, payload = self.receive(timeout_s)
        if kind != wanted:
            raise self.invalid_reply()
        return payload

    def receive(self, timeout_s: float | None) -> tuple[int, bytes]:
        """Return the kind and the payload of the next reply.

        Raise the failure if it is an error, if none came in time, or if the agent
        is gone.
        """
        return self._receive(None if timeout_s is None else Patience(timeout_s))

    def pass_on(self, message: bytes) -> None:
        """Send whole messages as they are; raise OSError if the agent is gone."""
        self._pipe.send(message)

    def receive_raw(self) -> tuple[int, int, bytes]:
        """Return kind, token and bytes of the next message, also if it is an error.

        Wait for ever; raise the failure if the agent is gone.
        """
        kind, token, end = self._receive_head(None)
        message = bytes(self._buffer[:end])
        del self._buffer[:end]
        return kind, token, message

    def _receive(self, patience: Patience | None) -> tuple[int, bytes]:
        """Return the next reply as receive() does; *patience* None waits for ever."""
        kind, _, end = self._receive_head(patience)
        payload = bytes(self._buffer[wire.MESSAGE.size : end])
        del self._buffer[:end]
        if kind == wire.ERROR:
            raise self._refusal_error(payload)
        return kind, payload

    def _receive_head(self, patience: Patience | None) -> tuple[int, int, int]:
        """Buffer a whole message; return its kind, its token and where it ends."""
        self._fill_buffer(wire.MESSAGE.size, patience)
        kind, token, _, length = wire.MESSAGE.unpack_from(self._buffer)
        if length > wire.MESSAGE_BYTES_MAX:
            raise self.invalid_reply()
        end = wire.MESSAGE.size + length
        self._fill_buffer(end, patience)
        return kind, token, end

    def end_input(self) -> None:
        """Send nothing more: the agent ends, and receive() raises."""
        with contextlib.suppress(OSError):  # the agent is gone already
            self._pipe.finish()

    def is_alive(self) -> bool:
        """Return True if the agent still runs, as far as is known here."""
        return self._pipe.is_alive()

    def close(self) -> None:
        """End the agent; never raises."""
        self._pipe.close()

    def _fill_buffer(self, wanted: int, patience: Patience | None) -> None:
        """Read until *wanted* bytes are buffered."""
        while len(self._buffer) < wanted:
            if patience is None:
                self._buffer_next(None)
                continue
            try:
                patience.wait(self._buffer_next)
            except TimeoutError:
                raise self._timeout_error(patience) from None

    def _buffer_next(self, timeout_s: float | None) -> int:
        """Buffer the next bytes, and return how many they are.

        Raise TimeoutError, or the failure at the end.
        """
        try:
            data = self._pipe.receive(timeout_s)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._agent_ended_error() from error
        if not data:
            raise self._agent_ended_error()
        self._buffer += data
        return len(data)

    def _await_hello(self) -> None:
        """Skip what a login shell prints, until the agent's greeting."""
        hello_bytes, patience = len(wire.HELLO), Patience(_HELLO_TIMEOUT_S)
        while (place := self._buffer.find(wire.HELLO)) < 0:
            if len(self._buffer) > _NOISE_BYTES_MAX:
                raise self.invalid_reply()
            self._fill_buffer(max(hello_bytes, len(self._buffer) + 1), patience)
        del self._buffer[: place + hello_bytes]

    def _timeout_error(self, patience: Patience) -> DbcheckError:
        what = f"did not answer for {patience.most_s:g} s"
        if patience.received:
            what = f"stopped mid-answer, or sent less than {SLOWEST_BYTES_PER_S} B/s"
        return self._protocol.failure(
            f"{self.place} {what}",
            id=ErrorId.HOST_NOT_ANSWERING,
            hint="Check its disk and the network to it.",
        )

    def _agent_ended_error(self) -> DbcheckError:
        printed = self._pipe.stderr_text().strip().splitlines()
        last_line = f": {printed[-1][:200]}" if printed else ""
        id, hint = ErrorId.AGENT_ENDED, self._protocol.ended_hint
        if "python" in last_line.lower():
            id = ErrorId.PYTHON_MISSING
            hint = "Install Python 3.8 or newer there, as python3."
        who = self._protocol.who
        return self._protocol.failure(
            f"the {who} agent at {self.place} ended{last_line}", id=id, hint=hint
        )

    def invalid_reply(self) -> DbcheckError:
        """Return the error for a reply that breaks the protocol."""
        return self._protocol.failure(
            f"unexpected reply from the {self._protocol.who} agent at {self.place}",
            id=ErrorId.AGENT_REPLY_INVALID,
            hint="Check which host answers there and what its login shell prints.",
        )

    def _refusal_error(self, payload: bytes) -> DbcheckError:
        try:
            answer = json.loads(payload)
            refusals = self._protocol.refusals
            id, hint = refusals.get(answer["code"], (ErrorId.AGENT_FAILED, ""))
            message = str(answer["message"])[:_ERROR_CHARACTERS_MAX]
            what = f"{self._protocol.who} {self.place}: {message}"
            return self._protocol.failure(what, id=id, hint=hint)
        except (ValueError, KeyError, TypeError, RecursionError):
            return self.invalid_reply()
