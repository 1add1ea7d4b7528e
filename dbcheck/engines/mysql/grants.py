"""Reads SHOW GRANTS: the privileges of an account, and the tasks they allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.rows.table import SIDES
from dbcheck.rows.tasks import TaskKind

# GRANT privileges ON object TO ...; granting a role has no ON and does not match.
_STATEMENT = re.compile(
    r"(?P<verb>GRANT|REVOKE) (?P<privileges>.+?) ON (?P<object>\S+) (?:TO|FROM) "
)
_OBJECT = re.compile(r"(?P<database>\*|`(?:[^`]|``)+`)\.(?P<table>\*|`(?:[^`]|``)+`)")
_COLUMNS = re.compile(r"[A-Z ]+\([^)]*\)")  # on some columns alone: not enough
_ALL = "ALL PRIVILEGES"
# MySQL 8.4 manual: 15.1.9, 15.1.15 and 15.7.8.3; the same in MariaDB's.
_ON_TABLES = {TaskKind.INDEX: "INDEX", TaskKind.REWRITE: "ALTER"}
_ON_ALL = {TaskKind.CHECKPOINT: "RELOAD", TaskKind.ROTATE: "RELOAD"}


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
        if match is None or not _covers(match["object"], database, table):
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


def _covers(target: str, database: str, table: str) -> bool:
    """Return True if the object of a GRANT includes *table* in *database*."""
    match = _OBJECT.fullmatch(target)
    if match is None:
        return False
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


def find_impossible_tasks(
    link: MysqlLink, database: str, kinds: Sequence[TaskKind]
) -> dict[TaskKind, str]:
    """Return the tasks that cannot be done, and the reason of each."""
    grants = [row[0] for row in link.rows("grants")]
    account = quote_account(link.row("server")[2])
    side, *_ = SIDES
    found: dict[TaskKind, str] = {}
    for kind in kinds:
        if kind is TaskKind.VACUUM:
            found[kind] = link.storage.purges
        elif kind is TaskKind.REWRITE and link.storage.no_rewrite:
            found[kind] = link.storage.no_rewrite
        elif kind is TaskKind.ROTATE and not _has_binary_log(link):
            found[kind] = "the server keeps no binary log"
        elif privilege := _ON_TABLES.get(kind):
            if find_missing_privileges(grants, database, side.name, (privilege,)):
                found[kind] = (
                    f"run: grant {privilege.lower()} on `{database}`.* to {account};"
                )
        elif (privilege := _ON_ALL.get(kind)) and find_missing_privileges(
            [grant for grant in grants if " ON *.* " in grant], "*", "*", (privilege,)
        ):
            found[kind] = f"run: grant {privilege.lower()} on *.* to {account};"
    return found


def _has_binary_log(link: MysqlLink) -> bool:
    variables: Mapping[str, str] = dict(link.rows("variables"))
    return variables.get("log_bin", "OFF") in ("ON", "1")


def quote_account(account: str) -> str:
    """Return user@host as a GRANT wants it."""
    user, _, host = account.rpartition("@")
    return f"'{user}'@'{host}'"
