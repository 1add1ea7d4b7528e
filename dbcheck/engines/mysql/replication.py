"""Replication of MySQL and MariaDB by GTID: replicas, positions and a promotion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.check import read_product
from dbcheck.engines.mysql.link import (
    ACCESS_DENIED_TO_SERVER,
    MysqlLink,
    MysqlWatch,
    error_code,
)
from dbcheck.model.replication import (
    Descent,
    Follower,
    Membership,
    Received,
    count_gtids,
    find_newest_gtids,
)
from dbcheck.server_log import Product

_STREAMING, _SYNC, _ASYNC = "streaming", "sync", "async"
UNREGISTERED = "a replica that is not registered"


class Followers(MysqlWatch):
    """A connection to the source that lists its replicas (ports.connection.Followers).

    A source does not show which of its replicas are semi-synchronous, only how many
    are.  It counts how often it stopped waiting (no_times), and the commits that no
    replica acknowledged (no_tx).  If neither counter changed between two samples, the
    source waited for each commit between them (MySQL 9.7 manual, 7.1.10 Server Status
    Variables; MariaDB documentation, Semisynchronous Replication Plugin Status
    Variables).
    """

    def __init__(self, link: MysqlLink) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._product = read_product(link)

    def read(self) -> Sequence[Follower]:
        replicas, status_rows = self._texts(
            f"followers_{self._product.lower()}", "semi_sync"
        )
        status = {str(name).lower(): str(value) for name, value in status_rows}
        is_on = any(
            value == "ON" for name, value in status.items() if name.endswith("_status")
        )
        clients = sum(
            int(value) for name, value in status.items() if name.endswith("_clients")
        )
        sync = _SYNC if is_on and replicas and clients >= len(replicas) else _ASYNC
        continuity = " ".join(
            f"{name}={value}"
            for name, value in sorted(status.items())
            if name.endswith(("_no_times", "_no_tx"))
        )
        followers = [self._make_follower(row, sync, continuity) for row in replicas]
        if is_on and clients > len(replicas):  # an unregistered one may acknowledge
            followers.append(Follower(UNREGISTERED, _STREAMING, _SYNC, continuity))
        return followers

    def _make_follower(
        self, row: Sequence[str | None], sync: str, continuity: str
    ) -> Follower:
        """Return the replica of a row: Server_Id, Host, ..., Port, Source_Id.

        MySQL adds Replica_UUID, by which a MySQL replica is named.
        """
        values = [value or "" for value in row]
        if self._product is Product.MYSQL:
            *first_values, port, _, name = values
        else:
            *first_values, port, _ = values
            name = values[0]
        return Follower(name, _STREAMING, sync, continuity, f"{first_values[1]}:{port}")


def followers(link: MysqlLink) -> Followers:
    """Take over *link*; return what lists the replicas."""
    return Followers(link)


def membership(link: MysqlLink) -> Membership | None:
    """Return this server's name in the source's list, and the source's name.

    None if it follows no source.
    """
    product = read_product(link)
    own, _ = link.row(f"executed_{product.lower()}")
    if product is Product.MYSQL:
        received_rows = link.rows("received_mysql")
        source = received_rows[0][0] if received_rows else ""
    else:
        source = str(_read_status(link).get("master_server_id", ""))
    if not source:
        return None
    host, port = link.row("reported")
    states = [str(value).upper() for _, value in link.rows("semi_sync_replica")]
    return Membership(str(own), source, f"{host}:{port}", semi_sync="ON" in states)


def received(link: MysqlLink) -> Received:
    """Return the positions that this replica has received and applied."""
    if read_product(link) is Product.MYSQL:
        received_rows = link.rows("received_mysql")
        if not received_rows or not received_rows[0][0]:
            return Received(None, None)
        source, executed, unapplied, state = map(str, received_rows[0])
        applied = count_gtids(executed).get(source, 0)
        position = applied + count_gtids(unapplied).get(source, 0)
        return Received(position, applied, state == "ON")
    if not (status := _read_status(link)):
        return Received(None, None)
    source = str(status["master_server_id"])
    _, states = link.row("executed_mariadb")
    applied = _pick_position(source, find_newest_gtids(states))
    fetched = _pick_position(source, find_newest_gtids(str(status["gtid_io_pos"])))
    is_connected = status["slave_io_running"] == "Yes"
    return Received(max(applied, fetched), applied, is_connected)


def _pick_position(source: str, positions: Mapping[str, int]) -> int:
    """Return the position in the log of *source*.

    A replica that has not reached its source since its own start gives the source's id
    as 0: then return the highest position of any server.
    """
    return (
        positions.get(source, 0)
        if source != "0"
        else max(positions.values(), default=0)
    )


def promote(link: MysqlLink) -> None:
    """Have this replica follow no other server, and take writes.

    Raise EngineError; its hint says what to grant if the account may not do that.
    """
    product = read_product(link).lower()
    try:
        for statement in (
            f"stop_replica_{product}",
            "forget_source",
            f"allow_writes_{product}",
        ):
            link.rows(statement)
    except EngineError as error:
        if error_code(error) != ACCESS_DENIED_TO_SERVER:
            raise
        raise EngineError(
            str(error),
            id=ErrorId.PROMOTION_REFUSED,
            hint="Grant the account what STOP REPLICA, RESET REPLICA ALL and SET GLOBAL"
            " read_only need (docs/clusters.md), or promote by a command"
            " (dbcheck_promote).",
        ) from error


def takes_writes(link: MysqlLink) -> bool:
    """Return True if this server follows no other server and is not read-only."""
    if dict(link.rows("variables")).get("read_only", "OFF") not in ("OFF", "0"):
        return False
    if read_product(link) is Product.MYSQL:
        received_rows = link.rows("received_mysql")
        return not received_rows or not received_rows[0][0]
    return not _read_status(link)


def descent(link: MysqlLink) -> Descent:
    """Return up to which position each other server's log was applied here."""
    product = read_product(link)
    own, executed = link.row(f"executed_{product.lower()}")
    applied = (
        count_gtids(executed)
        if product is Product.MYSQL
        else find_newest_gtids(executed)
    )
    applied.pop(str(own), None)
    return Descent(applied)


def _read_status(link: MysqlLink) -> dict[str, Any]:
    """Return the status of a MariaDB replica by its columns, {} if it is none."""
    statuses = link.named_rows("replica_status_mariadb")
    if len(statuses) > 1:
        raise EngineError(
            "the server replicates from several others, so how far it has come cannot"
            " be compared",
            id=ErrorId.NODE_FOLLOWS_SEVERAL,
            hint="Keep one of them: RESET REPLICA 'NAME' ALL.",
        )
    return (
        {name.lower(): value for name, value in statuses[0].items()} if statuses else {}
    )
