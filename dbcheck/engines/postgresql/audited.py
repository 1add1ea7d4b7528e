"""What PostgreSQL shows of settings beside those of one session, or of one moment."""

from __future__ import annotations

from collections.abc import Collection

from dbcheck.audit.postgresql import ARCHIVER, UNLOGGED
from dbcheck.core.audited import OtherSettings
from dbcheck.core.watched import CANARY, GONE, THERE, Fact, FactKind, settings_looked
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.watch import Watch

_STORED = "pg_db_role_setting"
_LOADED = Fact(FactKind.CHANGE_TIME, "configuration")


class Look(Watch):
    """A connection that looks at settings and the canary; see ports.abilities.

    An idle session takes over what a reload changed before it runs its next statement
    (postgres.c, PostgresMain).
    """

    def __init__(
        self, link: PostgresqlLink, settings: Collection[str], epoch: int | None
    ) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._names, self._epoch = list(settings), epoch

    def read(self) -> dict[Fact, str]:
        found = dict(self._rows("look_settings", {"names": self._names}))
        looked = settings_looked(found)
        ((looked[_LOADED],),) = self._rows("loaded")
        if self._epoch is not None:
            there = self._rows("canary", {"epoch": self._epoch})
            looked[CANARY] = THERE if there else GONE
        return looked


def other_settings(link: PostgresqlLink) -> tuple[OtherSettings, ...]:
    """Return the settings of roles and databases, and facts about the whole server."""
    stored: dict[str, dict[str, str]] = {}
    for role, database, setting in link.rows("role_settings"):
        name, _, value = setting.partition("=")
        stored.setdefault(_whose(role, database), {})[name] = value
    found = [OtherSettings(whose, _STORED, each) for whose, each in stored.items()]
    for (value,) in link.rows("archiver"):
        how = "pg_settings, archive_mode and archive_command"
        found.append(OtherSettings("the archiver", how, {ARCHIVER: value}))
    (tables,) = link.row("unlogged")
    found.append(OtherSettings("this database", "pg_class", {UNLOGGED: tables}))
    return tuple(found)


def _whose(role: str | None, database: str | None) -> str:
    if role is None:
        return f"every session in database {database}" if database else "every session"
    return f"role {role} in database {database}" if database else f"role {role}"
