"""The account of docs/privileges.md on a real server."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mysql.connector.connection
import psycopg2
import pytest
import sqlalchemy.engine

from dbcheck.base.errors import EngineError
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.ports.engine import Engine
from dbcheck.rows.plans.plan import INSERT
from tests.kit.servers import NewServer

DOCUMENT = Path(__file__).parents[2] / "docs" / "privileges.md"
SECTIONS = {"postgresql": "PostgreSQL", "mariadb": "MariaDB", "mysql": "MySQL"}
# The lab's own account is called dbcheck too, so the document's gets another name.
ACCOUNT = "least"


def statements(name: str, *, optional: bool = False) -> list[str]:
    """Return the SQL statements of a section of the document."""
    text = DOCUMENT.read_text("utf-8")
    section = text.split(f"\n## {SECTIONS[name]}\n")[1].split("\n## ")[0]
    required, _, rest = section.partition("\n### Optional\n")
    blocks = re.findall(r"```sql\n(.*?)```", rest if optional else required, re.S)
    return [line for block in blocks for line in block.splitlines()]


CLUSTERS = {
    "postgresql": "Streaming replication of PostgreSQL",
    "mysql": "Replication of MySQL",
    "mariadb": "Replication of MariaDB",
    "galera": "MariaDB Galera Cluster",
    "group-replication": "MySQL Group Replication",
}


def of_a_cluster(name: str, *, cut: bool = False) -> list[str]:
    """Return the statements that the account of a cluster needs beside those.

    cut: all of its nodes are, so it is formed again.
    """
    text = DOCUMENT.read_text("utf-8").split(f"\n### {CLUSTERS[name]}\n")[1]
    section = re.split(r"\n##", text)[0]
    first, *rest = re.findall(r"```sql\n(.*?)```", section, re.S)
    blocks = [first, *rest] if cut else [first]
    return [line for block in blocks for line in block.splitlines()]


def connect(server: DatabaseServer, database: str) -> Any:
    """Return a connection, in autocommit mode, of the account that may do it all."""
    return connect_to(server.url, server.password, database)


def connect_to(url: str, password: str, database: str) -> Any:
    """Return a connection, in autocommit mode, of the account in *url*."""
    parsed = sqlalchemy.engine.make_url(url)
    connection: Any
    if parsed.get_backend_name() == "postgresql":
        connection = psycopg2.connect(
            host=parsed.host,
            port=parsed.port,
            user=parsed.username,
            dbname=database,
            password=password,
        )
    else:
        connection = mysql.connector.connection.MySQLConnection(
            host=parsed.host,
            port=parsed.port,
            user=parsed.username,
            database=database,
            password=password,
        )
    connection.autocommit = True
    return connection


class Least:
    """A server with the document's account, created statement by statement."""

    def __init__(self, server: DatabaseServer) -> None:
        self.server = server
        self.password = secrets.token_urlsafe(12)
        self.connection = connect(
            server, sqlalchemy.engine.make_url(server.url).database or ""
        )
        self.url = sqlalchemy.engine.make_url(server.url).set(
            username=ACCOUNT, database="dbcheck"
        )
        if server.name != "postgresql":
            self.execute("drop database dbcheck")

    def execute(self, statement: str) -> None:
        """Run a statement as the administrator."""
        self.connection.cursor().execute(statement)

    def run(self, statement: str) -> None:
        """Run a statement of the document, for the account under its other name."""
        text = statement.replace("CHANGE-ME", self.password)
        text = text.replace("dbcheck@'%'", f"{ACCOUNT}@'%'")
        text = text.replace("role dbcheck", f"role {ACCOUNT}")
        text = re.sub("(to|from) dbcheck;", rf"\1 {ACCOUNT};", text)
        if "extension" in text or "function" in text:
            with contextlib.closing(connect(self.server, "dbcheck")) as connection:
                connection.cursor().execute(text)
        else:
            self.execute(text)

    def engine(self) -> Engine:
        return open_engine(self.url.render_as_string(), self.password)

    def refusal(self) -> EngineError:
        with pytest.raises(EngineError, match="the account|Access denied") as caught:
            self.engine().check((INSERT,))
        return caught.value


@pytest.fixture
def new_least(new_server: NewServer) -> Iterator[Callable[[str], Least]]:
    """Make an account of the document's name for it, on a fresh server."""
    made: list[Least] = []

    def make(name: str) -> Least:
        server = new_server(name)
        if name == "mysql":  # the document grants SELECT on a table of this plugin
            server.settings["plugin_load_add"] = "mysql_clone.so"
        server.start()
        made.append(Least(server))
        return made[-1]

    yield make
    for one in made:
        one.connection.close()
