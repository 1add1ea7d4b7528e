"""Agents on another host, reached over SSH."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Iterator

import paramiko

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.remote.address import Address, SshOptions
from dbcheck.remote.channel import bootstrap
from dbcheck.remote.sshconnect import Connection, connect

_READ_BYTES = 1 << 18
_STDERR_S = 2.0
_STUCK_S = 60.0  # as long as a reply may take, see channel.REPLY_TIMEOUT_S
_STDERR_BYTES_MAX = 1 << 16


class SshHost:
    """Starts agents on a host, over one connection that is made when first needed.

    place names the host in errors; address is whom to connect to.
    It can be pickled, for another process; the copy is connected to nothing.
    """

    def __init__(self, place: str, address: Address, options: SshOptions) -> None:
        """Reach nothing yet."""
        self.place = place
        self.address = address
        self._options = options
        self._connecting = threading.Lock()
        self._connection: Connection | None = None

    def __reduce__(self) -> tuple[type[SshHost], tuple[str, Address, SshOptions]]:
        return SshHost, (self.place, self.address, self._options)

    def run(self, program: bytes) -> SshPipe:
        """Start a Python that waits for *program*; raise HostError."""
        transport = self._transport()
        command = shlex.quote(bootstrap(len(program)))
        try:
            channel = transport.open_session(timeout=self._options.connect_timeout_s)
        except paramiko.ChannelException as error:
            raise self._refused(error) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise HostError(
                f"{self.place} no longer answers: {str(error) or 'connection closed'}",
                id=ErrorId.HOST_NOT_ANSWERING,
                hint="Check that host and the network to it.",
            ) from error
        # paramiko waits for the answer for ever, or until the channel is closed.
        give_up = threading.Timer(self._options.connect_timeout_s, _end, (channel,))
        give_up.daemon = True
        give_up.start()
        try:
            channel.exec_command(f"exec python3 -I -S -c {command}")
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise self._refused(error) from error
        finally:
            give_up.cancel()
        return SshPipe(channel)

    def _refused(self, error: Exception) -> HostError:
        return HostError(
            f"cannot start a program on {self.place}:"
            f" {str(error) or 'connection closed'}",
            id=ErrorId.AGENT_NOT_STARTED,
            hint="Check that this user is allowed to run commands there.",
        )

    def close(self) -> None:
        """End the connection; never raises."""
        with self._connecting:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _transport(self) -> paramiko.Transport:
        """Return a live connection, a new one if there is none."""
        with self._connecting:
            old = self._connection
            if old is not None and old.transport.is_active():
                return old.transport
            if old is not None:
                old.close()
                self._connection = None
            self._connection = connect(self.address, self._options)
            return self._connection.transport


@contextlib.contextmanager
def _gone_as_broken_pipe() -> Iterator[None]:
    """Raise what paramiko raises if its connection ended meanwhile as an OSError.

    Whatever sends a message, which is also close() and recv(), may raise EOFError
    (paramiko 5.1, Packetizer.write_all), or SSHException while keys are exchanged.
    """
    try:
        yield
    except (EOFError, paramiko.SSHException) as error:
        raise BrokenPipeError(str(error) or "the connection ended") from error


def _end(channel: paramiko.Channel) -> None:
    """Close *channel*; never raises."""
    with contextlib.suppress(OSError), _gone_as_broken_pipe():
        channel.close()


class SshPipe:
    """The streams of one remote command; see channel.Pipe."""

    def __init__(self, channel: paramiko.Channel) -> None:
        """Own *channel*, on which the command runs."""
        self._channel = channel
        channel.settimeout(_STUCK_S)

    def send(self, data: bytes) -> None:
        """Hand over all of *data*; raise OSError if the agent is gone.

        It is taken for gone as well if it takes nothing for _STUCK_S.
        """
        ends_s = time.monotonic() + _STUCK_S
        while data:
            # A channel has one timeout for both directions, and this one is
            # receive()'s; when it has passed, nothing was sent.
            with contextlib.suppress(TimeoutError), _gone_as_broken_pipe():
                sent = self._channel.send(data)
                if not sent:
                    raise BrokenPipeError("the channel is closed")
                data, ends_s = data[sent:], time.monotonic() + _STUCK_S
            if time.monotonic() > ends_s:
                raise BrokenPipeError(
                    f"the other end accepted no data for {_STUCK_S:g} s"
                )

    def receive(self, timeout_s: float | None) -> bytes:
        """Return what has come, b"" at the end; raise TimeoutError."""
        while True:
            # Never for ever: see send().
            self._channel.settimeout(_STUCK_S if timeout_s is None else timeout_s)
            try:
                with _gone_as_broken_pipe():
                    return self._channel.recv(_READ_BYTES)
            except TimeoutError:
                if timeout_s is not None:
                    raise

    def finish(self) -> None:
        with _gone_as_broken_pipe():
            self._channel.shutdown_write()

    def close(self) -> None:
        """End the channel; calls blocked in other threads return.  Never raises."""
        _end(self._channel)

    def is_alive(self) -> bool:
        return not self._channel.closed and not self._channel.eof_received

    def stderr_text(self) -> str:
        """Return what came on standard error."""
        received = b""
        self._channel.settimeout(_STDERR_S)
        ends_s = time.monotonic() + _STDERR_S
        try:
            while len(received) < _STDERR_BYTES_MAX and time.monotonic() < ends_s:
                part = self._channel.recv_stderr(_READ_BYTES)
                if not part:
                    break
                received += part
        except (OSError, EOFError, paramiko.SSHException):
            pass  # nothing more came in time
        return received.decode(errors="replace")
