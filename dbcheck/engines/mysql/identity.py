"""By what a server of the MySQL family, and a table, are recognised after a cut.

MySQL keeps server_uuid in its data directory (auto.cnf).  MariaDB has nothing like it:
its server_uid is computed at each start from the network card's hardware address and
the port (sql/mysqld.cc, calculate_server_uid()), so it changes with the card and stays
with another data directory.  There dbcheck keeps a UUID of its own in a table, which
goes where the data go.  A replica has that row as well, but another server_id.  So it
does with a managed service, whose failover leads to another server of the same data.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError
from dbcheck.engines.mysql.answering import VARIABLES
from dbcheck.engines.mysql.check import product_of
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.places import folder_of
from dbcheck.engines.tables import MARK
from dbcheck.model.server import DATA_NAME

TABLE, MARKER = "identity", "marker"
_MANAGED = ("version",)

Open = Callable[[], MysqlLink]


def identity(
    product: str, variables: Mapping[str, str], connect: Open, *, managed: bool = False
) -> dict[str, str]:
    """Return what must be the same after a restart.

    connect: opens a connection in dbcheck's database.  Where that, or the row in it, is
    not there or cannot be read, the data have no name to compare.
    managed: it is a managed service's, where another host, and another server with the
    same data, may answer after a failover.
    """
    names = _MANAGED if managed else VARIABLES[product]
    found = {key: variables[key] for key in names if key in variables}
    if product == "MariaDB" or managed:
        with contextlib.suppress(EngineError), connect() as link:
            for (name,) in link.rows("identity"):
                found[DATA_NAME] = name
    return found


def name_data(
    link: MysqlLink, product: str, database: str, *, managed: bool = False
) -> None:
    """Give the data a name that they keep, unless they have one.

    link: in *database*.  managed: see identity().  Raise EngineError if a table there
    is in the way.
    """
    if product != "MariaDB" and not managed:
        return
    link.rows("create_identity")
    _require_ours(link, database, TABLE)
    link.rows("draw_identity", {"uuid": str(uuid.uuid4())})


def of_table(link: MysqlLink, database: str, name: str) -> str:
    """Return the storage engine's number of a table, "" if this account may not see it.

    Raise ConnectionLost.
    """
    where = {"folder": folder_of(database), "database": database, "name": name}
    try:
        found = link.rows(link.storage.identities[product_of(link)], where)
    except ConnectionLost:
        raise
    except EngineError:  # the privilege PROCESS is needed
        return ""
    return found[0][0] if found else ""


def mark_data(link: MysqlLink, database: str) -> str:
    """Write a new mark into a file of MariaDB's data directory, and return it.

    A table's .frm holds the comments of its columns, and is there once the table is.
    link: in *database*.  Raise EngineError if a table there is in the way.
    """
    _require_ours(link, database, MARKER)
    mark = f"dbcheck-mark-{uuid.uuid4().hex}"
    link.rows("mark_data", {"word": mark})
    return mark


def _require_ours(link: MysqlLink, database: str, name: str) -> None:
    """Raise EngineError if there is such a table and dbcheck did not make it."""
    found = link.rows("table", {"database": database, "name": name})
    if found and tuple(found[0]) != ("BASE TABLE", "InnoDB", MARK):
        raise EngineError(
            f"the table {database}.{name} was not created by dbcheck",
            id=ErrorId.TABLE_OF_OTHERS,
            hint="Rename or drop that table, or give dbcheck a database of its own.",
        )
