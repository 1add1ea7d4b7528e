"""Connections to a host over SSH, made the way the user's own `ssh` makes them."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko

from dbcheck import children, plain
from dbcheck.error_ids import ErrorId
from dbcheck.errors import HostError, UsageError
from dbcheck.remote.address import Address, Proxy, SshOptions
from dbcheck.remote.sshconfig import settings

log = logging.getLogger(__name__)
# Expected failures are reported by our own errors; without a handler of the program's
# own, what paramiko logs of them would go to standard error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_TOKEN = re.compile("%(.?)", re.DOTALL)  # TOKENS of ssh_config(5)
_KEEPALIVE_S = 5
# Data that is not acknowledged for so long ends a connection (tcp(7)).  TCP tries
# again after twice as long each time: after an outage of 20 s it may take 20 s more.
_SILENCE_MS = 60_000
_JUMPS_MAX = 8
_GRACE_S = 2.0
_KNOWN_HOSTS_MAX = 1 << 26  # bytes
_GLOBAL_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
_OR_ACCEPT = ", or pass --known-hosts with a file that has it, or --accept-new-host-key"
_USER_KNOWN_HOSTS = "~/.ssh/known_hosts ~/.ssh/known_hosts2"


class Connection:
    """An authenticated connection, and those that it goes through."""

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


class _UnknownHostKey(paramiko.SSHException):
    """A host presented a key, and none of that host is known."""


class _StrictPolicy(paramiko.MissingHostKeyPolicy):
    """Refuses unknown hosts, or stores their keys if that is allowed."""

    def __init__(self, store: Path | None) -> None:
        self._store = store

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Store the key of *hostname*, or raise _UnknownHostKey."""
        if self._store is None:
            raise _UnknownHostKey(f"{key.get_name()} {key.fingerprint}")
        self._store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        text = self._store.read_text() if self._store.exists() else ""
        start = "\n" if text and not text.endswith("\n") else ""
        with open(os.open(self._store, flags, 0o600), "a") as file:
            file.write(f"{start}{hostname} {key.get_name()} {key.get_base64()}\n")
        log.info("stored the host key of %s in %s", hostname, self._store)


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
        )
    config = settings(address.host, options.config_file)
    host = config.get("hostname", address.host)
    port = address.port or int(config.get("port", 22))
    user = address.user or config.get("user") or getpass.getuser()
    if options.proxy is not None:
        tokens = {"%": "%", "h": host, "n": address.host, "p": str(port), "r": user}
        config = {**config, **_proxied(options.proxy, tokens)}
    jumps = config.get("proxyjump", "none")
    if through is None and jumps != "none":
        # As by `ssh -J`: what is given for the last host says nothing of these.
        by_config = replace(options, identity_file=None, proxy=None)
        for jump in jumps.split(","):
            hop = Address.parse(jump.strip().removeprefix("ssh://"))
            through = _connect(hop, by_config, stack, depth=depth + 1, through=through)
    client = paramiko.SSHClient()
    files = _trust(client, config, options)
    choice = "" if options.accept_new_host_key is None else _OR_ACCEPT
    with _translated(user, host, port, f"{files[0]}`){choice}."):
        sock = _socket(host, port, config, options, through, stack)
        stack.enter_context(contextlib.closing(client))
        identity = options.identity_file
        client.connect(
            host,
            port,
            user,
            # A list is allowed; the stubs know of one name only.
            key_filename=_identities(config, options),  # type: ignore[arg-type]
            allow_agent=identity is None,
            look_for_keys=identity is None,
            sock=sock,
            timeout=options.connect_timeout_s,
            banner_timeout=options.connect_timeout_s,
            auth_timeout=options.connect_timeout_s,
            channel_timeout=options.connect_timeout_s,
            transport_factory=_quick,
        )
    transport = client.get_transport()
    assert transport is not None
    transport.set_keepalive(_KEEPALIVE_S)
    return transport


def _proxied(proxy: Proxy, tokens: Mapping[str, str]) -> dict[str, str | None]:
    """Return what *proxy* sets in a configuration, with its tokens replaced."""

    def value(found: re.Match[str]) -> str:
        if found[1] in tokens:
            return tokens[found[1]]
        raise UsageError(
            f"{found[0]} stands for nothing in a ProxyCommand or ProxyJump",
            id=ErrorId.SSH_ARGUMENT_NOT_SUPPORTED,
            hint="Write %% for the character; %h, %n, %p and %r are host, its name as"
            " given, port and user.",
        )

    if proxy.jump_is_none:
        return {"proxyjump": "none"}
    command = None if proxy.command.lower() == "none" else proxy.command
    return {
        "proxycommand": _TOKEN.sub(value, command) if command else None,
        "proxyjump": _TOKEN.sub(value, proxy.jump) or "none",
    }


def _quick(sock: Any, **options: Any) -> paramiko.Transport:
    """Return a transport that would rather have a cipher that needs no MAC.

    paramiko compares a MAC byte by byte, in Python: half of what a short message
    costs.
    """
    transport = paramiko.Transport(sock, **options)
    security = transport.get_security_options()
    security.ciphers = sorted(security.ciphers, key=lambda name: "gcm" not in name)
    return transport


