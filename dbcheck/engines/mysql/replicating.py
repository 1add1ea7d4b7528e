"""What a server of the MySQL family can do as a node of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod

import sqlalchemy.engine

from dbcheck.core.replication import Descent, Membership, Received
from dbcheck.core.server import ServerFacts
from dbcheck.engines.mysql import replication
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.replication import Followers
from dbcheck.engines.reach import accepts
from dbcheck.errors import EngineError

PORT = 3306
CONNECT_S = 10.0
READY_S = 2.0  # for each of the few answers that connecting takes


class Replicating(ABC):
    """Contracts in ports.abilities.Replicates."""

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

    def open_followers(self, *, server: ServerFacts | None = None) -> Followers:
        return Followers(self._open(None, server=server))

    def membership(self) -> Membership | None:
        with self._open(None) as link:
            return replication.membership(link)

    def received(self) -> Received:
        with self._open(None, READY_S) as link:
            return replication.received(link)

    def promote(self) -> None:
        """Stop replication, forget the source and switch read_only off."""
        with self._open(None) as link:
            replication.promote(link)

    def accepts(self) -> bool:
        return accepts(self._url, PORT)

    def takes_writes(self) -> bool:
        try:
            with self._open(None, READY_S) as link:
                return replication.takes_writes(link, dict(link.rows("variables")))
        except (EngineError, OSError):
            return False

    def descent(self) -> Descent:
        with self._open(None) as link:
            return replication.descent(link)
