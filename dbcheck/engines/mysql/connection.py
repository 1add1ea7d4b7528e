"""The driver's connection, which gives the password to no server it cannot trust.

A login plugin either answers a challenge, which shows the server that the client knows
the password, or sends the password itself.  The server names the plugin.  So a server
that is not verified over TLS may send challenges only; and without TLS, no server may
ask for the password.  On this machine the kernel shows which account is at the other
end.  At a Unix socket it is the server itself if only that account may make the socket.
At a port of this machine, a server that is not verified may ask for the password
as caching_sha2_password does, if it runs as root (as a proxy of a container's port
does), as this user, or as an account of MySQL's and MariaDB's packages.  Each of
these accounts could read the password in other ways, or the databases themselves.

This is the only module that uses internals of the driver, mysql-connector-python.  Four
things need them.  The driver gives the password to any server that asks for it, so its
authentication is replaced.  It can only block, so a session of the load sends and reads
packets over the driver's socket itself.  It makes Python objects of every row, which
takes ten times as long as the server takes to send them, so rows are read from that
socket as well.  It reads each packet by two system calls, each of which may wait for
the interpreter, so queries that are repeated during a load do without it.

None of the internal names is promised to stay: setup.cfg excludes the next major
version, require_supported() refuses it, and tests/unit/engines/test_mysql_driver.py
checks each name.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mysql.connector
from mysql.connector.authentication import MySQLAuthenticator as MySQLAuthenticator
from mysql.connector.connection import MySQLConnection
from mysql.connector.constants import ClientFlag
from mysql.connector.network import MySQLTCPSocket as MySQLTCPSocket

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.engines.link import (
    ANSWER_BYTES,
    UNREADABLE,
    Overrun,
    count_received_bytes,
    deadline,
)
from dbcheck.engines.peer import find_account_id, is_servers_port, is_servers_socket

VERSION_MIN, MAJOR_MAX = (26, 10), 26  # as in setup.cfg


def require_supported(version: tuple[int, ...] | None = None) -> None:
    """Raise UsageError unless the driver's *version* is one that dbcheck works with.

    version: (major, minor, ...); None for the installed one.
    """
    found = version or mysql.connector.__version_info__[:3]
    if found[:2] < VERSION_MIN or found[0] > MAJOR_MAX:
        least = ".".join(map(str, VERSION_MIN))
        raise UsageError(
            f"mysql-connector-python {'.'.join(map(str, found))} is not supported:"
            f" dbcheck needs version {least} or newer, below {MAJOR_MAX + 1}",
            id=ErrorId.DRIVER_NOT_SUPPORTED,
            hint=f'Run: pip install "mysql-connector-python>={least},<{MAJOR_MAX + 1}"',
        )


class OpenConnection(MySQLConnection):
    """The driver's connection with the parts that dbcheck needs, not yet connected."""

    def __init__(self, authenticator: MySQLAuthenticator) -> None:
        """Log in by *authenticator* in place of the driver's own."""
        super().__init__()
        self._authenticator = authenticator

    def wire(self) -> socket.socket | None:
        """Return the driver's socket, which only the driver closes; None if closed."""
        return None if self._socket is None else self._socket.sock

    @property
    def is_compressed(self) -> bool:
        """True if packets are compressed, so that nothing but the driver reads them."""
        return bool(self._client_flags & ClientFlag.COMPRESS)

    @property
    def has_query_attributes(self) -> bool:
        """True if statements carry attributes (MySQL from 8.0.23 on)."""
        return bool(self._client_flags & ClientFlag.CLIENT_QUERY_ATTRIBUTES)

    def forget_rows(self) -> None:
        """Let the driver run the next statement: its rows were read from wire()."""
        self.unread_result = False


# Without a handler, Python would print the server's messages that it logs.
logging.getLogger("mysql.connector").addHandler(logging.NullHandler())

# MySQL 9.7 client, CR_AUTH_PLUGIN_ERR; its own client fails in this place as well.
INSECURE = 2061

# Payload by which the server asks for the password itself, its cache being cold
# (MySQL 9.7, sql/auth/sha2_password.cc, perform_full_authentication).
_MORE = b"\x01"
_FULL_AUTHENTICATION = _MORE + b"\x04"
_HEADER_BYTES = 4
# First bytes of payloads that name a plugin: AuthSwitchRequest, AuthNextFactor ("MySQL
# Source Code Documentation", Connection Phase).
_NAMING = (0xFE, 0x02)

_CHALLENGE = "mysql_native_password"
# Of it a server with a cold cache asks for the password, and every cache is cold after
# a power cut.
_CACHING = "caching_sha2_password"
_REVEALING = frozenset({_CACHING, "sha256_password", "mysql_clear_password"})
# It runs the servers of the packages of Debian, Red Hat, SUSE, Arch, MySQL and MariaDB.
_OF_PACKAGES = "mysql"


