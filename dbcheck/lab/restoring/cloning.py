"""Has a MySQL server copy itself by its plugin clone, as a process of its own.

It is started as `python -m dbcheck.lab.restoring.cloning PORT USER SECRET COPY`: the
server's port of 127.0.0.1, the account, the file with its password, and the folder that
the server is to make.  It ends with 1, and a message, if the server refuses.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import mysql.connector

from dbcheck.lab.network import LOOPBACK

# MySQL 8.4 manual, 7.6.7.1 and 7.6.7.2.
_FIND = "select 1 from information_schema.plugins where plugin_name = 'clone'"
_INSTALL = "install plugin clone soname 'mysql_clone.so'"
_CLONE = "clone local data directory = %s"
_CONNECT_S = 10


def clone(port: int, user: str, password: str, copy: Path) -> None:
    """Have the server at *port* make *copy*; raise mysql.connector.Error.

    The lab's server has the port, so no other process gets the password.
    """
    link: Any = mysql.connector.connect(
        host=LOOPBACK,
        port=port,
        user=user,
        password=password,
        connection_timeout=_CONNECT_S,
    )
    with contextlib.closing(link), contextlib.closing(link.cursor()) as cursor:
        if not _has_plugin(cursor):
            cursor.execute(_INSTALL)
        cursor.execute(_CLONE, (str(copy),))  # the path may hold a quotation mark


def _has_plugin(cursor: Any) -> bool:
    """Return True if the server has the plugin already, as by its settings."""
    cursor.execute(_FIND)
    return bool(cursor.fetchall())


def main() -> None:
    """Clone the server that the arguments name."""
    port, user, secret, copy = sys.argv[1:]
    password = Path(secret).read_text("ascii")
    try:
        clone(int(port), user, password, Path(copy))
    except mysql.connector.Error as error:
        sys.exit(f"the server did not clone itself: {error}")


if __name__ == "__main__":
    main()
