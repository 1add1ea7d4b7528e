"""An open log of a run that an event loop writes and reads, without threads.

It is that of a process of the load, whose acks go through the client: see relay.py.  A
thread that writes would wait for the interpreter, or take it from the sessions.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
from dataclasses import dataclass

from dbcheck.agent import wire
from dbcheck.agent import witness as agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import WitnessError
from dbcheck.base.system import now_us
from dbcheck.model.witness import Watermark
from dbcheck.remote.channel import AgentProtocol, Channel
from dbcheck.rows.acks import count, pack
from dbcheck.witness.openlog import END_TIMEOUT_S, NEVER_US, ConfirmedLog
from dbcheck.witness.window import WindowLimits

log = logging.getLogger(__name__)

_READ_BYTES = 1 << 18
_RETRY_US = 1000  # until a socket that was full is offered the rest
_LOOK_S = 0.5  # between two looks at a witness that confirms nothing


class SocketPipe:
    """A process's end of a socket to the client's relay; see remote.channel.Pipe."""

    def __init__(self, descriptor: int) -> None:
        """Take over the socket *descriptor*, which the process inherited."""
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)

    def fileno(self) -> int:
        """Return the descriptor, which is readable once something comes."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def offer(self, data: bytes) -> int:
        """Send what fits now; return how many bytes that was; raise OSError."""
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def wait(self, timeout_s: float) -> None:
        """Return once something has come, or after so long."""
        poll = select.poll()  # select() takes no descriptor above 1023
        poll.register(self._socket, select.POLLIN)
        poll.poll(timeout_s * 1000)

    def receive(self, timeout_s: float | None) -> bytes:
        if timeout_s is None:
            return self._socket.recv(_READ_BYTES)
        if timeout_s:
            self.wait(timeout_s)
        try:
            return self._socket.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            raise TimeoutError from None

    def finish(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def is_alive(self) -> bool:
        """Return True: only what comes shows that the relay has ended."""
        return True

    def stderr_text(self) -> str:
        """Return "": the client itself has what the agent printed."""
        return ""


class LoopLog(ConfirmedLog):
    """See ports.witness.LoadLog; for one thread, which calls send_due() often."""

    def __init__(
        self,
        pipe: SocketPipe,
        channel: Channel,
        run_id: str,
        number: int,
        limits: WindowLimits,
    ) -> None:
        """Take over *channel*, over *pipe*, on which the log was just asked for."""
        super().__init__(channel, run_id, number, limits)
        self._pipe = pipe
        self._age_s = limits.age_s
        self._rest_us = int(self._rest_s * 1e6)
        self._unsent = b""  # what the socket did not take
        self._due_us = 0  # when the next batch may be sent

    def fileno(self) -> int:
        return self._pipe.fileno()

    def room(self, wanted: int = 1) -> int:
        if self._window.age_s() >= self._age_s:
            self._take_marks()  # this process may have been stopped
        return self._window.room(wanted)

    def take_news(self) -> None:
        self._take_marks()
        self._window.room()

    def send_due(self, now_us: int) -> int:
        if not self._unsent and self._window.is_drained():
            return NEVER_US
        if now_us >= self._due_us:
            self._send()
            self._due_us = now_us + self._rest_us
            if not self._unsent:
                return NEVER_US
            self._due_us = max(self._due_us, now_us + _RETRY_US)
        return self._due_us

    def close(self) -> Watermark:
        if self._pipe.fileno() < 0:
            return self._mark
        try:
            self._window.accept_no_more()
            while not self._window.is_finished():
                left_s = (self.send_due(now_us()) - now_us()) / 1e6
                self._pipe.wait(min(_LOOK_S, max(0.0, left_s)))
                self.take_news()
            self._channel.end_input()
            with contextlib.suppress(WitnessError):  # until the agent freed the log
                self._channel.receive(END_TIMEOUT_S)
        finally:
            self._channel.close()
            self._window.close()
        return self._mark

    def _send(self) -> None:
        """Send all that is queued, or what fits."""
        try:
            messages = [self._unsent]
            if not self._window.is_drained():
                for batch in self._window.take():
                    assert not isinstance(batch, bytes)  # no event: those are in log 0
                    messages += map(self._make_message, pack(batch))
            self._unsent = b"".join(messages)
            self._unsent = self._unsent[self._pipe.offer(self._unsent) :]
        except OSError as error:
            log.debug("cannot write to %s: %s", self._channel.place, error)
            self._unsent = b""  # what comes next shows why
        except ValueError as error:
            self._window.fail(
                WitnessError(f"cannot log an ack: {error}", id=ErrorId.WITNESS_LOST)
            )

    def _make_message(self, body: bytes) -> bytes:
        head = wire.MESSAGE.pack(agent.APPEND, self._token, count(body), len(body))
        return head + body

    def _take_marks(self) -> None:
        """Note all confirmations that have come, or why there will be none."""
        try:
            while self._channel.wait(0.0):
                self._take_mark(self._channel.expect(wire.MARK, timeout_s=None))
        except WitnessError as error:
            self._window.fail(error)


@dataclass(frozen=True)
class InheritedLog:
    """Opens a log in the process that inherited its socket; see ports.witness.

    descriptor: of the socket.  folder: the one that the agent serves at *place*.
    """

    descriptor: int
    place: str
    folder: str
    limits: WindowLimits
    protocol: AgentProtocol

    def join(self, run_id: str, number: int) -> LoopLog:
        pipe = SocketPipe(self.descriptor)
        channel = Channel(pipe, self.place, self.protocol)
        try:
            token = agent.make_token(run_id, number)
            channel.ask(agent.JOIN, token, folder=self.folder, run=run_id, log=number)
            return LoopLog(pipe, channel, run_id, number, self.limits)
        except BaseException:
            channel.close()
            raise
