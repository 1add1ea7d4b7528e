"""Makes a whole server acknowledge too early, for a control, and restores it.

MySQL and MariaDB have no setting by which a single session acknowledges too early.  SET
GLOBAL lasts until the server restarts, as it does after every cut.  For a client that
dies before the cut, the change is recorded in a table in the server's memory, which a
restart empties as well: a row in it shows the next client that the change is in effect.

Without a binary log a commit depends on its storage engine's log alone.  With one,
recovery goes by the binary log (MySQL 8.4 manual, 7.4.4 The Binary Log; MariaDB
documentation, Group Commit for the Binary Log).  A flush of the binary log flushes the
drive, too, and so makes a redo log durable that is written with O_DIRECT, as MariaDB's
is from 10.11 on: hence the settings of both logs are weakened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.check import parse_product
from dbcheck.engines.mysql.grants import (
    find_missing_on_server,
    list_grants,
    quote_account,
)
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.places import StorageEngine
from dbcheck.engines.mysql.rights import (
    BINLOG_ADMIN_SINCE,
    SUPER,
    WEAKENING,
    WEAKENING_BINLOG,
    Privileges,
)
from dbcheck.engines.tables import MARK
from dbcheck.server_log import Product

BINLOG = "sync_binlog"
TABLE = "relaxed"
_DURABLE_BINLOG = frozenset({1})
# Values of the setting that flushes a storage engine's log: where the log of a commit
# is when the commit is acked.
_LOG_IN_SERVER, _LOG_IN_PAGE_CACHE = 0, 2
_BINLOG_NEVER_FLUSHED = 0  # the system writes the binary log to the drive at its time


@dataclass(frozen=True, slots=True)
class _Durability:
    """The settings that decide if a commit is durable.

    server: the server's server_id.  values: name of a setting -> its value.
    """

    server: int
    values: Mapping[str, int]
    storage: StorageEngine

    @property
    def durable(self) -> list[str]:
        """Names of the settings whose values make an ack wait for the drive."""
        safe = {self.storage.flush_log: self.storage.durable, BINLOG: _DURABLE_BINLOG}
        return [name for name, value in self.values.items() if value in safe[name]]


def _read_durability(link: MysqlLink) -> _Durability:
    storage = link.storage
    server, log_bin, flush_log, sync_binlog = link.row(storage.durability)
    values = {storage.flush_log: flush_log, BINLOG: sync_binlog}
    if not log_bin:
        del values[BINLOG]
    return _Durability(server, values, storage)


def _set_global(link: MysqlLink, name: str, value: int) -> None:
    storage = link.storage
    statement = (
        storage.set_flush_log if name == storage.flush_log else "set_sync_binlog"
    )
    link.rows(statement, {"value": value})


def check_weakening(link: MysqlLink, database: str) -> None:
    """Raise EngineError if another program's table has the name that weaken() needs.

    account.require_rights() checks the privileges.
    """
    _has_own_change_table(link, database)


def list_weakening_privileges(link: MysqlLink) -> list[tuple[Privileges, ...]]:
    """Return the privileges that weaken() needs; any one of each tuple is enough."""
    names = _read_durability(link).durable
    return list(dict.fromkeys(_list_accepted(link, name) for name in names))


def weaken(link: MysqlLink, database: str, *, process: bool) -> str:
    """Let commits be acked before they are durable; return a description of the change.

    link:    in *database*.
    process: the cut ends the server's process alone, so that the page cache is kept.

    A setting that is weak already stays as it is.
    """
    found = _read_durability(link)
    if not found.durable:
        text = ", ".join(f"{name} is {value}" for name, value in found.values.items())
        return f"{text} on the server already; nothing was changed"
    if _has_own_change_table(link, database):
        link.rows("drop_relaxed")  # of a control before a restart
    link.rows("create_relaxed")
    changes = []
    for name in found.durable:
        former, changed = found.values[name], _BINLOG_NEVER_FLUSHED
        if name == link.storage.flush_log:
            changed = _LOG_IN_SERVER if process else _LOG_IN_PAGE_CACHE
        note = {"setting": name, "former": former, "changed": changed}
        link.rows("remember_relaxed", {"server": found.server, **note})
        _set_global(link, name, changed)
        changes.append(f"{name} = {changed} (was {former})")
    require_weak(link)
    return f"{', '.join(changes)} on the whole server until the cut"


def require_weak(link: MysqlLink) -> None:
    """Raise EngineError if the server's commits are durable when they are acked."""
    found = _read_durability(link)
    for name in found.durable:
        raise EngineError(
            f"{name} is {found.values[name]} although a control had changed it",
            id=ErrorId.CONTROL_UNDONE,
            hint="Another client changed it back, or the server restarted; run again.",
        )


def has_change_table(link: MysqlLink, database: str) -> bool:
    """Return True if *database* has the table in which weaken() records changes."""
    found = link.rows("table", {"database": database, "name": TABLE})
    return bool(found) and found[0][2] == MARK


def restore(link: MysqlLink) -> str | None:
    """Undo what weaken() changed; return a description of it, None if nothing.

    link: in a database of which has_change_table() is true.
    """
    restored = []
    now = _read_durability(link).values
    for name, former, changed in link.rows("relaxed"):
        if now.get(name) == changed:
            _require_privilege(link, name)
            _set_global(link, name, former)
            restored.append(
                f"{name} is {former} again; a control had set it to {changed}"
            )
    link.rows("drop_relaxed")
    return ", ".join(restored) or None


def _has_own_change_table(link: MysqlLink, database: str) -> bool:
    """Return has_change_table(); raise EngineError for a foreign table of its name."""
    if has_change_table(link, database):
        return True
    if link.rows("table", {"database": database, "name": TABLE}):
        raise EngineError(
            f"the table {database}.{TABLE} was not created by dbcheck: its comment"
            f" is not {MARK!r}",
            id=ErrorId.TABLE_OF_OTHERS,
            hint="Rename or drop that table, or give dbcheck a database of its own.",
        )
    return False


def _list_accepted(link: MysqlLink, setting: str) -> tuple[Privileges, ...]:
    """Return the privileges any one of which lets an account change *setting*."""
    version, comment, _ = link.row("server")
    product, (release, *_) = parse_product(version, comment)
    if product is Product.MYSQL:
        return (WEAKENING[product], SUPER)
    if setting == BINLOG and release >= BINLOG_ADMIN_SINCE:
        return (WEAKENING_BINLOG,)
    return (WEAKENING[product],)


def _require_privilege(link: MysqlLink, setting: str) -> None:
    """Raise EngineError unless the account may change *setting* of the server."""
    grants, accepted = list_grants(link), _list_accepted(link, setting)
    if not all(find_missing_on_server(grants, each) for each in accepted):
        return
    account = quote_account(link.row("server")[2])
    raise EngineError(
        f"the account {account} lacks {accepted[0].names[0]}, without which {setting}"
        " cannot be set back after a control",
        id=ErrorId.PRIVILEGE_MISSING,
        hint=f"Run: {accepted[0].grant(account)}",
    )
