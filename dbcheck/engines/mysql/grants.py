"""Reads SHOW GRANTS: the privileges of an account."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.rights import SERVER, Privileges, quote_name

# GRANT privileges ON object TO ...; granting a role has no ON and does not match.
_NAME = r"\*|`(?:[^`]|``)+`"
_OBJECT = rf"(?P<database>{_NAME})\.(?P<table>{_NAME})"
_STATEMENT = re.compile(
    rf"(?P<verb>GRANT|REVOKE) (?P<privileges>.+?) ON {_OBJECT} (?:TO|FROM) "
)
_COLUMNS = re.compile(r"[A-Z ]+\([^)]*\)")  # on some columns alone: not enough
_ALL = "ALL PRIVILEGES"


def parse_privileges(
    statements: Iterable[str], database: str, table: str
) -> frozenset[str]:
    """Return the privileges that the account has on *table* in *database*.

    "ALL PRIVILEGES" stands for every one.  A partial REVOKE takes away again.
    """
    given: set[str] = set()
    taken: set[str] = set()
    for statement in statements:
        match = _STATEMENT.match(statement)
        if match is None or not _covers(match, database, table):
            continue
        parts = _COLUMNS.sub("", match["privileges"]).split(",")
        names = {part.strip() for part in parts} - {""}
        (given if match["verb"] == "GRANT" else taken).update(names)
    return frozenset(given - taken)


def find_missing_privileges(
    statements: Iterable[str], database: str, table: str, needed: Iterable[str]
) -> list[str]:
    """Return the *needed* privileges that the account lacks, in order."""
    found = parse_privileges(statements, database, table)
    return [] if _ALL in found else [name for name in needed if name not in found]


def _covers(match: re.Match[str], database: str, table: str) -> bool:
    """Return True if the object of a GRANT includes *table* in *database*."""
    if match["database"] == "*":
        return True
    if match["table"] == "*":
        return _pattern(_name(match["database"])).fullmatch(database) is not None
    return _name(match["database"]) == database and _name(match["table"]) == table


def _name(quoted: str) -> str:
    return quoted[1:-1].replace("``", "`")


def _pattern(like: str) -> re.Pattern[str]:
    r"""Compile the pattern of a database-level GRANT: % and _, escaped by \."""
    parts = re.findall(r"\\.|.", like, re.DOTALL)
    special = {"%": ".*", "_": "."}
    return re.compile(
        "".join(special.get(part) or re.escape(part[-1]) for part in parts), re.DOTALL
    )


def list_grants(link: MysqlLink) -> list[str]:
    """Return the GRANT statements of the account and of its active roles."""
    return [row[0] for row in link.rows("grants")]


def find_missing_on_server(
    statements: Iterable[str], privileges: Privileges
) -> list[str]:
    """Return the privileges on the whole server that the account lacks, in order."""
    on_server = [text for text in statements if f" ON {SERVER} " in text]
    return find_missing_privileges(on_server, "*", "*", privileges.names)


def quote_account(account: str) -> str:
    """Return user@host as a GRANT wants it."""
    user, _, host = account.rpartition("@")
    return f"{_quote_text(user)}@{_quote_text(host)}"


def _quote_text(text: str) -> str:
    """Return a text in quotes; what ends it depends on sql_mode, but in backticks."""
    return quote_name(text) if {"'", "\\"} & set(text) else f"'{text}'"
