"""Agents on another host, reached over SSH the way the user's own `ssh` reaches it."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import paramiko

from dbcheck.base import plain, processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, UsageError
from dbcheck.remote.address import Address, SshOptions
from dbcheck.remote.channel import make_bootstrap
from dbcheck.remote.hostkeys import (
    ChangedHostKey,
    Marker,
    RefusedHostKey,
    Trust,
    UnknownHostKey,
    look_up_host,
    make_known_hosts_name,
)
from dbcheck.remote.sshconfig import Settings, read_settings
from dbcheck.remote.sshlogin import BadKey, Keys, LockedKey, log_in
from dbcheck.remote.sshread import read_last_errors

log = logging.getLogger(__name__)
# Expected failures are reported by our own errors; without this handler, what paramiko
# logs of them would go to standard error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_KEEPALIVE_S = 5
# A connection ends if its data are not acknowledged for so long (tcp(7)).  TCP doubles
# the pause before each new attempt: after an outage of 20 s it may take 20 s more.
_SILENCE_MS = 60_000
_JUMPS_MAX = 8
_PROXY_END_S = 2.0
_ADVICE_TO_ACCEPT = (
    "Or pass --known-hosts with a file that has it, or --accept-new-host-key."
)


class Connection:
    """An authenticated connection, and the connections that it goes through."""

    def __init__(self, transport: paramiko.Transport, stack: ExitStack) -> None:
        """Own *stack*, which ends everything in the right order."""
        self.transport = transport
        self._stack = stack

    def close(self) -> None:
        """End the connection and all below it; never raises."""
        try:
            self._stack.close()
        except (OSError, EOFError, paramiko.SSHException) as error:
            log.debug("ending a connection: %s", error)


def connect(address: Address, options: SshOptions) -> Connection:
    """Connect and log in; raise HostError, which names the step that failed."""
    stack = ExitStack()
    try:
        return Connection(_connect(address, options, stack, depth=0), stack)
    except BaseException:
        stack.close()
        raise


def _connect(
    address: Address,
    options: SshOptions,
    stack: ExitStack,
    *,
    depth: int,
    through: paramiko.Transport | None = None,
) -> paramiko.Transport:
    """Connect to *address*, over its jump hosts or over *through*."""
    if depth > _JUMPS_MAX:
        raise UsageError(
            f"more than {_JUMPS_MAX} jumps lead to {address.host}",
            id=ErrorId.TOO_MANY_JUMPS,
            hint="Shorten the way in ssh_config (ProxyJump).",
        )
    limit_s = options.connect_timeout_s
    config = read_settings(address, options.config_file, limit_s, options.proxy)
    if through is None:
        # As by `ssh -J`: options for the last host do not hold for the jump hosts.
        by_config = replace(options, identity_file=None, proxy=None)
        for jump in config.jumps:
            through = _connect(jump, by_config, stack, depth=depth + 1, through=through)
    trust, files = _read_trust(config, options)
    advice = _advise_on_unknown_host(config, trust, files)
    if options.accept_new_host_key is not None:
        advice += f" {_ADVICE_TO_ACCEPT}"
    complaints = (
        io.BytesIO() if config.proxy_command is None else _open_temporary_file(stack)
    )
    with _translate_errors(config, advice, complaints):
        sock = _open_socket(config, limit_s, through, stack, complaints)
        transport = _make_transport(sock)
        stack.callback(transport.close)
        transport.banner_timeout = transport.auth_timeout = limit_s
        transport.channel_timeout = limit_s
        security = transport.get_security_options()
        security.key_types = trust.order(security.key_types)
        transport.start_client(timeout=limit_s)
        trust.require(transport.get_remote_server_key())
        keys = config.keys
        if options.identity_file is not None:
            keys = Keys([_require_readable(options.identity_file)])
        log_in(transport, config.user, keys, limit_s)
    transport.set_keepalive(_KEEPALIVE_S)
    return transport


def _open_temporary_file(stack: ExitStack) -> IO[bytes]:
    return stack.enter_context(tempfile.TemporaryFile())


def _make_transport(sock: Any) -> paramiko.Transport:
    """Return a transport that prefers ciphers without a MAC, which are faster.

    paramiko compares a MAC byte by byte, in Python, which takes half of the time of a
    short message.
    """
    transport = paramiko.Transport(sock)
    security = transport.get_security_options()
    security.ciphers = sorted(security.ciphers, key=lambda name: "gcm" not in name)
    return transport


def _require_readable(identity: Path) -> Path:
    """Return the file of the key that the user named, if it can be read."""
    try:
        plain.read_regular(identity, plain.SECRET_MAX)
    except OSError as error:
        raise HostError(
            f"cannot read the private key {identity}: {error.strerror}",
            id=ErrorId.SSH_KEY_UNREADABLE,
            hint="Name another file, or none: dbcheck then uses the keys that ssh "
            "would.",
        ) from None
    return identity


def _read_trust(config: Settings, options: SshOptions) -> tuple[Trust, list[Path]]:
    """Return the keys that the host is known by, and their files.

    Raise UsageError if one of them cannot be read.
    """
    files = config.known_hosts
    if options.known_hosts is not None:
        files = (options.known_hosts,)
    # /dev/null means no file.
    files = tuple(file for file in files if str(file) != os.devnull)
    name = make_known_hosts_name(config.host, config.port, config.alias)
    name_without_port = make_known_hosts_name(config.host, 22, config.alias)
    try:
        keys, keys_without_port = (
            look_up_host(name, files),
            look_up_host(name_without_port, files),
        )
    except OSError as error:
        hint = "Correct that file."
        if options.accept_new_host_key is not None:
            hint = "Correct that file, or name another with --known-hosts."
        raise UsageError(
            f"cannot read {error.filename or files}: {error.strerror or error}",
            id=ErrorId.KNOWN_HOSTS_UNREADABLE,
            hint=hint,
        ) from error
    if options.accept_new_host_key and not files:
        raise UsageError(
            f"there is no file to store the key of {config.host} in",
            id=ErrorId.KNOWN_HOSTS_UNREADABLE,
            hint="UserKnownHostsFile names none in ssh_config: name one with"
            " --known-hosts.",
        )
    new_keys_file = files[0] if options.accept_new_host_key else None
    return Trust(
        keys, keys_without_port, name_without_port, new_keys_file, config.revoked_keys
    ), [*files]


def _open_socket(
    config: Settings,
    limit_s: float,
    through: paramiko.Transport | None,
    stack: ExitStack,
    complaints: IO[bytes],
) -> socket.socket | paramiko.Channel:
    """Return a stream to the host: over a jump host, a proxy command, or directly.

    complaints: where to write what a proxy command says of its own failure.
    """
    place = (config.host, config.port)
    if through is not None:
        channel = through.open_channel(
            "direct-tcpip", place, ("127.0.0.1", 0), timeout=limit_s
        )
        return stack.enter_context(contextlib.closing(channel))
    if config.proxy_command is not None:
        return stack.enter_context(_run_proxy(config.proxy_command, complaints))
    sock = socket.create_connection(place, timeout=limit_s)
    stack.enter_context(sock)
    # Without TCP_NODELAY, a small batch waits for the reply to the batch before.  By
    # the other options a host that lost its power is noticed (tcp(7)).
    # TCP_USER_TIMEOUT is of Linux; elsewhere the limit is that of the caller who waits
    # for an answer.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
    return sock


@contextlib.contextmanager
def _run_proxy(command: str, complaints: IO[bytes]) -> Iterator[socket.socket]:
    """Run a proxy command (ssh_config(5)); yield our end of its streams."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            child = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                env=processes.make_environment(),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=complaints,
                start_new_session=True,
            )
        try:
            yield ours
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_PROXY_END_S)
                    break


