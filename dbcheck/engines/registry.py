"""Maps URLs to engines; imported on use, for drivers load slowly.

So does SQLAlchemy, which reads the URL: a quarter of a second.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.text import join_words
from dbcheck.ports.engine import Engine
from dbcheck.server_log import Product

# libpq takes postgres:// as well (PostgreSQL 17 manual, 34.1.1.2 Connection URIs).
ENGINES = {
    "postgres": "dbcheck.engines.postgresql.engine:PostgresqlEngine",
    "postgres+psycopg2": "dbcheck.engines.postgresql.engine:PostgresqlEngine",
    "postgresql": "dbcheck.engines.postgresql.engine:PostgresqlEngine",
    "postgresql+psycopg2": "dbcheck.engines.postgresql.engine:PostgresqlEngine",
    "mysql": "dbcheck.engines.mysql.engine:MysqlEngine",
    "mysql+mysqlconnector": "dbcheck.engines.mysql.engine:MysqlEngine",
    "mariadb": "dbcheck.engines.mysql.engine:MysqlEngine",
    "mariadb+mysqlconnector": "dbcheck.engines.mysql.engine:MysqlEngine",
}
# What is said where another product is refused, by its URL or by what it shows.
JUDGED = f"dbcheck judges {join_words(Product, 'and')} only"
NAME_ANOTHER = f"Name a server of {join_words(Product, 'or')} in the URL."
# Schemes that others' drivers for SQLAlchemy have, and the product that each means.
_OTHERS = {"cockroachdb": "CockroachDB", "yugabytedb": "YugabyteDB"}


def find_product(url: str) -> Product:
    """Return the product that the scheme of *url* names; nothing is contacted.

    A server behind mysql:// may be MariaDB all the same.  Raise UsageError as
    open_engine() does.
    """
    scheme = _read_driver_name(url).split("+")[0]
    named = "postgresql" if scheme == "postgres" else scheme
    return next(product for product in Product if product.lower() == named)


def open_engine(url: str, password: str | None = None) -> Engine:
    """Return the engine for *url*; nothing is connected yet.

    Without a *password*, what the server's own clients would take is taken
    (PGPASSWORD, ~/.pgpass, MYSQL_PWD, ~/.my.cnf).  Raise UsageError for an unknown
    driver, another product, or a URL that holds a password.
    """
    module, attribute = ENGINES[_read_driver_name(url)].split(":")
    engine: Callable[[str, str | None], Engine]
    engine = getattr(importlib.import_module(module), attribute)
    return engine(url, password)


def _read_driver_name(url: str) -> str:
    """Return the key of ENGINES in *url*; raise UsageError if it has none."""
    from dbcheck.engines.url import read_url

    name = read_url(url).drivername
    scheme = name.split("+")[0]
    if product := _OTHERS.get(scheme):
        raise UsageError(
            f"the target is {product} by its URL, not PostgreSQL: {JUDGED}",
            id=ErrorId.SERVER_NOT_SUPPORTED,
            hint=NAME_ANOTHER,
        )
    if name not in ENGINES:
        raise UsageError(
            f"unknown engine {name!r} in the target's URL",
            id=ErrorId.ENGINE_UNKNOWN,
            hint=f"Known are {', '.join(sorted(ENGINES))}.",
        )
    return name
