"""A server of the MySQL family as one whose log others follow, or restore."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.base.points import Point, PointKind, PointRead
from dbcheck.base.system import now_us
from dbcheck.engines.mysql import galera, group_replication, replication
from dbcheck.engines.mysql.answering import is_replica
from dbcheck.engines.mysql.check import find_refill, read_product, require_standalone
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.rights import quote_name
from dbcheck.engines.mysql.session import MysqlSession
from dbcheck.engines.peer import accepts, takes_no_writes_error
from dbcheck.model.replication import (
    GALERA_CLUSTER,
    REPLICATION_GROUP,
    Descent,
    Detached,
    Membership,
    Received,
    SourceLogin,
)
from dbcheck.model.server import Refill, ServerFacts
from dbcheck.ports.connection import Detaching, Followers
from dbcheck.ports.engine import Engine
from dbcheck.rows.operation import StatementSpec
from dbcheck.rows.table import TableSpec
from dbcheck.server_log import Product

CONNECT_S = 10.0
_RESTART_S, _POLL_S = 300.0, 0.5  # until a server that was cloned takes queries
READY_S = 2.0  # for each of the few answers that connecting takes

SEMI_SYNC = tuple(
    f"{product}{name}"
    for product in replication.SOURCE_PREFIXES
    for name in (
        *("enabled", "timeout", "wait_point", "wait_no_replica", "wait_no_slave"),
        *("wait_for_replica_count", "wait_for_slave_count"),
    )
)


def leave_replication(link: MysqlLink) -> None:
    """Have the commits of this session reach no other node; raise EngineError."""
    if kind_of(link) is galera:
        galera.leave_replication(link)
    else:  # a group sends its members what is in the binary log
        replication.leave_replication(link)


class ClusterProtocol(Protocol):
    """One kind of replication, as a module; see Feature.REPLICATION."""

    def followers(self, link: MysqlLink, /) -> Followers: ...

    def membership(self, link: MysqlLink, /) -> Membership | None: ...

    def received(self, link: MysqlLink, /) -> Received: ...

    def promote(self, link: MysqlLink, /) -> None: ...

    def takes_writes(self, link: MysqlLink, /) -> bool: ...

    def descent(self, link: MysqlLink, /) -> Descent: ...


def kind_of(link: MysqlLink) -> ClusterProtocol:
    """Detect the kind of replication of the server behind *link*.

    Raise EngineError for a node of Galera that is not MariaDB: no test runs one.
    """
    variables = dict(link.rows("cluster_node"))
    if group_replication.is_member(variables):
        return group_replication
    if not galera.is_node(variables):
        return replication
    if read_product(link) is not Product.MARIADB:
        raise EngineError(
            "of Galera clusters dbcheck tests those of MariaDB alone, and not Percona"
            " XtraDB Cluster or MySQL-wsrep",
            id=ErrorId.SERVER_NOT_SUPPORTED,
            hint="Name a cluster of MariaDB, or one with another topology.",
        )
    return galera


def group_identity(link: MysqlLink, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the id of the group that the server is a node of, if any.

    variables: the server's.
    """
    if group_replication.is_member(variables):
        return {REPLICATION_GROUP: variables[REPLICATION_GROUP].lower()}
    if galera.is_node(variables):
        return {GALERA_CLUSTER: galera.read_cluster_id(link)}
    return {}


def takes_writes_of_clients(link: MysqlLink) -> bool:
    """Return True if clients may write to the server, and it follows no other one.

    It needs no privilege of a cluster on a server that is in none.  A replica is known
    only to an account that may see it; without that, read_only alone shows it.
    """
    if any(value not in ("OFF", "0") for _, value in link.rows("read_only")):
        return False
    kind = kind_of(link)
    if kind is not replication:
        return kind.takes_writes(link)
    return not is_replica(link, read_product(link))


_NO_BINARY_LOG = "Set log_bin and server_id, restart the server, and take a new backup."