def _advise_on_unknown_host(config: Settings, trust: Trust, files: list[Path]) -> str:
    """Return the advice for a host of which no key is known."""
    known_keys = trust.host
    sentences = [
        f"{place} names this host, but its key cannot be read."
        for place in known_keys.unread
    ]
    if authorities := known_keys.of(Marker.AUTHORITY):
        sentences.append(
            f"{authorities[0].place} names an authority for this host, but the host"
            " shows no certificate of that authority."
        )
    sentences.append("Compare this fingerprint with the host's own.")
    scan = f"ssh-keyscan -p {config.port} {config.host}"
    if not files:
        sentences.append(
            "Name a file for it by UserKnownHostsFile in ssh_config: there is none now."
        )
    elif config.alias is not None:
        sentences.append(
            f"Add the key, which `{scan}` shows, to {files[0]} under the name"
            f" {known_keys.name}."
        )
    else:
        file = files[0]
        if not file.parent.is_dir():  # as ~/.ssh of a new account
            scan = f"mkdir -p -m 700 {shlex.quote(str(file.parent))}; {scan}"
        sentences.append(f"Add the key: `{scan} >> {shlex.quote(str(file))}`.")
    return " ".join(sentences)


def _untrusted_host_error(
    error: UnknownHostKey | ChangedHostKey | RefusedHostKey, place: str, advice: str
) -> HostError:
    """Return the error about a host at *place*; advice: see _translate_errors()."""
    if isinstance(error, UnknownHostKey):
        return HostError(
            f"the host key of {place} is not known: {error}",
            id=ErrorId.HOST_KEY_UNKNOWN,
            hint=advice,
        )
    if isinstance(error, ChangedHostKey):
        return HostError(
            f"the host key of {place} has changed: {error}",
            id=ErrorId.HOST_KEY_CHANGED,
            hint="It is a different host or was reinstalled. If this is expected,"
            f" remove the old key, {error.known}.",
        )
    return HostError(
        f"{place} is not trusted: {error}",
        id=ErrorId.HOST_KEY_REFUSED,
        hint=error.hint,
    )


