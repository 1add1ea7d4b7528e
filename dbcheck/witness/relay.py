"""One connection to the witness for the logs of several processes of a load.

A connection costs a login, an agent and 0.3 ms of CPU time at both ends for each batch
(see witness/openlog.py).  So the client has one for all of its processes, and each of
them a socket, over which it speaks with the agent as over a channel of its own.  What
the processes send is passed on together, each message whole and those of a process in
their order; a reply goes to the process whose token it carries.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dbcheck.agent import wire
from dbcheck.agent import witness as agent
from dbcheck.base.errors import WitnessError
from dbcheck.remote.channel import Channel
from dbcheck.witness.looplog import InheritedLog
from dbcheck.witness.openlog import END_TIMEOUT_S, find_rest_s
from dbcheck.witness.window import WindowLimits

log = logging.getLogger(__name__)

_READ_BYTES = 1 << 18
# Until a process that took no more replies is offered the last again, and between two
# looks whether any process is left.
_LOOK_S = 0.5


@dataclass(slots=True)
class _Process:
    """The relay's end of a process's socket.

    buffer: what it sent of a message that is not whole yet.
    late:   the newest reply that it did not take, as it reads none: it was stopped.
            A mark holds all that was confirmed, so the ones before it are not needed.
    """

    socket: socket.socket
    token: int
    buffer: bytearray = field(default_factory=bytearray)
    late: bytes = b""

    def cut_messages(self) -> bytes:
        """Remove the whole messages from the buffer, and return them."""
        end = 0
        while len(self.buffer) - end >= wire.MESSAGE.size:
            *_, length = wire.MESSAGE.unpack_from(self.buffer, end)
            if end + wire.MESSAGE.size + length > len(self.buffer):
                break
            end += wire.MESSAGE.size + length
        messages = bytes(self.buffer[:end])
        del self.buffer[:end]
        return messages

    def deliver(self, reply: bytes) -> None:
        """Send *reply*, or keep it if the process takes none now; never block.

        A reply is shorter than a buffer of the kernel, so it goes whole or not at all.
        """
        try:
            self.socket.send(reply, socket.MSG_DONTWAIT)
            self.late = b""
        except BlockingIOError:
            self.late = reply
        except OSError:
            self.late = b""  # the process is gone

    def hang_up(self) -> None:
        """Let the process see the end; the socket stays open for the other thread."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Relay:
    """Passes messages between processes and one agent until every process has left.

    A process leaves when it closes its socket, also by its death: its log is closed
    then.  When the agent refuses something or is gone, every process sees that.
    """

    def __init__(
        self,
        channel: Channel,
        ends: Mapping[int, socket.socket],
        limits: WindowLimits,
    ) -> None:
        """Take over *channel*, and the relay's end of each socket, by token."""
        self._channel = channel
        self._processes = {token: _Process(end, token) for token, end in ends.items()}
        self._rest_s = find_rest_s(limits)
        self._hung_up = select.poll()
        for process in self._processes.values():
            self._hung_up.register(process.socket, 0)  # POLLHUP is always reported
        self._delivering = threading.Lock()
        self._running = 2
        for body in (self._pass_on_messages, self._distribute_replies):
            threading.Thread(target=body, name="witness-relay", daemon=True).start()

    def _pass_on_messages(self) -> None:
        """Pass on what the processes send until all of them have left."""
        open_sockets = {
            process.socket.fileno(): process for process in self._processes.values()
        }
        poll = select.poll()
        for descriptor in open_sockets:
            poll.register(descriptor, select.POLLIN)
        try:
            while open_sockets:
                messages = b""
                for descriptor, _ in poll.poll(_LOOK_S * 1000):
                    process = open_sockets[descriptor]
                    if _read(process):
                        messages += process.cut_messages()
                    else:
                        poll.unregister(descriptor)
                        del open_sockets[descriptor]
                        messages += wire.MESSAGE.pack(agent.LEAVE, process.token, 0, 4)
                        messages += b"null"
                if messages:
                    self._channel.pass_on(messages)
                    time.sleep(self._rest_s)
                self._deliver_late_replies()
        except OSError as error:
            log.debug("cannot write to %s: %s", self._channel.place, error)
        finally:
            self._channel.end_input()
            self._end_thread()

    def _distribute_replies(self) -> None:
        """Give each reply to its process, until the agent ends or refuses something."""
        try:
            while self._await_reply():
                kind, token, reply = self._channel.receive_raw()
                if kind == wire.RESULT:  # the process has left
                    self._processes[token].hang_up()
                    continue
                with self._delivering:
                    if kind != wire.ERROR:
                        self._processes[token].deliver(reply)
                        continue
                    for process in self._processes.values():
                        process.deliver(reply)
                    return
        except (WitnessError, KeyError, OSError) as error:
            log.debug("%s answers no more: %s", self._channel.place, error)
        finally:
            for process in self._processes.values():
                process.hang_up()
            self._channel.close()
            self._end_thread()

    def _await_reply(self) -> bool:
        """Return True once a reply comes, False if nobody awaits one any more."""
        gone_s = 0.0  # since all processes are gone: an agent may hang on its disk
        while not self._channel.wait(_LOOK_S):
            if len(self._hung_up.poll(0)) == len(self._processes):
                gone_s += _LOOK_S
            if gone_s > END_TIMEOUT_S:
                return False
        return True

    def _deliver_late_replies(self) -> None:
        with self._delivering:
            for process in self._processes.values():
                if process.late:
                    process.deliver(process.late)

    def _end_thread(self) -> None:
        """Close the sockets once neither thread uses them."""
        with self._delivering:
            self._running -= 1
            if not self._running:
                for process in self._processes.values():
                    process.socket.close()


