"""Which server of the MySQL family answers in a connection."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from dbcheck.core.server import DATA_NAME
from dbcheck.engines.answering import Answering
from dbcheck.engines.link import Link
from dbcheck.errors import EngineError

# What must be the same after a restart: variables, and the name of MariaDB's data.
_BOTH = ("hostname", "datadir", "port", "version")
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "MySQL": ("server_uuid", *_BOTH),
    "MariaDB": ("server_id", *_BOTH),
}


def answering(link: Link, product: str) -> Answering:
    """Ask the server behind *link*; raise EngineError if it does not answer.

    MariaDB's data can be identified only by a connection in dbcheck's database.
    """
    *values, started_s = link.row(f"answering_{product.lower()}")
    identity = dict(zip(VARIABLES[product], map(str, values), strict=True))
    if product == "MariaDB":
        with contextlib.suppress(EngineError):
            for (name,) in link.rows("identity"):
                identity[DATA_NAME] = name
    return Answering(started_s * 1_000_000, identity=identity)
