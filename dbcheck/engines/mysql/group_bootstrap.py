"""Forms a MySQL replication group again that lost all its members at once.

One of them bootstraps it, and the others join (MySQL 9.7 manual, 20.5.2 Restarting a
Group).
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping

from dbcheck.engines.mysql.group_replication import view_of
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.errors import EngineError

_JOIN_S = 75.0  # MySQL gives up after 60 s, and says why
_LOG = (
    "Look into its error log. A server that has transactions which the group lacks is"
    " refused."
)
_PRIVILEGES = (
    "Grant the account GROUP_REPLICATION_ADMIN and SYSTEM_VARIABLES_ADMIN"
    " (docs/privileges.md), or form the group again by other means"
    " (dbcheck_promoted_by: auto)."
)


def transactions(link: MysqlLink) -> str:
    """Return the set of those that this server has applied or has in its relay log."""
    executed, unapplied = link.row("group_received")
    return ",".join(filter(None, (executed, unapplied)))


def require_all_of(link: MysqlLink, others: Mapping[str, str]) -> None:
    """Raise EngineError if another server has transactions that this one lacks.

    others: what transactions() returned, by the names of the servers.
    """
    for name, theirs in others.items():
        (lacking,) = link.row("group_lacking", {"theirs": theirs})
        if lacking:
            raise EngineError(
                f"it lacks {lacking}, which {name} has",
                hint="No server has all transactions. Decide which one bootstraps the"
                " group; the others must be cloned, and lose what they alone have.",
            )


def bootstrap(link: MysqlLink) -> None:
    """Have this server form the group, as its only member; end_bootstrap() is due."""
    _end_attempt(link)
    with _advice():
        link.rows("bootstrap_on")
        link.rows("start_group", answer_s=_JOIN_S)


def end_bootstrap(link: MysqlLink) -> None:
    """Have the server join a group whenever it starts its part, and form none.

    Raise EngineError, with what to do.
    """
    try:
        link.rows("bootstrap_off")
    except EngineError as error:
        raise EngineError(
            f"group_replication_bootstrap_group may still be ON: {error}",
            hint="Run: set global group_replication_bootstrap_group = OFF; or else this"
            " server may form a second group.",
        ) from error


def join(link: MysqlLink) -> None:
    """Have this server join the group, unless it has; return once it has."""
    if view_of(link).joined:
        return
    _end_attempt(link)
    with _advice():
        link.rows("start_group", answer_s=_JOIN_S)


def _end_attempt(link: MysqlLink) -> None:
    """End what is left of an attempt to join; raise EngineError while one goes on."""
    if not view_of(link).states and link.rows("group_joining"):
        raise EngineError(
            "it still tries to join the group by itself"
            " (group_replication_start_on_boot), which takes a minute",
            hint="dbcheck waits for that.",
        )
    with _advice():
        link.rows("stop_group")


@contextlib.contextmanager
def _advice() -> Generator[None]:
    """Add what to do to the error of a statement that was refused."""
    try:
        yield
    except EngineError as error:
        denied = "denied" in str(error).lower()
        raise EngineError(str(error), hint=_PRIVILEGES if denied else _LOG) from error
