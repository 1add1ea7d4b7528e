"""CockroachDB: an audit of its settings over PostgreSQL's protocol, and no cut.

No test of dbcheck runs one.  Its rows would have to be read, and its indexes compared,
by statements that nothing here has tried: COPY TO has no binary format, a plan has no
"Seq Scan", and a table's ids come from unique_rowid() or from sequences with gaps.
(The last would not matter: a row is known by its key, and its id is only reported.)
So a run is refused, before anything is touched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dbcheck.core.operation import StatementSpec
from dbcheck.core.server import ServerFacts
from dbcheck.engines.postgresql.check import COCKROACHDB, require_product
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.wire import READY_ANSWER_S, PostgresqlWire
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError

# Under a newer name from 23.2 on.
_RENAMED = {
    "kv.raft_log.synchronization.unsafe.disabled": (
        "kv.raft_log.disable_synchronization_unsafe"
    )
}
_UNKNOWN_VERSION = 13_00_00  # what it says of itself, and means nothing


class CockroachEngine(PostgresqlWire):
    """One CockroachDB node, whose settings can be read."""

    family = "cockroachdb"
    product = COCKROACHDB

    def facts(self) -> ServerFacts:
        unreadable: dict[str, str] = {}
        identity: dict[str, str] = {}
        settings: dict[str, str] = {}
        with self._open() as link:
            version, database, clock_us = link.row("crdb_facts")
            require_product(version, _UNKNOWN_VERSION, self.product)
            try:
                found = link.row("crdb_cluster")
                identity = dict(zip(("cluster_id", "node_id"), found, strict=True))
            except EngineError as error:
                unreadable["cluster_id"] = str(error)
            try:
                for name, value in link.rows("crdb_settings"):
                    settings[_RENAMED.get(name, name)] = value
            except EngineError as error:
                unreadable["cluster settings"] = str(error)
        return ServerFacts(
            product=self.product.name,
            version=_version(version),
            identity={"database": database, **identity},
            started_us=clock_us,  # no statement shows it; a run is refused anyway
            started_error_us=clock_us,
            clock_us=clock_us,
            settings=settings,
            unreadable=unreadable,
            platform=version,
        )

    def check(
        self, statements: Sequence[StatementSpec], payload_bytes: int = 0
    ) -> None:
        """Raise EngineError: no run of CockroachDB can be judged."""
        raise EngineError(
            "dbcheck cuts no CockroachDB: nothing has shown that it reads the rows of"
            " one rightly",
            id=ErrorId.SERVER_AUDITED_ONLY,
            hint="Run dbcheck audit, which reads its settings.",
        )

    def drop(self) -> list[str]:
        """Raise EngineError: dbcheck makes no table there, so none is its own."""
        raise EngineError(
            "dbcheck makes no tables in CockroachDB, so it has none to remove",
            id=ErrorId.SERVER_AUDITED_ONLY,
            hint="If there is a schema dbcheck, somebody else made it.",
        )

    def _unready(self, link: PostgresqlLink) -> str | None:
        """Return None once it answers: it has no recovery that could be asked for.

        in_hot_standby is off always (CockroachDB documentation, Session Variables).
        """
        link.rows("crdb_facts", answer_s=READY_ANSWER_S)
        return None


def _version(sentence: str) -> str:
    """Return "26.2.0" of "CockroachDB CCL v26.2.0 (x86_64-unknown-linux-gnu)"."""
    found = re.search(r"\bv(\d[\w.-]*)", sentence)
    return found[1] if found else ""
