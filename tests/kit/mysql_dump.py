"""A program that dumps one database of MySQL, and loads it into a new server.

It reads all tables in one transaction, as `mysqldump --single-transaction` does, which
no package of Debian's stable releases has.  It reads the password of the account that
the URL names from CLIENT_PASSWORD_FILE.

    mysql_dump dump URL PORT FILE
    mysql_dump load URL SOCKET FILE
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mysql.connector
from sqlalchemy.engine import URL, make_url

_TRIES = 600


def _connect(**options: Any) -> Any:
    return mysql.connector.connect(use_pure=True, autocommit=True, **options)


def _read_password() -> str:
    return Path(os.environ["CLIENT_PASSWORD_FILE"]).read_text()


def _to_sql(value: Any) -> str:
    if value is None:
        return "null"
    return f"0x{bytes(value).hex()}" if isinstance(value, bytes | bytearray) else value


def _list_statements(cursor: Any, table: str) -> Iterator[str]:
    cursor.execute(f"show create table `{table}`")
    yield cursor.fetchone()[1].replace("\n", " ")
    cursor.execute(f"select * from `{table}`")
    for row in cursor:
        values = ", ".join(str(_to_sql(value)) or "''" for value in row)
        yield f"insert into `{table}` values ({values})"


def dump(url: URL, port: str, file: Path) -> None:
    """Write the statements that make the database anew, one a line."""
    link = _connect(
        **{"host": url.host, "port": int(port), "user": url.username},
        **{"password": _read_password(), "database": url.database},
    )
    cursor = link.cursor()
    cursor.execute("set session transaction isolation level repeatable read")
    cursor.execute("start transaction with consistent snapshot")
    cursor.execute("show tables")
    tables = [row[0] for row in cursor.fetchall()]
    with file.open("w") as out:
        for table in tables:
            out.writelines(f"{line}\n" for line in _list_statements(cursor, table))


def load(url: URL, socket: str, file: Path) -> None:
    """Make the database and the account on the server at *socket*, once it is up."""
    for left in reversed(range(_TRIES)):
        try:
            link = _connect(unix_socket=socket, user="root")
            break
        except mysql.connector.Error:
            if not left:
                raise
            time.sleep(0.1)
    cursor = link.cursor()
    account = f"`{url.username}`@'127.0.0.1'"
    cursor.execute(f"create user {account} identified by '{_read_password()}'")
    cursor.execute(f"grant all on *.* to {account} with grant option")
    cursor.execute(f"create database `{url.database}`")
    cursor.execute(f"use `{url.database}`")
    cursor.execute("start transaction")
    with file.open() as lines:
        for line in lines:
            cursor.execute(line)
    cursor.execute("commit")


if __name__ == "__main__":
    command, address, where, name = sys.argv[1:]
    {"dump": dump, "load": load}[command](make_url(address), where, Path(name))
