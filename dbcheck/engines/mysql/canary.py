"""A row that the orderly end of a server commits, and a crash takes back.

A session locks a table, inserts a row and rests.  A server that shuts down ends its
sessions first, which unlocks the table and thereby commits the row.  After a crash:

- MariaDB: Aria's recovery takes the row back, as its transaction, which lasts as long
  as the lock, was never committed.  A commit is flushed (ma_commit() in ma_commit.c),
  so the row of an orderly end outlives also a power cut right after it.
- MySQL has no such engine.  The header of a MyISAM table counts the row only once it is
  unlocked.  MyISAM never flushes: if a server shuts down, and its host loses its power
  before it wrote that header back, the row is absent as after a crash.

Seen on MariaDB 10.11 and MySQL 9.7: the row was absent after each SIGKILL and present
after SIGTERM, SHUTDOWN with innodb_fast_shutdown at 0, 1 and 2, and KILL CONNECTION.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    EngineError,
    NoCanary,
    OtherServer,
    TableLost,
    TableRefused,
)
from dbcheck.engines.mysql.check import read_product
from dbcheck.engines.mysql.grants import (
    find_missing_privileges,
    list_grants,
    quote_account,
)
from dbcheck.engines.mysql.link import LOCK_WAIT_TIMEOUT, MysqlLink, error_code
from dbcheck.engines.mysql.replication import leave_replication
from dbcheck.engines.mysql.rights import CANARY, ERROR_LOG, quote_database
from dbcheck.engines.tables import MARK
from dbcheck.server_log import Product

TABLE = "canary"
_ENGINES = {Product.MARIADB: "Aria", Product.MYSQL: "MyISAM"}
# Settings of MySQL under which no canary is possible.  With a primary key the row is
# still there after a crash (seen on MySQL 9.7), so the table cannot be given one.
_PREVENTING_SETTINGS = {
    "myisam_recover_options": "so a repair after a crash would restore its row",
    "sql_require_primary_key": "and its table must not have a primary key",
}
_PROBE_EPOCH = 0  # the epoch of a row that shows that the table can be read
# Seconds to wait for the table while another session holds it.
_PLANT_S, _READ_S, _DROP_S = 10, 2, 5
_ENGINE_ERRORS = range(120, 200)  # numbers of a storage engine's own errors (my_base.h)

Open = Callable[[], MysqlLink]


class HeldRow:
    """The session that holds the row; implements model.depth.HeldCanary."""

    def __init__(self, link: MysqlLink) -> None:
        """Take over *link*, which has the table locked and the row inserted."""
        self._link = link

    def is_held(self) -> bool:
        """Return True if the server still has the session.

        The server sends nothing to a session at rest until it ends the session.
        """
        try:
            ready, _, _ = select.select([self._link.wire(0)], [], [], 0)
        except (EngineError, OSError, ValueError):
            return False
        return not ready

    def close(self) -> None:
        self._link.sever()
        self._link.close()


def plant(connect: Open, database: str, epoch: int, *, local: bool) -> HeldRow:
    """Leave the row of *epoch* and return the session that holds it.

    connect: opens a connection in *database*, or raises OtherServer.
    local:   keep the table from the replicas, see Engine.plant_canary().
    Raise NoCanary if this server or account allows no canary, or if a trial shows that
    the server takes the row back at an orderly end, too.  The hint of a missing
    privilege is the GRANT.
    """

    def connect_to_plant() -> MysqlLink:
        link = connect()
        try:
            link.rows("canary_session", {"wait_s": _PLANT_S})
            if local:
                leave_replication(link)
        except BaseException:
            link.close()
            raise
        return link

    try:
        with connect_to_plant() as link:
            _require_canary_possible(link, database)
            _create(link, database)
            _test_orderly_end(connect_to_plant, link, epoch)
        return HeldRow(_hold_row(connect_to_plant, epoch))
    except (NoCanary, OtherServer):
        raise
    except EngineError as error:
        raise NoCanary(
            f"no crash canary: {error}",
            id=ErrorId.CANARY_NOT_POSSIBLE,
            hint=error.hint,
        ) from error


def is_there(connect: Open, epoch: int) -> bool | None:
    """Return whether the row is there; None if the table is missing, locked or refused.

    A table that is there and cannot be read was not closed in an orderly way: its row
    counts as absent.
    """
    with connect() as link:
        link.rows("canary_session", {"wait_s": _READ_S})
        return _read_row(link, epoch)


def drop(link: MysqlLink) -> None:
    """Drop the table; raise EngineError if a session has it locked."""
    link.rows("canary_session", {"wait_s": _DROP_S})
    try:
        link.rows("drop_canary")
    except EngineError as error:
        if error_code(error) != LOCK_WAIT_TIMEOUT:
            raise
        raise EngineError(
            f"another session has the table {TABLE} locked: another run is active,"
            " or its client died",
            id=ErrorId.RUN_ON_SERVER_ACTIVE,
            hint="Wait until that run has ended. If there is none, find the session"
            " with SHOW PROCESSLIST, end it with KILL, and try again.",
        ) from error


def _read_row(link: MysqlLink, epoch: int) -> bool | None:
    try:
        return bool(link.rows("canary", {"epoch": epoch}))
    except TableRefused:  # it says nothing of the ledger, which is read next
        return None
    except TableLost as error:
        return None if error.missing else False
    except EngineError as error:
        number = error_code(error)
        if number == LOCK_WAIT_TIMEOUT:
            return None
        if number in _ENGINE_ERRORS:
            return False
        raise


def _require_canary_possible(link: MysqlLink, database: str) -> None:
    _, _, account = link.row("server")
    if find_missing_privileges(list_grants(link), database, TABLE, CANARY.names):
        grant = CANARY.grant(quote_account(account), quote_database(database))
        raise NoCanary(
            "no crash canary: the account lacks LOCK TABLES",
            id=ErrorId.PRIVILEGE_MISSING,
            hint=f"Run: {grant}",
        )
    if read_product(link) is Product.MYSQL:
        _require_myisam(dict(link.rows("variables")), account)


def _require_myisam(variables: Mapping[str, str], account: str) -> None:
    """Raise NoCanary if a crash would not take back a row of MyISAM."""
    for name, why in _PREVENTING_SETTINGS.items():
        value = variables.get(name, "OFF")
        if value not in ("OFF", ""):
            raise NoCanary(
                f"no crash canary: {name} is {value}, {why}",
                id=ErrorId.CANARY_NEEDS_SETTING,
                hint=f"Set {name} = OFF in the server's configuration and restart it;"
                " or have the server's log read instead, with --target-host, or from"
                f" MySQL 8.0.22 on: {ERROR_LOG.grant(quote_account(account))}",
            )


def _create(link: MysqlLink, database: str) -> None:
    """Create the table if it is missing; replace it if a cut has damaged it."""
    name = read_product(link)
    found = link.rows("table", {"database": database, "name": TABLE})
    if found and found[0] != ("BASE TABLE", _ENGINES[name], MARK):
        kind, engine, _ = found[0]
        raise NoCanary(
            f"no crash canary: {database}.{TABLE} was not created by dbcheck: it is a"
            f" {kind.lower()} of engine {engine or 'unknown (damaged)'}",
            id=ErrorId.TABLE_OF_OTHERS,
            hint=f"Rename or drop {database}.{TABLE}.",
        )
    if found and _read_row(link, _PROBE_EPOCH) is True:
        return
    link.rows("drop_canary")
    link.rows(f"create_canary_{name.lower()}")
    link.rows("plant_canary", {"epoch": _PROBE_EPOCH})


def _test_orderly_end(connect: Open, link: MysqlLink, epoch: int) -> None:
    """End a session as a shutdown does; raise NoCanary if its row does not stay."""
    holder = _hold_row(connect, -epoch)
    try:
        (thread,) = holder.row("canary_thread")
        link.rows("end_canary", {"thread": thread})
        if not link.rows("canary", {"epoch": -epoch}):
            raise NoCanary(
                "no crash canary: the end of a session removes its row",
                id=ErrorId.CANARY_NOT_POSSIBLE,
            )
    finally:
        holder.sever()
        holder.close()


def _hold_row(connect: Open, epoch: int) -> MysqlLink:
    link = connect()
    try:
        link.rows("lock_canary")
        link.rows("plant_canary", {"epoch": epoch})
    except BaseException:
        link.close()
        raise
    return link