_MayAsk = Callable[[str], bool]  # whether by the plugin of that name


class Unverified(mysql.connector.InterfaceError):
    """The server asks for what only a server that is verified may have."""


class SafeConnection(OpenConnection):
    """A connection in pure Python, opened by its constructor.

    Pure, since the C extension cannot be severed while it waits.  Where an account
    with caching_sha2_password would need TLS, the driver sends the password in clear
    over TCP, which is refused with 1045 as well; here that fails with INSECURE instead.
    The server gets no file of this machine, whatever it asks for (LOAD DATA LOCAL).
    """

    def __init__(
        self, login_s: float, *, server_account: int | None = None, **arguments: Any
    ) -> None:
        """Connect and log in.

        login_s: for all of that, since the driver's own limit is for each packet, and
        for none of the settings that it makes in the end.  server_account: who runs the
        server where it is on this machine, if the user has named that account.
        """
        super().__init__(_Authenticator(arguments, server_account))
        try:
            self.config(
                **arguments, allow_local_infile=False, allow_local_infile_in_path=None
            )
            with deadline(
                login_s,
                self.shutdown,
                lambda: count_received_bytes(self.wire()),
                ANSWER_BYTES,
            ) as overrun:
                self._log_in(overrun, login_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection, and the socket, whatever the driver meets at that."""
        wire = self.wire()
        try:
            super().close()
        finally:
            if wire is not None:
                wire.close()

    def _log_in(self, overrun: Overrun, login_s: float) -> None:
        try:
            with translate_unreadable_answers():
                self.connect()
        except (mysql.connector.Error, OSError):
            if overrun.is_flood:
                raise mysql.connector.InterfaceError(
                    f"the server sent more than {ANSWER_BYTES >> 20} MiB at the login"
                ) from None
            if overrun.is_late:
                raise mysql.connector.InterfaceError(
                    f"the login took longer than {login_s:g} s"
                ) from None
            raise


@contextlib.contextmanager
def translate_unreadable_answers() -> Iterator[None]:
    """Turn what the driver raises over an answer that it cannot read into its Error."""
    try:
        yield
    except (*UNREADABLE, ImportError) as error:  # the latter for a plugin's name
        raise mysql.connector.InterfaceError(
            f"cannot read the server's answer ({type(error).__name__}: {error})"
        ) from error


class _Authenticator(MySQLAuthenticator):
    """Authenticates over a socket that is guarded unless it is secure."""

    def __init__(
        self, arguments: Mapping[str, Any], server_account: int | None
    ) -> None:
        super().__init__()
        self._named = frozenset(() if server_account is None else (server_account,))
        # The driver's default as well, so only who has decided it writes it.
        self._any_server = arguments.get("ssl_verify_cert") is False
        self._must_verify = not arguments.get("ssl_disabled") and bool(
            arguments.get("ssl_verify_cert") or arguments.get("ssl_verify_identity")
        )
        self._verified = False

    def setup_ssl(
        self,
        sock: Any,
        host: str,
        ssl_options: dict[str, Any] | None,
        *args: Any,
        **kwargs: Any,
    ) -> bytes:
        """Begin TLS; note whether that verifies the server."""
        trusting: Any = _Trusting(sock)
        sent: bytes = super().setup_ssl(trusting, host, ssl_options, *args, **kwargs)
        ssl_options = ssl_options or {}
        # Anyone can get a certificate from the system's authorities, for another name.
        self._verified = bool(
            ssl_options.get("verify_identity")
            or (ssl_options.get("verify_cert") and ssl_options.get("ca"))
        )
        return sent

    def authenticate(
        self, sock: Any, handshake: Any, *args: Any, **kwargs: Any
    ) -> bytes:
        """Return the server's answer to a login that it took."""
        is_tcp = isinstance(sock, MySQLTCPSocket)
        may_ask = self._limit(sock, is_tcp)
        if may_ask is not None:
            if not any(kwargs[f"password{n}"] for n in (1, 2, 3)):
                may_ask = (_REVEALING | {_CHALLENGE}).__contains__  # nothing to reveal
            asked = kwargs["auth_plugin"]
            _require_allowed_plugin(asked or _CHALLENGE, may_ask)
            # What the server names first is its default, and need not be the
            # account's: it answers with the account's own.
            if not asked and not may_ask(handshake["auth_plugin"]):
                kwargs["auth_plugin"] = _CHALLENGE
        guarded: Any = _Guarded(sock, may_ask, self.ssl_enabled or not is_tcp)
        answer: bytes = super().authenticate(guarded, handshake, *args, **kwargs)
        return answer

    def _limit(self, sock: Any, is_tcp: bool) -> _MayAsk | None:
        """Return the plugins that the other end may ask for, None if any.

        Whose a port is, is looked up only if a plugin depends on it.  Raise Unverified
        if the server had to be verified and offers no TLS.
        """
        wire: socket.socket = sock.sock
        if self._verified:
            return None
        if not is_tcp and is_servers_socket(wire, sock.unix_socket, self._named):
            return None
        if self._must_verify and not self.ssl_enabled:
            raise Unverified("the server offers no TLS, so it cannot be verified")
        if self._any_server:
            return None
        return lambda plugin: (
            plugin == _CHALLENGE
            or (plugin == _CACHING and is_tcp and self._has_port(wire))
        )

    def _has_port(self, wire: socket.socket) -> bool:
        """Return True if the kernel shows that the server is behind that port."""
        usual = find_account_id(_OF_PACKAGES)
        accounts = self._named or frozenset(() if usual is None else (usual,))
        return is_servers_port(wire, accounts)


def _require_allowed_plugin(plugin: str, may_ask: _MayAsk | None) -> None:
    if may_ask is not None and not may_ask(plugin):
        raise Unverified(
            f"the account logs in by {plugin}, which can reveal the password to the"
            " server, and the server is not verified"
        )


class _Wrapped:
    """One of the driver's sockets; what is not defined here is its own."""

    def __init__(self, sock: Any) -> None:
        self._socket = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class _Guarded(_Wrapped):
    """A socket over which a plugin is only asked for if the server *may_ask* for it.

    may_ask: None for any.  If it *is_secret* what the socket carries, it may also carry
    the password.
    """

    def __init__(self, sock: Any, may_ask: _MayAsk | None, is_secret: bool) -> None:
        super().__init__(sock)
        self._may_ask, self._is_secret = may_ask, is_secret

    def recv(self, *args: Any) -> bytearray:
        """Return the next packet; raise InterfaceError if it asks for what it may not.

        Each packet of a login passes here, whatever plugin reads it.
        """
        packet: bytearray = self._socket.recv(*args)
        body = bytes(packet[_HEADER_BYTES:])
        if body[:1] and body[0] in _NAMING:
            name, _, data = body[1:].partition(b"\0")
            _require_allowed_plugin(name.decode("utf-8", "replace"), self._may_ask)
            # The driver reads the nonce of a switch as it reads what comes after it.
            body = _MORE + data.removesuffix(b"\0")
        if body == _FULL_AUTHENTICATION and not self._is_secret:
            raise mysql.connector.InterfaceError(
                "the server requests the password itself, and the connection has no"
                " TLS",
                errno=INSECURE,
            )
        return packet


class _Trusting(_Wrapped):
    """A socket that trusts the user's authority, if there is one, and then no other.

    The driver would trust all of the system's as well, which certify anyone.
    """

    def build_ssl_context(
        self,
        ssl_ca: str | None,
        ssl_cert: str | None,
        ssl_key: str | None,
        ssl_verify_cert: bool,
        ssl_verify_identity: bool,
        tls_versions: list[str] | None,
        tls_cipher_suites: list[str] | None,
    ) -> ssl.SSLContext:
        """Build the driver's context with the user's own authorities; raise OSError.

        A connection that verifies nothing does not load those of the system, over a
        hundred certificates.
        """
        verifies = ssl_verify_cert or ssl_verify_identity
        try:
            if ssl_ca or verifies:
                context = ssl.create_default_context(cafile=ssl_ca or None)
            else:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        except OSError as error:
            raise _unusable_file_error(ssl_ca, error) from None
        # Python 3.13 sets it, and the authority that MySQL makes of its own is not so.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = bool(ssl_verify_identity)
        if not verifies:
            context.verify_mode = ssl.CERT_NONE
        if tls_versions:
            versions = sorted(each.replace(".", "_") for each in tls_versions)
            context.minimum_version = ssl.TLSVersion[versions[0]]
            context.maximum_version = ssl.TLSVersion[versions[-1]]
        if tls_cipher_suites and context.maximum_version is ssl.TLSVersion.TLSv1_2:
            context.set_ciphers(":".join(tls_cipher_suites))
        if ssl_cert:
            try:
                context.load_cert_chain(ssl_cert, ssl_key)
            except OSError as error:
                raise _unusable_file_error(ssl_cert, error) from None
        return context


def _unusable_file_error(file: str | None, error: OSError) -> mysql.connector.Error:
    return mysql.connector.InterfaceError(
        f"cannot use the certificate file {file}: {error.strerror or error}"
    )