@contextlib.contextmanager
def _translate_errors(
    config: Settings, advice: str, complaints: IO[bytes]
) -> Iterator[None]:
    """Turn errors of connecting to a host into HostError.

    advice: for a host of which no key is known.
    complaints: what a proxy command wrote to standard error.
    """
    user, place = config.user, f"{config.host}:{config.port}"
    try:
        yield
    except (UnknownHostKey, ChangedHostKey, RefusedHostKey) as error:
        raise _untrusted_host_error(error, place, advice) from error
    except LockedKey as error:
        raise HostError(
            f"the key {error} for {user}@{place} is locked by a passphrase",
            id=ErrorId.SSH_KEY_LOCKED,
            hint="Add it to the ssh-agent (`ssh-add`).",
        ) from error
    except paramiko.AuthenticationException as error:
        raise HostError(
            f"{place} rejected the login of {user}: {str(error).rstrip('.')}",
            id=ErrorId.SSH_LOGIN_REJECTED,
            hint=f"Give it a key of yours: `ssh-copy-id -p {config.port}"
            f" {user}@{config.host}`. Then `ssh` logs in there without a password.",
        ) from error
    except BadKey as error:
        raise HostError(
            f"no login of {user} on {place}: {error}",
            id=ErrorId.SSH_KEY_UNREADABLE,
            hint="Name the file of the private key, not its .pub file.",
        ) from error
    except (paramiko.SSHException, EOFError) as error:
        raise _connection_error(config, str(error), complaints) from error
    except (OSError, UnicodeError) as error:
        raise HostError(
            f"cannot reach {place}: {_describe_error(error)}",
            id=ErrorId.HOST_UNREACHABLE,
            hint="Check the name, the network, and that the SSH server runs.",
        ) from error


def _describe_error(error: OSError | UnicodeError) -> str:
    """Return the reason why a host cannot be reached."""
    # Raised for a name that Python cannot look up or send.
    if isinstance(error, UnicodeError):
        return "it is not a valid host name"
    return error.strerror or str(error)


def _connection_error(config: Settings, why: str, complaints: IO[bytes]) -> HostError:
    """Return the error of a connection that ended before the login."""
    hint = "Check that an SSH server answers there."
    if config.proxy_command is not None:
        hint = "Run its ProxyCommand by hand, to see what that says."
        why = read_last_errors(complaints) or why
    return HostError(
        f"no SSH connection to {config.host}:{config.port}:"
        f" {why or 'connection closed'}",
        id=ErrorId.HOST_UNREACHABLE,
        hint=hint,
    )


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
        command = shlex.quote(make_bootstrap(len(program)))
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
        give_up = threading.Timer(
            self._options.connect_timeout_s, _close_channel, (channel,)
        )
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
def _translate_lost_connection() -> Iterator[None]:
    """Raise paramiko's errors of a lost connection as an OSError.

    Whatever sends a message, which is also close() and recv(), may raise EOFError
    (paramiko 5.1, Packetizer.write_all), or SSHException while keys are exchanged.
    """
    try:
        yield
    except (EOFError, paramiko.SSHException) as error:
        raise BrokenPipeError(str(error) or "the connection ended") from error


def _close_channel(channel: paramiko.Channel) -> None:
    """Close *channel*; never raises."""
    with contextlib.suppress(OSError), _translate_lost_connection():
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
            with contextlib.suppress(TimeoutError), _translate_lost_connection():
                sent = self._channel.send(data)
                if not sent:
                    raise BrokenPipeError("the channel is closed")
                data, ends_s = data[sent:], time.monotonic() + _STUCK_S
            if time.monotonic() > ends_s:
                raise BrokenPipeError(
                    f"the other end accepted no data for {_STUCK_S:g} s"
                )

    def receive(self, timeout_s: float | None) -> bytes:
        """Return the next bytes, b"" at the end; raise TimeoutError."""
        while True:
            # Never for ever: see send().
            self._channel.settimeout(_STUCK_S if timeout_s is None else timeout_s)
            try:
                with _translate_lost_connection():
                    return self._channel.recv(_READ_BYTES)
            except TimeoutError:
                if timeout_s is not None:
                    raise

    def finish(self) -> None:
        with _translate_lost_connection():
            self._channel.shutdown_write()

    def close(self) -> None:
        """End the channel; calls blocked in other threads return.  Never raises."""
        _close_channel(self._channel)

    def is_alive(self) -> bool:
        return not self._channel.closed and not self._channel.eof_received

    def stderr_text(self) -> str:
        """Return the text on standard error."""
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
