"""Which chores an account may do on MySQL or MariaDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.engines.mysql.check import quote_account
from dbcheck.engines.mysql.grants import missing
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.rows.chores import ChoreKind
from dbcheck.rows.table import SIDES

# MySQL 8.4 manual: 15.1.9, 15.1.15 and 15.7.8.3; the same in MariaDB's.
_ON_TABLES = {ChoreKind.INDEX: "INDEX", ChoreKind.REWRITE: "ALTER"}
_ON_ALL = {ChoreKind.CHECKPOINT: "RELOAD", ChoreKind.ROTATE: "RELOAD"}


def lacking(
    link: MysqlLink, database: str, kinds: Sequence[ChoreKind]
) -> dict[ChoreKind, str]:
    """Return which chores cannot be done, and why."""
    grants = [row[0] for row in link.rows("grants")]
    account = quote_account(link.row("server")[2])
    side, *_ = SIDES
    found: dict[ChoreKind, str] = {}
    for kind in kinds:
        if kind is ChoreKind.VACUUM:
            found[kind] = link.storage.purges
        elif kind is ChoreKind.REWRITE and link.storage.no_rewrite:
            found[kind] = link.storage.no_rewrite
        elif kind is ChoreKind.ROTATE and not _has_binary_log(link):
            found[kind] = "the server keeps no binary log"
        elif privilege := _ON_TABLES.get(kind):
            if missing(grants, database, side.name, (privilege,)):
                found[kind] = (
                    f"run: grant {privilege.lower()} on `{database}`.* to {account};"
                )
        elif (privilege := _ON_ALL.get(kind)) and missing(
            [grant for grant in grants if " ON *.* " in grant], "*", "*", (privilege,)
        ):
            found[kind] = f"run: grant {privilege.lower()} on *.* to {account};"
    return found


def _has_binary_log(link: MysqlLink) -> bool:
    variables: Mapping[str, str] = dict(link.rows("variables"))
    return variables.get("log_bin", "OFF") in ("ON", "1")
