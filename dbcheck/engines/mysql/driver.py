"""All that dbcheck uses of mysql-connector-python beyond its documented interface.

Four things need it.  The driver can only block, so a session of the load sends and
reads packets over the driver's socket itself.  It makes Python objects of every row,
which takes ten times as long as the server takes to send them, so rows are read from
that socket as well.  It reads each packet by two calls of the system, each of which
may wait for the interpreter, so what is asked often beside a load does without it.  And
the driver gives the password to any server that asks for it, so its authentication is
replaced.

None of these names is promised to stay: setup.cfg excludes the next major version,
require_supported() refuses it, and tests/unit/test_mysql_driver.py checks each name.
"""

from __future__ import annotations

import socket

import mysql.connector
from mysql.connector.authentication import MySQLAuthenticator as MySQLAuthenticator
from mysql.connector.connection import MySQLConnection
from mysql.connector.constants import ClientFlag
from mysql.connector.network import MySQLTCPSocket as MySQLTCPSocket

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError

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
        """Whether packets are compressed, so that nothing but the driver reads them."""
        return bool(self._client_flags & ClientFlag.COMPRESS)

    @property
    def has_query_attributes(self) -> bool:
        """Whether statements carry attributes (MySQL from 8.0.23 on)."""
        return bool(self._client_flags & ClientFlag.CLIENT_QUERY_ATTRIBUTES)

    def forget_rows(self) -> None:
        """Let the driver run the next statement: its rows were read from wire()."""
        self.unread_result = False
