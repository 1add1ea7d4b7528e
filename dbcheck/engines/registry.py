"""Which engine speaks to which URL; imported on use, for drivers load slowly.

So does SQLAlchemy, which reads the URL: a quarter of a second.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.ports.engine import Engine

ENGINES = {
    "postgresql": "dbcheck.engines.postgresql.engine:PostgresqlEngine",
    "postgresql+psycopg2": "dbcheck.engines.postgresql.engine:PostgresqlEngine",
    "yugabytedb": "dbcheck.engines.postgresql.yugabytedb:YugabyteEngine",
    "yugabytedb+psycopg2": "dbcheck.engines.postgresql.yugabytedb:YugabyteEngine",
    "cockroachdb": "dbcheck.engines.postgresql.cockroachdb:CockroachEngine",
    "cockroachdb+psycopg2": "dbcheck.engines.postgresql.cockroachdb:CockroachEngine",
    "mysql": "dbcheck.engines.mysql.engine:MysqlEngine",
    "mysql+mysqlconnector": "dbcheck.engines.mysql.engine:MysqlEngine",
    "mariadb": "dbcheck.engines.mysql.engine:MysqlEngine",
    "mariadb+mysqlconnector": "dbcheck.engines.mysql.engine:MysqlEngine",
}


def open_engine(url: str, password: str | None = None) -> Engine:
    """Return the engine for *url*; nothing is connected yet.

    Without a *password*, what the server's own clients would take is taken
    (PGPASSWORD, ~/.pgpass, MYSQL_PWD, ~/.my.cnf).  Raise UsageError for an unknown
    driver, or a URL that holds a password.
    """
    from dbcheck.engines.url import read_url

    name = read_url(url).drivername
    try:
        module, attribute = ENGINES[name].split(":")
    except KeyError:
        hint = f"Known are {', '.join(sorted(ENGINES))}."
        if name.split("+")[0] == "postgres":
            hint = "Write postgresql:// in place of postgres://."
        raise UsageError(
            f"unknown engine {name!r} in the target's URL",
            id=ErrorId.ENGINE_UNKNOWN,
            hint=hint,
        ) from None
    engine: Callable[[str, str | None], Engine]
    engine = getattr(importlib.import_module(module), attribute)
    return engine(url, password)
