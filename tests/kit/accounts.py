"""The account that `dbcheck grants` describes, on a real server."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import mysql.connector.connection
import psycopg2
import pytest
import sqlalchemy.engine

from dbcheck.base.errors import EngineError
from dbcheck.cli.grants import Server, list_statements
from dbcheck.config.files import list_workload_names
from dbcheck.config.workload_file import load
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.cluster import SiteKind
from dbcheck.model.rights import GrantsResult
from dbcheck.ports.engine import Engine
from dbcheck.rows.plans.registry import usage_of
from dbcheck.server_log import Product
from tests.kit.servers import NewServer

PRODUCTS = {product.lower(): product for product in Product}
# The lab's own account is called dbcheck too, so this one gets another name.
ACCOUNT = "least"
USAGE = usage_of(load("insert"))
_SETTINGS = {
    "mysql": {"plugin_load_add": "mysql_clone.so"},  # the list names its table
    "postgresql": {"max_prepared_transactions": "20"},
}


def granted(
    name: str, workload: str = "insert", *, control: bool = False
) -> GrantsResult:
    """Return what `dbcheck grants` prints for a product and a workload."""
    return list_statements(Server(PRODUCTS[name]), load(workload), control=control)


def statements(
    name: str, *, optional: bool = False, workload: str = "insert"
) -> list[str]:
    """Return the statements for the smallest account that may run a workload.

    optional: in their place all that any workload or a control can have beside them.
    """
    found = granted(name, workload)
    required = [right.statement for right in found.rights if right.is_required]
    if not optional:
        return [*found.create, *required]
    all_rights = (
        right.statement
        for each in list_workload_names()
        for right in granted(name, each, control=True).rights
    )
    return [each for each in dict.fromkeys(all_rights) if each not in required]


CLUSTERS = {
    "postgresql": (SiteKind.STREAMING, Product.POSTGRESQL),
    "mysql": (SiteKind.SEMI_SYNC, Product.MYSQL),
    "mariadb": (SiteKind.SEMI_SYNC, Product.MARIADB),
    "galera": (SiteKind.GALERA, Product.MARIADB),
    "group-replication": (SiteKind.GROUP_REPLICATION, Product.MYSQL),
}


def of_a_cluster(name: str, *, cut: bool = False) -> list[str]:
    """Return the statements that the account of a cluster needs beside those.

    cut: all of its nodes are, so it is formed again, and a control comes first.
    """
    kind, product = CLUSTERS[name]
    workload = load("insert")
    alone, node = (
        list_statements(
            Server(product, topology=topology, forms_group=cut, promotes=True),
            workload,
            control=cut,
        )
        for topology in (SiteKind.SINGLE, kind)
    )
    return [right.statement for right in node.rights if right not in alone.rights]


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
    """A server with such an account, created statement by statement."""

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
        """Run a statement of the list, for the account under its other name."""
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
            self.engine().require_rights(USAGE)
        return caught.value


@pytest.fixture
def new_least(new_server: NewServer) -> Iterator[Callable[[str], Least]]:
    """Give a fresh server on which the account can be made."""
    made: list[Least] = []

    def make(name: str) -> Least:
        server = new_server(name)
        server.settings |= _SETTINGS.get(name, {})
        server.start()
        made.append(Least(server))
        return made[-1]

    yield make
    for one in made:
        one.connection.close()
