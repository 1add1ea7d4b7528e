"""What a server of the MySQL family can do as a node of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import sqlalchemy.engine

from dbcheck.core.replication import Descent, Membership, Received
from dbcheck.core.server import ServerFacts
from dbcheck.engines.mysql import galera, replication
from dbcheck.engines.mysql.check import product_of, require_alone
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.reach import accepts
from dbcheck.errors import EngineError
from dbcheck.ports.abilities import Followers

PORT = 3306
CONNECT_S = 10.0
READY_S = 2.0  # for each of the few answers that connecting takes


class Kind(Protocol):
    """How servers are one cluster; see ports.abilities.Replicates."""

    def followers(self, link: MysqlLink, /) -> Followers: ...

    def membership(self, link: MysqlLink, /) -> Membership | None: ...

    def received(self, link: MysqlLink, /) -> Received: ...

    def promote(self, link: MysqlLink, /) -> None: ...

    def takes_writes(self, link: MysqlLink, /) -> bool: ...

    def descent(self, link: MysqlLink, /) -> Descent: ...


def kind_of(link: MysqlLink) -> Kind:
    """Return how the server behind *link* is a node of a cluster.

    Raise EngineError for a node of Galera that is not MariaDB: no test runs one.
    """
    if not galera.is_node(dict(link.rows("galera_node"))):
        return replication
    if product_of(link) != "MariaDB":
        raise EngineError(
            "of Galera clusters dbcheck tests those of MariaDB alone, and not Percona"
            " XtraDB Cluster or MySQL-wsrep"
        )
    return galera


class Replicating(ABC):
    """Contracts in ports.abilities.Replicates and Grouped."""

    _url: sqlalchemy.engine.URL

    @abstractmethod
    def _open(
        self,
        database: str | None,
        connect_s: float = CONNECT_S,
        *,
        server: ServerFacts | None = None,
    ) -> MysqlLink:
        """Connect; raise EngineError."""

    def require_alone(self) -> None:
        with self._open(None) as link:
            require_alone(dict(link.rows("variables")))

    def open_followers(self, *, server: ServerFacts | None = None) -> Followers:
        link = self._open(None, server=server)
        return kind_of(link).followers(link)

    def membership(self) -> Membership | None:
        with self._open(None) as link:
            return kind_of(link).membership(link)

    def received(self) -> Received:
        with self._open(None, READY_S) as link:
            return kind_of(link).received(link)

    def promote(self) -> None:
        """Stop replication, forget the source and switch read_only off."""
        with self._open(None) as link:
            kind_of(link).promote(link)

    def accepts(self) -> bool:
        return accepts(self._url, PORT)

    def takes_writes(self) -> bool:
        try:
            with self._open(None, READY_S) as link:
                return kind_of(link).takes_writes(link)
        except (EngineError, OSError):
            return False

    def descent(self) -> Descent:
        with self._open(None) as link:
            return kind_of(link).descent(link)