def _read(process: _Process) -> bool:
    """Buffer what came; return False at the end, also of a process that was killed."""
    try:
        received = process.socket.recv(_READ_BYTES, socket.MSG_DONTWAIT)
    except OSError:
        received = b""
    process.buffer += received
    return bool(received)


class SharedConnection:
    """The connection of several logs, which is opened when the first is asked for."""

    def __init__(
        self,
        open_channel: Callable[[], Channel],
        tokens: Mapping[int, int],
        opener: InheritedLog,
    ) -> None:
        """tokens: by the log's number.  opener: of any of them, without descriptor."""
        self._open_channel, self._opener = open_channel, opener
        self._tokens = dict(tokens)  # of the logs that are not closed
        self._opening = threading.Lock()
        self._theirs: dict[int, socket.socket] = {}  # the ends of the processes
        self._failure: WitnessError | None = None

    def open(self, number: int) -> InheritedLog:
        """Return the opener of log *number*; raise WitnessError.

        A witness that cannot be reached is tried once, and not for each log.
        """
        with self._opening:
            if self._failure is not None:
                raise copy.copy(self._failure)
            if not self._theirs:
                try:
                    self._open()
                except WitnessError as error:
                    self._failure = error
                    raise
            return replace(self._opener, descriptor=self._theirs[number].fileno())

    def close(self, number: int) -> None:
        """Close the process's end of log *number* here, if there is one."""
        with self._opening:
            self._tokens.pop(number, None)
            if number in self._theirs:
                self._theirs[number].close()

    def _open(self) -> None:
        channel = self._open_channel()
        pairs = {number: socket.socketpair() for number in self._tokens}
        ours = {self._tokens[number]: pair[0] for number, pair in pairs.items()}
        for end in ours.values():
            end.sendall(wire.HELLO)
        self._theirs = {number: pair[1] for number, pair in pairs.items()}
        Relay(channel, ours, self._opener.limits)


@dataclass(frozen=True, slots=True)
class SharedLog:
    """See ports.witness.SharedLog."""

    connection: SharedConnection
    number: int

    def open(self) -> InheritedLog:
        return self.connection.open(self.number)

    def close(self) -> None:
        self.connection.close(self.number)