def _identities(config: Mapping[str, Any], options: SshOptions) -> list[str]:
    """Return the key files to offer."""
    if options.identity_file is not None:
        try:
            plain.read(options.identity_file, plain.SECRET_MAX)
        except OSError as error:
            raise HostError(
                f"cannot read the private key {options.identity_file}: "
                f"{error.strerror}",
                id=ErrorId.SSH_KEY_UNREADABLE,
                hint="Name another file, or none: dbcheck then uses the keys that ssh "
                "would.",
            ) from None
        return [str(options.identity_file)]
    named = (os.path.expanduser(name) for name in config.get("identityfile", ()))
    return [name for name in named if os.path.isfile(name)]


def _trust(
    client: paramiko.SSHClient, config: Mapping[str, Any], options: SshOptions
) -> list[Path]:
    """Load the host keys that are known; return the files, the first to write to."""
    if options.known_hosts is not None:
        files = [options.known_hosts]
    else:
        own = config.get("userknownhostsfile", _USER_KNOWN_HOSTS)
        names = f"{own} {config.get('globalknownhostsfile', _GLOBAL_KNOWN_HOSTS)}"
        files = [Path(name).expanduser() for name in names.split()]
    for file in files:
        try:
            plain.require(file, _KNOWN_HOSTS_MAX)  # paramiko would wait for a FIFO
            client.load_system_host_keys(str(file))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, paramiko.SSHException) as error:
            raise UsageError(
                f"cannot read {file}: {error}", id=ErrorId.KNOWN_HOSTS_UNREADABLE
            ) from error
    store = files[0] if options.accept_new_host_key else None
    client.set_missing_host_key_policy(_StrictPolicy(store))
    return files


def _socket(
    host: str,
    port: int,
    config: Mapping[str, Any],
    options: SshOptions,
    through: paramiko.Transport | None,
    stack: ExitStack,
) -> socket.socket | paramiko.Channel:
    """Return a stream to *host*: over a jump host, a proxy command, or directly."""
    if through is not None:
        channel = through.open_channel(
            "direct-tcpip",
            (host, port),
            ("127.0.0.1", 0),
            timeout=options.connect_timeout_s,
        )
        return stack.enter_context(contextlib.closing(channel))
    if command := config.get("proxycommand"):
        return stack.enter_context(_proxy(command))
    sock = socket.create_connection((host, port), timeout=options.connect_timeout_s)
    stack.enter_context(sock)
    # Without the first, a small batch waits for the reply to the one before;
    # with the others, a host that lost its power is noticed (tcp(7)); the last is of
    # Linux, and elsewhere the limit is that of who waits for an answer.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
    return sock


@contextlib.contextmanager
def _proxy(command: str) -> Iterator[socket.socket]:
    """Run a proxy command (ssh_config(5)); give the other end of its streams."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            child = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                env=children.environment(),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            yield ours
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_GRACE_S)
                    break


@contextlib.contextmanager
def _translated(user: str, host: str, port: int, store: str) -> Iterator[None]:
    """Turn what can go wrong in connecting to a host into HostError.

    store: the file that would hold the key, and the end of the hint about it.
    """
    place = f"{host}:{port}"
    name = host if port == 22 else f"[{host}]:{port}"  # in known_hosts
    try:
        yield
    except _UnknownHostKey as error:
        raise HostError(
            f"the host key of {place} is not known: {error}",
            id=ErrorId.HOST_KEY_UNKNOWN,
            hint=f"Compare it with the host's own and add it (`ssh-keyscan -p {port} "
            f"{host} >> {store}",
        ) from error
    except paramiko.BadHostKeyException as error:
        raise HostError(
            f"the host key of {place} has changed: "
            f"{error.key.get_name()} {error.key.fingerprint}",
            id=ErrorId.HOST_KEY_CHANGED,
            hint="It is a different host or was reinstalled. If this is expected, "
            f"remove the old key (`ssh-keygen -R '{name}'`).",
        ) from error
    except paramiko.PasswordRequiredException as error:
        raise HostError(
            f"the key for {user}@{place} is locked by a passphrase",
            id=ErrorId.SSH_KEY_LOCKED,
            hint="Add it to the ssh-agent (`ssh-add`).",
        ) from error
    except paramiko.AuthenticationException as error:
        raise HostError(
            f"{place} rejected the login of {user}: {error}",
            id=ErrorId.SSH_LOGIN_REJECTED,
            hint="Check that `ssh` logs in there with a key, without a password.",
        ) from error
    except (paramiko.SSHException, EOFError) as error:
        hint = "Check that an SSH server answers there."
        if "private key" in str(error):  # of ours, and no server is to blame
            hint = "Name the file of the private key, not its .pub file."
        raise HostError(
            f"no SSH connection to {place}: {error or 'connection closed'}",
            id=ErrorId.HOST_UNREACHABLE,
            hint=hint,
        ) from error
    except OSError as error:
        raise HostError(
            f"cannot reach {place}: {error.strerror or error}",
            id=ErrorId.HOST_UNREACHABLE,
            hint="Check the name, the network, and that the SSH server runs.",
        ) from error