class Replicating(Engine):
    """Features of clusters, and points, for MySQL and MariaDB; see ports.engine."""

    _database: str

    @property
    def schema(self) -> str:  # type: ignore[override]  # that of the URL
        """The database in the URL."""
        return quote_name(self._database)

    @abstractmethod
    def _open(
        self,
        database: str | None,
        connect_s: float = CONNECT_S,
        *,
        server: ServerFacts | None = None,
    ) -> MysqlLink:
        """Connect; raise EngineError."""

    def require_point(self, kind: PointKind) -> None:
        """Raise an error unless this is MariaDB with a binary log, and *kind* is GTID.

        MySQL's set of GTIDs may have gaps, and its mysqlbinlog stops at none.
        """
        with self._open(None) as link:
            product = read_product(link)
            if product is not Product.MARIADB or kind is not PointKind.GTID:
                raise UsageError(
                    f"{self.target} ({product.value}) has no point of the kind"
                    f" {kind.value}",
                    id=ErrorId.POINT_NOT_SUPPORTED,
                    hint="With MariaDB set dbcheck_restore: until to gtid."
                    if product is Product.MARIADB
                    else "Take a copy instead: dbcheck_restore: copy.",
                )
            if not (link.row("point_gtid"))[0]:
                raise EngineError(
                    "log_bin is off, so there is no binary log to restore",
                    id=ErrorId.POINT_NOT_READABLE,
                    hint=_NO_BINARY_LOG,
                )

    def read_point(
        self, kind: PointKind, name: str, *, server: ServerFacts | None = None
    ) -> PointRead:
        with self._open(None, server=server) as link:
            began_us = now_us()
            _, value = link.row("point_gtid")
            ended_us = now_us()
        if not value:
            raise EngineError(
                "gtid_binlog_pos is empty: no commit is in the binary log",
                id=ErrorId.POINT_NOT_READABLE,
                hint="See that neither sql_log_bin nor a filter keeps dbcheck's"
                " database out of it.",
            )
        return PointRead(Point(kind, value), began_us, ended_us)

    def require_alone(self) -> None:
        with self._open(None) as link:
            require_standalone(link)

    def refill(
        self,
        tables: Sequence[TableSpec],
        since_us: int,
        *,
        server: ServerFacts | None = None,
    ) -> Refill | None:
        """Return data that others may have given it, for whichever tables."""
        with self._open(None, server=server) as link:
            return find_refill(link, since_us)

    def require_may_bootstrap(self) -> None:
        with self._open_member() as link:
            group_replication.require_group_privileges(link)

    def detached(self) -> Detached:
        with self._open_member() as link:
            return group_replication.detached(link)

    def require_all_of(self, others: Mapping[str, str]) -> None:
        with self._open_member() as link:
            group_replication.require_all_of(link, others)

    def bootstrap_group(self) -> None:
        with self._open_member() as link:
            group_replication.bootstrap(link, self.end_bootstrap)

    def end_bootstrap(self) -> None:
        try:
            with self._open(None) as link:
                group_replication.end_bootstrap(link)
        except EngineError as error:
            raise group_replication.still_bootstraps_error(error) from error

    def join_group(self) -> None:
        with self._open_member() as link:
            group_replication.join(link)

    def _open_member(self) -> MysqlLink:
        """Connect; raise EngineError unless it belongs to a replication group."""
        link = self._open(None)
        try:
            if kind_of(link) is not group_replication:
                raise EngineError(
                    "the server is in no replication group:"
                    " group_replication_group_name is empty",
                    id=ErrorId.NODE_NOT_IN_CLUSTER,
                    hint="Set it as before the cut, and restart the server.",
                )
        except BaseException:
            link.close()
            raise
        return link

    def transactions(self) -> str:
        """Return the GTIDs that it has, "" for a node of a group."""
        with self._open(None) as link:
            alone = kind_of(link) is replication
            return replication.transactions(link) if alone else ""

    def follow(self, source: SourceLogin, transactions: str) -> None:
        """Follow by GTID; a member of a group joins it, and Galera's did already."""
        with self._open(None) as link:
            kind = kind_of(link)
            if kind is group_replication:
                group_replication.join(link)
            elif kind is replication:
                replication.follow(link, source, transactions)

    def lead(
        self, settings: Mapping[str, str], renamed: Mapping[str, str], slots: list[str]
    ) -> None:
        """Take over the settings of semi-sync, which name no replica."""
        with self._open(None) as link:
            if kind_of(link) is replication:
                replication.lead(link, settings)

    def clone(self, source: SourceLogin) -> None:
        """Copy by MySQL's clone plugin, over TLS; what was here is lost.

        The server restarts itself only below a supervisor such as systemd.
        """
        with self._open(None) as link:
            replication.clone(link, source)
        ends_s = time.monotonic() + _RESTART_S
        while (why := self.ready()) is not None:
            if time.monotonic() >= ends_s:
                raise EngineError(
                    f"the server did not restart on the copy of {source.host}: {why}",
                    id=ErrorId.NODE_NOT_REBUILT,
                    hint="Start it. Its accounts are those of the server it copied.",
                )
            time.sleep(_POLL_S)
        with self._open(None) as link:
            replication.require_cloned(link)

    def open_client(self, statement: StatementSpec, connect_s: float) -> MysqlSession:
        link = self._open(self._database, connect_s)
        try:
            if not takes_writes_of_clients(link):
                raise takes_no_writes_error(self.target)
            return MysqlSession(link, [statement], self._database)
        except BaseException as error:
            link.abandon(error)
            raise

    def open_followers(self, *, server: ServerFacts | None = None) -> Followers:
        link = self._open(None, server=server)
        return kind_of(link).followers(link)

    def membership(self) -> Membership | None:
        with self._open(None) as link:
            return kind_of(link).membership(link)

    def received(self) -> Received:
        with self._open(None, READY_S) as link:
            return kind_of(link).received(link)

    def describe_unreplicated(self) -> str:
        with self._open(None) as link:
            if kind_of(link) is galera:
                return galera.UNREPLICATED
        return replication.UNREPLICATED

    def open_detaching(
        self, names: Collection[str], *, server: ServerFacts | None = None
    ) -> Detaching | None:
        """Return None: sessions keep their commits out of the binary log."""
        return None

    def promote(self) -> None:
        """Stop replication, forget the source and switch read_only off."""
        with self._open(None) as link:
            kind_of(link).promote(link)

    def accepts(self) -> bool:
        return accepts(self.endpoints)

    def takes_writes(self) -> bool:
        try:
            with self._open(None, READY_S) as link:
                return kind_of(link).takes_writes(link)
        except (EngineError, OSError):
            return False

    def descent(self) -> Descent:
        with self._open(None) as link:
            return kind_of(link).descent(link)
