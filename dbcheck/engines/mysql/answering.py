"""Identifies the server of the MySQL family that answers in a connection."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from dbcheck.base.errors import EngineError
from dbcheck.engines.link import Link
from dbcheck.engines.peer import Answering
from dbcheck.model.server import DATA_NAME
from dbcheck.server_log import Product

# The variables that must be the same after a restart; of MariaDB the name that dbcheck
# gave the data is compared as well (identify_server()).
_VARIABLES_OF_BOTH = ("hostname", "datadir", "port", "version")
VARIABLES: Mapping[str, tuple[str, ...]] = {
    Product.MYSQL: ("server_uuid", *_VARIABLES_OF_BOTH),
    Product.MARIADB: ("server_id", *_VARIABLES_OF_BOTH),
}
_REPLICA_STATEMENTS: Mapping[str, tuple[str, ...]] = {
    Product.MYSQL: ("replica_status", "replica_status_8_0_21"),
    Product.MARIADB: ("replica_status_mariadb",),
}
_CHANNELS_OF_GROUP = {"group_replication_applier", "group_replication_recovery"}


def identify_server(link: Link, product: Product) -> Answering:
    """Ask the server behind *link*; raise EngineError if it does not answer.

    MariaDB's data can be identified only by a connection in dbcheck's database.
    """
    *values, started_s = link.row(f"answering_{product.lower()}")
    identity = dict(zip(VARIABLES[product], map(str, values), strict=True))
    if product is Product.MARIADB:
        with contextlib.suppress(EngineError):
            for (name,) in link.rows("identity"):
                identity[DATA_NAME] = name
    return Answering(
        started_s * 1_000_000,
        standby=is_replica(link, product) is True,
        identity=identity,
    )


def is_replica(link: Link, product: Product) -> bool | None:
    """Return whether the server follows another; None if the account may not see it.

    The rows of a replica may come from the other server.  The channels by which the
    members of a group give each other transactions do not count (MySQL 9.7 manual,
    19.2.2.4 Replication Channel Naming Conventions).
    """
    for statement in _REPLICA_STATEMENTS[product]:
        with contextlib.suppress(EngineError):  # an older server does not know it
            return any(
                not _CHANNELS_OF_GROUP & set(map(str, row))
                for row in link.rows(statement)
            )
    return None


def read_uptime(link: Link) -> tuple[dict[str, str], int, int]:
    """Return the status variables, the second in which they were read, and the clock.

    Uptime is the difference of two whole seconds: the second in which its statement
    began, and the second in which the server started.  If Uptime and the clock are read
    within one second, their difference is exactly the second of the start: it stays the
    same as long as the process lives.
    """
    while True:
        _, before = link.row("clock")
        status = dict(link.rows("uptime"))
        clock_us, after = link.row("clock")
        if before == after:
            return status, after, clock_us
