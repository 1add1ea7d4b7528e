"""The tables in dbcheck's schema: which are there, who locks them, and how they go."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.engines.postgresql import amcheck
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.rows.table import TableSpec

_SCHEMA = "dbcheck"


def find_own_tables(
    link: PostgresqlLink, tables: Sequence[TableSpec]
) -> tuple[TableSpec, ...]:
    """Return the tables that exist and are dbcheck's; raise EngineError."""
    names = set(_list_names(link))
    return tuple(table for table in tables if f"{_SCHEMA}.{table.name}" in names)


def read_table_id(link: PostgresqlLink, table: TableSpec) -> str:
    """Return the OID of a table, and the node of its file, which a rewrite changes.

    "" if the table is not there, or the account may not see it.  Raise EngineError.
    """
    found = link.rows("table_identity", {"name": table.name})
    return found[0][0] or "" if found else ""


def describe_blockers(link: PostgresqlLink) -> str:
    """Return who has or awaits a lock that no reader passes, "" if nobody does.

    Raise EngineError.
    """
    found = []
    for name, granted, pid, role, application, state in link.rows("blockers"):
        who = f"process {pid}" if pid else "a prepared transaction"
        more = ", ".join(filter(None, (role, application, state)))
        what = "has locked" if granted else "waits to lock"
        found.append(f"{who} ({more}) {what} {name}" if more else who)
    return "; ".join(found)


def drop_tables(link: PostgresqlLink) -> list[str]:
    """Drop all that dbcheck created; return the names.  Raise EngineError.

    The schema goes as well, unless somebody else has something in it.
    """
    dropped = [f"{_SCHEMA}.amcheck"] if amcheck.drop(link) else []
    names = _list_names(link)
    for name in names:
        link.rows(f"drop_{name.removeprefix(f'{_SCHEMA}.')}")
    names += dropped
    if link.rows("empty_schema"):
        link.rows("drop_schema")
        names.append(f"schema {_SCHEMA}")
    return names


def _list_names(link: PostgresqlLink) -> list[str]:
    """Return the names of dbcheck's tables that are there, each with the schema."""
    return [name for (name,) in link.rows("present")]
