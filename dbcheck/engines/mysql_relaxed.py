"""Makes a whole server acknowledge too early, for a control, and puts it back.

MySQL and MariaDB have no setting for a session that does so.  SET GLOBAL lasts until
the server restarts, which every cut leads to.  For a client that dies before the cut,
what was changed stands in a table in the server's memory, which a restart empties as
well: a row in it says that the change is in effect, to whoever comes next.
"""

from __future__ import annotations

from dbcheck.engines.mysql_check import product, quote_account
from dbcheck.engines.mysql_grants import missing
from dbcheck.engines.mysql_link import MysqlLink
from dbcheck.engines.tables import MARK
from dbcheck.errors import EngineError

SETTING = "innodb_flush_log_at_trx_commit"
TABLE = "relaxed"
_DURABLE = 1
_IN_THE_SERVER, _IN_THE_SYSTEM = 0, 2  # where a commit's log is when it is acked


def require_relaxing(link: MysqlLink, database: str) -> None:
    """Raise EngineError, with the GRANT as hint, if relax() would be refused."""
    _, value = link.row("flush_log")
    if value == _DURABLE:
        _require_privilege(link)
    _is_remembered(link, database)


def relax(link: MysqlLink, database: str, *, process: bool) -> str:
    """Let commits be acked before they are durable; return in words what was done.

    link: in *database*.  process: the cut will take no more than the server's process.
    A server that is not at 1 stays as it is.
    """
    server, former = link.row("flush_log")
    if former != _DURABLE:
        return f"{SETTING} is {former} on the server already, and is left so"
    changed = _IN_THE_SERVER if process else _IN_THE_SYSTEM
    if _is_remembered(link, database):
        link.rows("drop_relaxed")  # of a control before a restart
    link.rows("create_relaxed")
    link.rows(
        "remember_relaxed", {"server": server, "former": former, "changed": changed}
    )
    link.rows("set_flush_log", {"value": changed})
    require_relaxed(link)
    return f"{SETTING} = {changed} (was {former}) on the whole server until the cut"


def require_relaxed(link: MysqlLink) -> None:
    """Raise EngineError if the server's commits are durable when they are acked."""
    _, value = link.row("flush_log")
    if value == _DURABLE:
        raise EngineError(
            f"{SETTING} is {value} although a control had changed it",
            hint="Somebody changed it back, or the server restarted; run again.",
        )


def is_remembered(link: MysqlLink, database: str) -> bool:
    """Return whether *database* has the table in which relax() remembers."""
    found = link.rows("table", {"database": database, "name": TABLE})
    return bool(found) and found[0][2] == MARK


def tighten(link: MysqlLink) -> str | None:
    """Put back what relax() changed; return in words what that was, None if nothing.

    link: in a database of which is_remembered() is true.
    """
    said = None
    for former, changed in link.rows("relaxed"):
        if link.row("flush_log")[1] == changed:
            _require_privilege(link)
            link.rows("set_flush_log", {"value": former})
            said = f"{SETTING} is {former} again; a control had set it to {changed}"
    link.rows("drop_relaxed")
    return said


def _is_remembered(link: MysqlLink, database: str) -> bool:
    """Return is_remembered(); raise EngineError if that table is not dbcheck's."""
    if is_remembered(link, database):
        return True
    if link.rows("table", {"database": database, "name": TABLE}):
        raise EngineError(
            f"the table {database}.{TABLE} does not bear dbcheck's mark in its comment",
            hint="Rename or drop that table, or give dbcheck a database of its own.",
        )
    return False


def _require_privilege(link: MysqlLink) -> None:
    """Raise EngineError unless the account may change settings of the server."""
    version, comment, account = link.row("server")
    name, _ = product(version, comment)
    names = ["SUPER"] if name == "MariaDB" else ["SYSTEM_VARIABLES_ADMIN", "SUPER"]
    everywhere = [row[0] for row in link.rows("grants") if " ON *.* " in row[0]]
    if len(missing(everywhere, "*", "*", names)) < len(names):
        return
    quoted = quote_account(account)
    raise EngineError(
        f"the account {quoted} lacks {names[0]}, without which {SETTING} cannot be"
        " changed for a control",
        hint=f"Run: grant {names[0].lower()} on *.* to {quoted};",
    )
