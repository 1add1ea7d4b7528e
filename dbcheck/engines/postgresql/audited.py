"""What PostgreSQL shows of settings beside those of one session."""

from __future__ import annotations

from dbcheck.audit.postgresql import ARCHIVER, UNLOGGED
from dbcheck.core.audited import OtherSettings
from dbcheck.engines.postgresql.link import PostgresqlLink

_STORED = "pg_db_role_setting"


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
