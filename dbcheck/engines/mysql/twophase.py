"""Two-phase commit on MySQL and MariaDB: XA transactions (MySQL 8.4 manual, 15.3.8)."""

from __future__ import annotations

import hashlib

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, NotPrepared
from dbcheck.engines.mysql.grants import quote_account
from dbcheck.engines.mysql.link import MysqlLink, code_of
from dbcheck.rows.prepared import PREFIX, Decisions

_BRANCH_CHARS = 8
_XAER_NOTA = 1397  # ER_XAER_NOTA: unknown XID (MySQL 8.4 error reference)


def branch_of(database: str) -> str:
    """Return the branch qualifier of transactions in *database*.

    XA RECOVER lists those of the whole server and names no database.
    """
    return hashlib.sha256(database.encode()).hexdigest()[:_BRANCH_CHARS]


def xid(name: bytes, database: str) -> bytes:
    """Return the identifier of the transaction *name*, as a statement has it."""
    return b"'%s','%s'" % (name, branch_of(database).encode())


def prepared(link: MysqlLink, database: str) -> tuple[str, ...]:
    """Return the names of dbcheck's transactions that are prepared in *database*.

    Raise EngineError, with the GRANT as hint, if the account may not list them.
    """
    branch, names = branch_of(database), []
    try:
        found = link.rows("prepared")
    except EngineError as error:
        *_, account = link.row("server")
        raise EngineError(
            f"cannot list prepared transactions: {error}",
            id=ErrorId.PRIVILEGE_MISSING,
            hint=f"Run: grant xa_recover_admin on *.* to {quote_account(account)};",
        ) from error
    for _, length, _, data in found:
        text = data.decode("latin-1") if isinstance(data, bytes) else str(data)
        if text.startswith(PREFIX) and text[length:] == branch:
            names.append(text[:length])
    return tuple(names)


def decide(link: MysqlLink, name: str, database: str, *, commit: bool) -> None:
    """Commit or roll back a prepared transaction; raise NotPrepared if it is none."""
    statement = "commit_prepared" if commit else "rollback_prepared"
    try:
        link.rows(statement, {"name": name, "branch": branch_of(database)})
    except EngineError as error:
        if code_of(error) == _XAER_NOTA:
            raise NotPrepared(str(error), id=ErrorId.STATEMENT_FAILED) from error
        raise


def decisions(link: MysqlLink) -> Decisions:
    """Read the server's counters of XA commits and rollbacks."""
    counted = {name: int(value) for name, value in link.rows("decisions")}
    return Decisions(counted["Com_xa_commit"], counted["Com_xa_rollback"])
