"""The driver's connection, which never sends a password that others can read."""

from __future__ import annotations

from typing import Any

import mysql.connector
from mysql.connector.authentication import MySQLAuthenticator
from mysql.connector.connection import MySQLConnection
from mysql.connector.network import MySQLTCPSocket

# MySQL 9.7 client, CR_AUTH_PLUGIN_ERR; its own client fails in this place as well.
INSECURE = 2061

# Payload by which the server asks for the password itself, its cache being cold
# (MySQL 9.7, sql/auth/sha2_password.cc, perform_full_authentication).
_FULL_AUTHENTICATION = b"\x01\x04"
_HEADER_BYTES = 4


class SafeConnection(MySQLConnection):
    """A connection in pure Python, opened by its constructor.

    Pure, since the C extension cannot be severed while it waits.  Where an account
    with caching_sha2_password would need TLS, the driver sends the password in clear
    over TCP, which is refused with 1045 as well; here that fails with INSECURE instead.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._authenticator = _Authenticator()
        try:
            self.connect(**arguments)
        except BaseException:
            self.close()
            raise


class _Authenticator(MySQLAuthenticator):
    """Authenticates over a socket that is guarded unless it is secure."""

    def authenticate(self, sock: Any, *args: Any, **kwargs: Any) -> bytes:
        """Return the server's answer to a login that it took."""
        if isinstance(sock, MySQLTCPSocket) and not self.ssl_enabled:
            sock = _Guarded(sock)
        answer: bytes = super().authenticate(sock, *args, **kwargs)
        return answer


class _Guarded:
    """A socket over which nobody may ask for the password itself."""

    def __init__(self, sock: MySQLTCPSocket) -> None:
        self._socket = sock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv(self, *args: Any) -> bytearray:
        """Return the next packet; raise InterfaceError if it asks for that."""
        packet: bytearray = self._socket.recv(*args)
        if packet[_HEADER_BYTES:] == _FULL_AUTHENTICATION:
            raise mysql.connector.InterfaceError(
                "the server wants the password itself, and the connection has no TLS",
                errno=INSECURE,
            )
        return packet
