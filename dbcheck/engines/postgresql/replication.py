"""PostgreSQL's streaming replication: who follows, how far, and a promotion."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.watch import Watch
from dbcheck.model.replication import (
    Descent,
    Follower,
    Membership,
    Received,
    position_of,
)

_GRANT = (
    "On the writer, in dbcheck's database, run: grant execute on function"
    " pg_promote(boolean, integer) to dbcheck's account; or promote by a command"
    " (dbcheck_promote)."
)
_READ_FILE = (
    "its history file cannot be read (on the writer, in dbcheck's database: grant"
    " execute on function pg_read_file(text, bigint, bigint, boolean) to dbcheck's"
    " account)"
)


class Followers(Watch):
    """A connection to the writer that lists its standbys; see ports.connection."""

    def read(self) -> Sequence[Follower]:
        found = self._rows("followers")
        if any(state is None for _, state, *_ in found):
            raise _unseen("the state of the standbys")
        return [Follower(*row) for row in found]


def membership(link: PostgresqlLink) -> Membership | None:
    """Return the name under which the writer lists this node."""
    found = link.rows("member")
    if not found:
        return None
    name, conninfo, targets, connection, host, port, own = found[0]
    if conninfo is None:
        raise _unseen("how the standby is connected")
    if targets:
        raise EngineError(
            f"the standby ends its recovery early: {targets} is set",
            id=ErrorId.RECOVERY_ENDS_EARLY,
            hint="Remove that from its configuration and restart it: commits that it"
            " has received would look lost.",
        )
    return Membership(name, "", connection, (host, port), own)


def _unseen(what: str) -> EngineError:
    return EngineError(
        f"the account may not see {what}",
        id=ErrorId.PRIVILEGE_MISSING,
        hint="On the writer run: grant pg_monitor to dbcheck's account;",
    )


def received(link: PostgresqlLink) -> Received:
    """Return how far this node has received and applied the writer's log."""
    return Received(*link.row("received"))


def promote(link: PostgresqlLink) -> None:
    """Ask this standby to take over, and do not wait; raise EngineError."""
    try:
        ((asked,),) = link.rows("promote")
    except EngineError as error:
        raise EngineError(
            str(error), id=ErrorId.PROMOTION_REFUSED, hint=_GRANT
        ) from error
    if not asked:
        raise EngineError(
            "the standby did not accept the promotion",
            id=ErrorId.PROMOTION_REFUSED,
            hint="Look into its log.",
        )


def descent(link: PostgresqlLink) -> Descent:
    """Return where the node's timeline left its parent (timeline.c: the last line)."""
    try:
        timeline, history = link.row("branch")
    except EngineError as error:
        return Descent(unread=f"{_READ_FILE}: {error}")
    lines = [line.split() for line in (history or "").splitlines() if line.strip()]
    parents = [words for words in lines if words[0].isdigit() and len(words) > 1]
    if not parents:
        return Descent(own=timeline, unread=f"timeline {timeline} has no history file")
    parent, switch, *_ = parents[-1]
    return Descent({f"{int(parent):08X}": position_of(switch)}, timeline)
