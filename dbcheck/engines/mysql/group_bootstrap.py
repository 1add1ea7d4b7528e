"""Forms a MySQL replication group again that lost all its members at once.

One of them bootstraps it, and the others join (MySQL 9.7 manual, 20.5.2 Restarting a
Group).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, StillBootstraps
from dbcheck.engines.mysql.grants import granted
from dbcheck.engines.mysql.group_replication import View, group_of, view_of
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.model.replication import Detached

_JOIN_S = 75.0  # MySQL gives up after 60 s, and says why
_ADMIN = "GROUP_REPLICATION_ADMIN"
_MAY_START = {_ADMIN, "SUPER", "ALL PRIVILEGES"}
_LOG = (
    "Look into its error log. A server that has transactions which the group lacks is"
    " refused."
)
_PRIVILEGES = (
    "Grant the account GROUP_REPLICATION_ADMIN and SYSTEM_VARIABLES_ADMIN"
    " (docs/privileges.md), or form the group again by other means"
    " (dbcheck_promoted_by: auto)."
)


def require_allowed(link: MysqlLink) -> None:
    """Raise EngineError if this account may not have the server form a group."""
    with _advice():
        link.rows("group_joining")
        link.rows("bootstrap_off")  # as it is
    statements = [row[0] for row in link.rows("grants")]
    found = granted(statements, "*", "*")
    roles = any(" ON " not in statement for statement in statements)  # perhaps by one
    if not (found & _MAY_START or roles):
        raise EngineError(
            f"the account lacks {_ADMIN}",
            id=ErrorId.PRIVILEGE_MISSING,
            hint=_PRIVILEGES,
        )


def detached(link: MysqlLink) -> Detached:
    """Return what this server has applied or has in its relay log, and what it is.

    Raise EngineError if it is a member, or tries to become one.
    """
    view = view_of(link)
    if view.joined:
        raise EngineError(
            "it is in a group already",
            id=ErrorId.NODE_JOINED_MEANWHILE,
            hint="dbcheck looks again whose that is.",
        )
    _require_idle(link, view)
    executed, unapplied = link.row("group_received")
    has = ",".join(filter(None, (executed, unapplied)))
    return Detached(view.own, group_of(link), has)


def require_all_of(link: MysqlLink, others: Mapping[str, str]) -> None:
    """Raise EngineError if another server has transactions that this one lacks.

    others: the transactions that they have, by the names of the servers.
    """
    for name, theirs in others.items():
        (lacking,) = link.row("group_lacking", {"theirs": theirs})
        if lacking:
            raise EngineError(
                f"it lacks {lacking}, which {name} has",
                id=ErrorId.GROUP_LACKS_TRANSACTIONS,
                hint="No server has all transactions. Decide which one bootstraps the"
                " group; the others must be cloned, and lose what they alone have.",
            )


def bootstrap(link: MysqlLink, end_anew: Callable[[], None]) -> None:
    """Have this server form the group, as its only member.

    end_anew: does the same as end_bootstrap(), over a connection of its own.
    Raise EngineError, and StillBootstraps if end_bootstrap() is due.
    """
    _end_attempt(link)
    with _advice():
        try:
            link.rows("bootstrap_on")
            link.rows("start_group", answer_s=_JOIN_S)
        finally:
            with interrupt.held_back():
                try:
                    end_bootstrap(link)
                except EngineError:  # the connection may be gone, and the server not
                    end_anew()


def end_bootstrap(link: MysqlLink) -> None:
    """Have the server join a group whenever it starts its part, and form none."""
    link.rows("bootstrap_off")


def still_bootstraps(error: EngineError) -> StillBootstraps:
    """Return the error of a server on which end_bootstrap() is still due."""
    return StillBootstraps(
        f"group_replication_bootstrap_group may still be ON: {error}",
        id=ErrorId.GROUP_MAY_START_TWICE,
        hint="Run: set global group_replication_bootstrap_group = OFF; or else this"
        " server may form a second group.",
    )


def join(link: MysqlLink) -> None:
    """Have this server join the group, unless it has; return once it has."""
    if view_of(link).joined:
        return
    _end_attempt(link)
    with _advice():
        link.rows("start_group", answer_s=_JOIN_S)


def _end_attempt(link: MysqlLink) -> None:
    """End what is left of an attempt to join; raise EngineError while one goes on."""
    view = view_of(link)
    if view.joined:
        raise EngineError(
            "it has joined a group meanwhile",
            id=ErrorId.NODE_JOINED_MEANWHILE,
            hint="dbcheck looks again whose that is.",
        )
    _require_idle(link, view)
    with _advice():
        link.rows("stop_group")


def _require_idle(link: MysqlLink, view: View) -> None:
    """Raise EngineError while the server tries to join by itself."""
    if not view.states and link.rows("group_joining"):
        raise EngineError(
            "it still tries to join the group by itself"
            " (group_replication_start_on_boot), which takes a minute",
            id=ErrorId.NODE_STILL_JOINS,
            hint="dbcheck waits for that.",
        )


@contextlib.contextmanager
def _advice() -> Generator[None]:
    """Add what to do to the error of a statement that was refused."""
    try:
        yield
    except StillBootstraps:
        raise
    except EngineError as error:
        denied = "denied" in str(error).lower()
        raise EngineError(
            str(error),
            id=ErrorId.PRIVILEGE_MISSING if denied else ErrorId.GROUP_NOT_FORMED,
            hint=_PRIVILEGES if denied else _LOG,
        ) from error
