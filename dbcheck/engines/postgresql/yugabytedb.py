"""YugabyteDB: PostgreSQL's server above a storage that is a cluster's.

No test of dbcheck runs one: what differs is from its documents and sources (named
beside each), and the rest is that of PostgreSQL, whose code its server is.  Whether a
commit waits for a sync of the log is a flag of its storage, durable_wal_write, that no
statement shows; so no run of it gets a PASS.
"""

from __future__ import annotations

from dbcheck.core.managed import OWN_DATABASES
from dbcheck.core.server import ServerFacts
from dbcheck.engines.postgresql.check import YUGABYTEDB, require_product
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.wire import READY_ANSWER_S, PostgresqlWire
from dbcheck.errors import EngineError

_SERVERS = "yb_servers"


class YugabyteEngine(PostgresqlWire):
    """One YugabyteDB server; contracts in ports.engine.

    PostgreSQL's files are not its data: it has no log position, no crash canary, no
    check of pages, and settings such as fsync mean nothing to it.
    """

    family = "yugabytedb"
    product = YUGABYTEDB
    # Every cluster has them (YugabyteDB documentation, Default databases).
    own_databases = OWN_DATABASES | {"yugabyte", "system_platform"}

    def facts(self) -> ServerFacts:
        unreadable: dict[str, str] = {}
        with self._open() as link:
            row = link.row("facts")
            version, version_num, started_us, database, clock_us, platform = row
            require_product(platform, int(version_num), self.product)
            identity = {"server_version_num": version_num, "database": database}
            try:
                identity[_SERVERS] = ",".join(uuid for (uuid,) in link.rows(_SERVERS))
            except EngineError as error:
                unreadable[_SERVERS] = str(error)
        return ServerFacts(
            product=self.product.name,
            version=version.split()[0],
            identity=identity,
            started_us=started_us,
            started_error_us=1,
            clock_us=clock_us,
            settings={},
            unreadable=unreadable,
            platform=platform,
        )

    def _unready(self, link: PostgresqlLink) -> str | None:
        """Return why it is not ready; it is never in recovery, but may lack its nodes.

        The catalog is in the storage too, so what reads it waits for that.
        """
        if not link.rows(_SERVERS, answer_s=READY_ANSWER_S):
            return "no server of the cluster is there yet"
        link.rows("present", answer_s=READY_ANSWER_S)
        return None
