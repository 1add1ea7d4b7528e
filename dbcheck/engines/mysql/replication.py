"""Replication of MySQL and MariaDB by GTID: who follows, how far, and a promotion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.check import read_product
from dbcheck.engines.mysql.link import MysqlLink, MysqlWatch
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
    """A connection to the source that lists its replicas; see ports.connection.

    A source does not show which of its replicas are semi-synchronous, only how many.
    It counts how often it stopped waiting (no_times), and the commits that no replica
    acknowledged (no_tx): where neither changed between two samples, it waited for each
    commit between them (MySQL 9.7 manual, 7.1.10 Server Status Variables; MariaDB
    documentation, Semisynchronous Replication Plugin Status Variables).
    """

    def __init__(self, link: MysqlLink) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._product = read_product(link)

    def read(self) -> Sequence[Follower]:
        found, status_rows = self._texts(
            f"followers_{self._product.lower()}", "semi_sync"
        )
        status = {str(name).lower(): str(value) for name, value in status_rows}
        on = any(v == "ON" for name, v in status.items() if name.endswith("_status"))
        clients = sum(int(v) for n, v in status.items() if n.endswith("_clients"))
        sync = _SYNC if on and found and clients >= len(found) else _ASYNC
        since = " ".join(
            f"{name}={value}"
            for name, value in sorted(status.items())
            if name.endswith(("_no_times", "_no_tx"))
        )
        listed = [self._listed(row, sync, since) for row in found]
        if on and clients > len(found):  # any of these may have acknowledged
            listed.append(Follower(UNREGISTERED, _STREAMING, _SYNC, since))
        return listed

    def _listed(self, row: Sequence[str | None], sync: str, since: str) -> Follower:
        """Return the replica of a row: Server_Id, Host, ..., Port, Source_Id.

        MySQL adds Replica_UUID.
        """
        texts = [value or "" for value in row]
        if self._product is Product.MYSQL:
            *most, port, _, name = texts
        else:
            *most, port, _ = texts
            name = texts[0]
        return Follower(name, _STREAMING, sync, since, f"{most[1]}:{port}")


def followers(link: MysqlLink) -> Followers:
    """Take over *link*; return what lists the replicas."""
    return Followers(link)


def membership(link: MysqlLink) -> Membership | None:
    """Return this server's name in the source's list, and the source."""
    product = read_product(link)
    own, _ = link.row(f"executed_{product.lower()}")
    if product is Product.MYSQL:
        found = link.rows("received_mysql")
        source = found[0][0] if found else ""
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
        found = link.rows("received_mysql")
        if not found or not found[0][0]:
            return Received(None, None)
        source, executed, unapplied, state = map(str, found[0])
        applied = count_gtids(executed).get(source, 0)
        position = applied + count_gtids(unapplied).get(source, 0)
        return Received(position, applied, state == "ON")
    if not (status := _read_status(link)):
        return Received(None, None)
    source = str(status["master_server_id"])
    _, states = link.row("executed_mariadb")
    applied = _pick_position(source, find_newest_gtids(states))
    came = _pick_position(source, find_newest_gtids(str(status["gtid_io_pos"])))
    connected = status["slave_io_running"] == "Yes"
    return Received(max(applied, came), applied, connected)


def _pick_position(source: str, found: Mapping[str, int]) -> int:
    """Return the position in the log of *source*.

    A replica that has not reached it since its start calls it 0: then that of any.
    """
    return found.get(source, 0) if source != "0" else max(found.values(), default=0)


def promote(link: MysqlLink) -> None:
    """Have this replica follow no other, and take writes."""
    product = read_product(link).lower()
    try:
        for statement in (
            f"stop_replica_{product}",
            "forget_source",
            f"allow_writes_{product}",
        ):
            link.rows(statement)
    except EngineError as error:
        raise EngineError(
            str(error),
            id=ErrorId.PROMOTION_REFUSED,
            hint="Grant the account what STOP REPLICA, RESET REPLICA ALL and SET GLOBAL"
            " read_only need (docs/clusters.md), or promote by a command"
            " (dbcheck_promote).",
        ) from error


def takes_writes(link: MysqlLink) -> bool:
    """Return True if this server follows no other and is not read-only."""
    if dict(link.rows("variables")).get("read_only", "OFF") not in ("OFF", "0"):
        return False
    if read_product(link) is Product.MYSQL:
        found = link.rows("received_mysql")
        return not found or not found[0][0]
    return not _read_status(link)


def descent(link: MysqlLink) -> Descent:
    """Return the positions in each other server's log that were applied here."""
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
    found = link.named_rows("replica_status_mariadb")
    if len(found) > 1:
        raise EngineError(
            "the server replicates from several others, so how far it has come cannot"
            " be compared",
            id=ErrorId.NODE_FOLLOWS_SEVERAL,
            hint="Keep one of them: RESET REPLICA 'NAME' ALL.",
        )
    return {name.lower(): value for name, value in found[0].items()} if found else {}
