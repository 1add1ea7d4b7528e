"""Reads PostgreSQL's settings during the load, and those of roles and databases.

During the load Look reads them in a session of its own, and SessionLook in the sessions
of the load.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from psycopg.pq.abc import PGconn, PGresult

from dbcheck.audit.postgresql import ARCHIVER, UNLOGGED
from dbcheck.config.files import read_sql
from dbcheck.engines.link import Watch
from dbcheck.engines.postgresql.check import parse_definition
from dbcheck.engines.postgresql.link import FAMILY, PostgresqlLink
from dbcheck.engines.postgresql.settings import OF_A_SESSION
from dbcheck.model.audited import ScopedSettings
from dbcheck.model.server import ServerFacts
from dbcheck.model.watched import (
    CANARY,
    GONE,
    THERE,
    Fact,
    FactKind,
    make_facts_of_settings,
    make_facts_of_tables,
)
from dbcheck.rows.table import TableSpec

_STORED = "pg_db_role_setting"
_LOADED = Fact(FactKind.CHANGE_TIME, "configuration")
_CHANGES = Fact(FactKind.CHANGE_COUNT, "triggers, rules or inheritance")


class Look(Watch):
    """A connection that looks at settings, tables and the canary; see ports.host.Look.

    An idle session takes over what a reload changed before it runs its next statement
    (postgres.c, PostgresMain).
    """

    def __init__(
        self,
        link: PostgresqlLink,
        settings: Collection[str],
        epoch: int | None,
        tables: Sequence[TableSpec] = (),
    ) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._names, self._epoch, self._tables = (
            list(settings),
            epoch,
            tables,
        )

    def read(self) -> dict[Fact, str]:
        found = dict(self._rows("look_settings", {"names": self._names}))
        looked = make_facts_of_settings(found)
        ((looked[_LOADED],),) = self._rows("loaded")
        ((looked[_CHANGES],),) = self._rows("changes")
        looked |= make_facts_of_tables(
            {t.name: parse_definition(self._rows, t) for t in self._tables}
        )
        if self._epoch is not None:
            there = self._rows("canary", {"epoch": self._epoch})
            looked[CANARY] = THERE if there else GONE
        return looked


class SessionLook:
    """Reads settings at the end of an operation's transaction, before it commits.

    They also show what a pooler left in the session, and what a trigger set for the
    transaction alone.  found: name -> value, as the last answer to send() showed them.
    """

    def __init__(self, server: ServerFacts | None) -> None:
        """Read the settings OF_A_SESSION that *server* has; without it none."""
        settings = server.settings if server is not None else ()
        self._names = [name for name in OF_A_SESSION if name in settings]
        self._text = read_sql(FAMILY, "look_session").encode()
        # Index of the statement's answer among the operation's; -1: it was not sent.
        self._answer_place = -1
        self.found: Mapping[str, str] = {}

    def begin_operation(self, *, wanted: bool) -> bool:
        """Begin an operation; return whether send() is to be called for it."""
        self._answer_place = -1
        return wanted and bool(self._names)

    def send(self, pgconn: PGconn, tags: list[bytes]) -> None:
        """Send the statement, and add the tag of its answer."""
        self._answer_place = len(tags)
        names = f"{{{','.join(self._names)}}}"
        pgconn.send_query_params(self._text, [names.encode()])
        tags.append(b"SELECT %d" % len(self._names))

    def take(self, results: Sequence[PGresult]) -> None:
        """Keep the settings that *results* show, if send() was called."""
        if self._answer_place < 0:
            return
        answer = results[self._answer_place]
        rows = range(answer.ntuples)
        pairs = ((answer.get_value(n, 0), answer.get_value(n, 1)) for n in rows)
        self.found = {
            name.decode(): value.decode("utf-8", "replace")
            for name, value in pairs
            if name is not None and value is not None
        }


def read_other_settings(link: PostgresqlLink) -> tuple[ScopedSettings, ...]:
    """Return the settings of roles and databases, and facts about the whole server."""
    stored: dict[str, dict[str, str]] = {}
    for role, database, setting in link.rows("role_settings"):
        name, _, value = setting.partition("=")
        stored.setdefault(_describe_scope(role, database), {})[name] = value
    found = [ScopedSettings(whose, _STORED, each) for whose, each in stored.items()]
    for (value,) in link.rows("archiver"):
        how = "pg_settings, archive_mode and archive_command"
        found.append(ScopedSettings("the archiver", how, {ARCHIVER: value}))
    (tables,) = link.row("unlogged")
    found.append(ScopedSettings("this database", "pg_class", {UNLOGGED: tables}))
    return tuple(found)


def _describe_scope(role: str | None, database: str | None) -> str:
    if role is None:
        return f"every session in database {database}" if database else "every session"
    return f"role {role} in database {database}" if database else f"role {role}"
