"""Makes a whole server acknowledge too early, for a control, and restores it.

MySQL and MariaDB have no setting by which a single session acknowledges too early.  SET
GLOBAL lasts until the server restarts, as it does after every cut.  For a client that
dies before the cut, the change is recorded in a table in the server's memory, which a
restart empties as well: a row in it shows the next client that the change is in effect.

Without a binary log a commit depends on its storage engine's log alone.  With one,
recovery goes by the binary log (MySQL 8.4 manual, 7.4.4 The Binary Log; MariaDB
documentation, Group Commit for the Binary Log), so its flushes are left out as well.

A control must lose its commits in a cut that takes the page cache and nothing more, as
on a drive whose cache survives, so they stay in the page cache.  If they stayed in the
server, a switch that only kills the server would seem to cut the power.  MariaDB writes
its redo log past the page cache, with O_DIRECT, unless innodb_log_file_buffering is ON
(from 10.8.3 on; the setting from 10.8.4 and 10.9.2 on; MariaDB documentation, InnoDB
System Variables).  MySQL and older releases of MariaDB write it through the page cache,
under O_DIRECT as well; each write is flushed where it is opened with O_DSYNC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbcheck.audit.mysql import INNODB
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.check import parse_product
from dbcheck.engines.mysql.grants import (
    find_missing_on_server,
    list_grants,
    quote_account,
)
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.places import ENGINES, StorageEngine
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
BUFFERING = "innodb_log_file_buffering"
TABLE = "relaxed"
_DURABLE_BINLOG = frozenset({1})
# Values of the setting that flushes a storage engine's log: where the log of a commit
# is when the commit is acked.
_LOG_IN_SERVER, _LOG_IN_PAGE_CACHE = 0, 2
_BINLOG_NEVER_FLUSHED = 0  # the system writes the binary log to the drive at its time
_PAST_PAGE_CACHE, _INTO_PAGE_CACHE = 0, 1  # values of BUFFERING
_SWITCH = {"OFF": "0", "ON": "1"}
# Each setting that a control may change -> the statement that sets it.
_SETTERS = {engine.flush_log: engine.set_flush_log for engine in ENGINES.values()} | {
    BINLOG: "set_sync_binlog",
    BUFFERING: "set_log_file_buffering",
}


@dataclass(frozen=True, slots=True)
class _Durability:
    """The settings that decide if a commit is durable.

    server: the server's server_id.  values: name of a setting -> its value, of each
    that a control may change and this server has.  storage: of dbcheck's tables.
    write_through: the setting that has each write to their log flushed, "" if none
    does.
    """

    server: int
    has_binlog: bool
    values: Mapping[str, int]
    storage: StorageEngine
    write_through: str

    @property
    def deciding(self) -> dict[str, int]:
        """Values of the settings that decide whether an ack waits for the drive."""
        names = [self.storage.flush_log, *([BINLOG] if self.has_binlog else [])]
        return {name: self.values[name] for name in names}

    @property
    def durable(self) -> list[str]:
        """Names of the settings whose values make an ack wait for the drive."""
        safe = {self.storage.flush_log: self.storage.durable, BINLOG: _DURABLE_BINLOG}
        return [name for name, value in self.deciding.items() if value in safe[name]]

    def list_changes(self, *, process: bool) -> dict[str, int]:
        """Return the value that a control gives each setting which it changes.

        process: see weaken().
        """
        flush_log = self.storage.flush_log
        weak = {
            flush_log: _LOG_IN_SERVER if process else _LOG_IN_PAGE_CACHE,
            BINLOG: _BINLOG_NEVER_FLUSHED,
        }
        changes = {name: weak[name] for name in self.durable}
        log_is = {**self.values, **changes}[flush_log]
        past = self.values.get(BUFFERING) == _PAST_PAGE_CACHE
        in_innodb = self.storage.name == INNODB
        if in_innodb and past and log_is == _LOG_IN_PAGE_CACHE and not process:
            changes[BUFFERING] = _INTO_PAGE_CACHE
        return changes


def _read_durability(link: MysqlLink) -> _Durability:
    storage = link.storage
    found: dict[str, str] = dict(link.rows("durability"))
    return _Durability(
        server=int(found["server_id"]),
        has_binlog=found["log_bin"] == "ON",
        values={
            name: int(_SWITCH.get(found[name], found[name]))
            for name in _SETTERS
            if name in found
        },
        storage=storage,
        write_through=_find_write_through(found) if storage.name == INNODB else "",
    )


def _find_write_through(found: Mapping[str, str]) -> str:
    """Return what has InnoDB open its log with O_DSYNC, "" if nothing does.

    innodb_flush_method decides only where the other, of MariaDB 11.0, does not exist.
    """
    name, on = "innodb_log_file_write_through", "ON"
    if name not in found:
        name, on = "innodb_flush_method", "O_DSYNC"
    return f"{name} is {on}" if found.get(name) == on else ""


def _set_global(link: MysqlLink, name: str, value: int) -> None:
    link.rows(_SETTERS[name], {"value": value})


def check_weakening(link: MysqlLink, database: str) -> None:
    """Raise EngineError if another program's table has the name that weaken() needs.

    account.require_rights() checks the privileges.
    """
    _has_own_change_table(link, database)


def list_weakening_privileges(link: MysqlLink) -> list[tuple[Privileges, ...]]:
    """Return the privileges that weaken() needs; any one of each tuple is enough."""
    names = _read_durability(link).list_changes(process=False)
    return list(dict.fromkeys(_list_accepted(link, name) for name in names))


def weaken(link: MysqlLink, database: str, *, process: bool) -> str:
    """Let commits be acked before they are durable; return a description of the change.

    link:    in *database*.
    process: the cut ends the server's process alone, so that the page cache is kept.

    A setting that is weak already stays as it is.  Raise EngineError if the commits
    cannot be left in the page cache.
    """
    found = _read_durability(link)
    changes = found.list_changes(process=process)
    in_server = process or found.values[link.storage.flush_log] == _LOG_IN_SERVER
    if found.write_through and not in_server:
        raise EngineError(
            f"{found.write_through}: each write to the redo log is flushed, so a"
            " control could lose nothing",
            id=ErrorId.CONTROL_NOT_SUPPORTED,
            hint="Run without --control.",
        )
    if not changes:
        text = ", ".join(f"{name} is {value}" for name, value in found.deciding.items())
        return f"{text} on the server already; nothing was changed"
    if _has_own_change_table(link, database):
        link.rows("drop_relaxed")  # of a control before a restart
    link.rows("create_relaxed")
    texts = []
    for name, changed in changes.items():
        former = found.values[name]
        _remember(link, found.server, name, former, changed)
        _set_global(link, name, changed)
        texts.append(f"{name} = {changed} (was {former})")
    require_weak(link)
    _require_buffering(link, changes)
    return f"{', '.join(texts)} on the whole server until the cut"


def _remember(
    link: MysqlLink, server: int, name: str, former: int, changed: int
) -> None:
    note = {"setting": name, "former": former, "changed": changed}
    link.rows("remember_relaxed", {"server": server, **note})


def _require_buffering(link: MysqlLink, changes: Mapping[str, int]) -> None:
    """Raise EngineError if MariaDB ignored the change of BUFFERING.

    It does so without an error (MariaDB documentation, InnoDB System Variables).
    """
    if BUFFERING not in changes:
        return
    if _read_durability(link).values[BUFFERING] != changes[BUFFERING]:
        raise EngineError(
            f"MariaDB did not set {BUFFERING} to ON: its redo log goes past the page"
            " cache, so a control could lose nothing",
            id=ErrorId.CONTROL_NOT_SUPPORTED,
            hint="Run again if innodb_log_file_size was just changed; run without"
            " --control if the log is in persistent memory.",
        )


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
    Raise EngineError if BUFFERING stays as it is until the server restarts: MariaDB
    10.11.19 does not open its redo log with O_DIRECT again (os_file_log_buffered() in
    storage/innobase/os/os0file.cc).  A run would test it as it is not in operation, and
    find it changed after the cut.
    """
    restored, left = [], []
    found = _read_durability(link)
    for name, former, changed in link.rows("relaxed"):
        if found.values.get(name) != changed:
            continue
        _require_privilege(link, name)
        _set_global(link, name, former)
        if _read_durability(link).values[name] == former:
            restored.append(
                f"{name} is {former} again; a control had set it to {changed}"
            )
        else:
            left.append((name, former, changed))
    link.rows("drop_relaxed")
    if left:
        link.rows("create_relaxed")
        for note in left:
            _remember(link, found.server, *note)
        stay = [f"{name} stays {changed}" for name, _, changed in left]
        raise EngineError(
            ", ".join([*restored, *stay])
            + ": MariaDB sets it back only when it starts; commits are durable with it",
            id=ErrorId.CONTROL_NEEDS_RESTART,
            hint="Restart the server, then do this again.",
        )
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
