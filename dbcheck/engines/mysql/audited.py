"""What MySQL and MariaDB show beside the variables of one session, or of one moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dbcheck.audit.mysql import UNSAFE_TABLES
from dbcheck.engines.link import SCAN_S
from dbcheck.engines.mysql.check import definition_of, product_of, where_foreign
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.settings import SESSION
from dbcheck.engines.watch import Watch
from dbcheck.model.audited import OtherSettings
from dbcheck.model.watched import Fact, FactKind, settings_looked, tables_looked
from dbcheck.rows.table import Definition, TableSpec

# Any session may set these for itself, as each of dbcheck's does. MySQL then shows the
# time of that as set_time, to every session (seen with 9.7), so it dates no change of
# the server. Their scope: MySQL 8.4 manual, 7.1.8, 19.1.6.4 and 20.9.1.
_OF_SESSIONS = frozenset(
    ("default_storage_engine", "binlog_format", "group_replication_consistency")
)


class Look(Watch):
    """A connection that looks at what is set for the server; see ports.host.Look.

    What every session of dbcheck sets for itself is left out: it does not change.
    """

    def __init__(
        self,
        link: MysqlLink,
        settings: Collection[str],
        tables: Sequence[TableSpec],
        database: str,
    ) -> None:
        """Take over *link*; *tables* are those of *database*."""
        super().__init__(link)
        product = product_of(link)
        self._statement = f"look_settings_{product.lower()}"
        self._names = ",".join(set(settings) - SESSION[product].keys())
        self._tables = {t.name: where_foreign(link, t, database) for t in tables}

    def read(self) -> dict[Fact, str]:
        rows = self._rows(self._statement, {"names": self._names})
        looked = settings_looked({name: value for name, value, _ in rows})
        for name, _, set_time in rows:
            if set_time is not None and name not in _OF_SESSIONS:
                looked[Fact(FactKind.CHANGE_TIME, name)] = set_time
        for name, count in self._rows("changes"):
            looked[Fact(FactKind.CHANGE_COUNT, name)] = count
        found = {name: self._definition(w) for name, w in self._tables.items()}
        return looked | tables_looked(found)

    def _definition(self, where: Mapping[str, object]) -> Definition:
        """Return it with a version, by which looks at one running server compare.

        MariaDB's is the ctime of a file: what has its owner set at a restart, as
        containers do, changes it.
        """
        found = definition_of(self._rows, where)
        versions = self._rows("table_version", where)
        return found._replace(version=versions[0][0]) if versions else found


def other_settings(link: MysqlLink) -> tuple[OtherSettings, ...]:
    """Return which storage engines without durable commits have tables of users."""
    rows = link.rows("unsafe_tables", answer_s=SCAN_S)
    shown = ", ".join(f"{tables} {engine}" for engine, tables in rows) or "none"
    how = "information_schema.tables, as far as this account may see it"
    return (OtherSettings("the server's tables", how, {UNSAFE_TABLES: shown}),)
