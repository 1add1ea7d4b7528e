"""Streaming replication: standbys, positions and a promotion; and subscriptions.

By a subscription another server, the publisher, writes into dbcheck's tables: as soon
as it is enabled, the server fetches from its publisher the changes that it lacks
(PostgreSQL 18 manual, 29.2 Subscription).
"""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.link import Watch
from dbcheck.engines.postgresql.link import NOT_PERMITTED, PostgresqlLink, error_code
from dbcheck.engines.postgresql.rights import (
    grant_history,
    grant_monitor,
    grant_promote,
)
from dbcheck.model.replication import (
    Descent,
    Follower,
    Membership,
    Received,
    parse_position,
)
from dbcheck.model.server import Refill
from dbcheck.rows.table import TableSpec

_ACCOUNT = "ACCOUNT"  # of dbcheck, in a GRANT that names no certain one
_PROMOTE_HINT = (
    f"On the writer, in dbcheck's database, run: {grant_promote(_ACCOUNT)} or promote"
    " by a command (dbcheck_promote)."
)
_HISTORY_UNREADABLE = (
    "its history file cannot be read (on the writer, in dbcheck's database, run:"
    f" {grant_history(_ACCOUNT)})"
)
_SUBSCRIPTION_ADVICE = (
    "Run DROP SUBSCRIPTION, or leave these tables out of the publication and run ALTER"
    " SUBSCRIPTION ... REFRESH PUBLICATION"
)


class Followers(Watch):
    """Lists the writer's standbys over one link (ports.connection.Followers)."""

    def read(self) -> Sequence[Follower]:
        rows = self._rows("followers")
        if any(state is None for _, state, *_ in rows):
            raise _unseen_error("the state of the standbys")
        return [Follower(*row) for row in rows]


def membership(link: PostgresqlLink) -> Membership | None:
    """Return how the writer lists this node; None if it is no connected standby."""
    rows = link.rows("member")
    if not rows:
        return None
    name, conninfo, targets, connection, host, port, own = rows[0]
    if conninfo is None:
        raise _unseen_error("how the standby is connected")
    if targets:
        raise EngineError(
            f"the standby ends its recovery early: {targets} is set",
            id=ErrorId.RECOVERY_ENDS_EARLY,
            hint="Remove that from its configuration and restart it: commits that it"
            " has received would look lost.",
        )
    return Membership(name, "", connection, (host, port), own)


def _unseen_error(what: str) -> EngineError:
    return EngineError(
        f"the account may not see {what}",
        id=ErrorId.PRIVILEGE_MISSING,
        hint=f"On the writer run: {grant_monitor(_ACCOUNT)}",
    )


def received(link: PostgresqlLink) -> Received:
    """Return the positions of the writer's log received and applied by this node."""
    return Received(*link.row("received"))


def promote(link: PostgresqlLink) -> None:
    """Ask this standby to take over, without waiting for it.

    Raise EngineError; its hint is the GRANT if the account may not ask for it.
    """
    try:
        ((is_accepted,),) = link.rows("promote")
    except EngineError as error:
        if error_code(error) != NOT_PERMITTED:
            raise
        raise EngineError(
            str(error), id=ErrorId.PROMOTION_REFUSED, hint=_PROMOTE_HINT
        ) from error
    if not is_accepted:
        raise EngineError(
            "the standby did not accept the promotion",
            id=ErrorId.PROMOTION_REFUSED,
            hint="Look into its log.",
        )


def descent(link: PostgresqlLink) -> Descent:
    """Return where this node's timeline began: the last line of its history file.

    The format is in PostgreSQL's timeline.c.
    """
    try:
        timeline, history = link.row("branch")
    except EngineError as error:
        return Descent(unread=f"{_HISTORY_UNREADABLE}: {error}")
    lines = [line.split() for line in (history or "").splitlines() if line.strip()]
    parents = [words for words in lines if words[0].isdigit() and len(words) > 1]
    if not parents:
        return Descent(own=timeline, unread=f"timeline {timeline} has no history file")
    parent, switch, *_ = parents[-1]
    return Descent({f"{int(parent):08X}": parse_position(switch)}, timeline)


def find_subscriptions(
    link: PostgresqlLink, tables: Sequence[TableSpec]
) -> Refill | None:
    """Return the subscriptions that write into the tables, None if none does.

    A disabled subscription counts: it may have been enabled for a time.  Raise
    EngineError.
    """
    if not (subscriptions := _describe_subscriptions(link, tables)):
        return None
    how = f"has a subscription that writes into dbcheck's tables ({subscriptions})"
    return Refill(how, f"{_SUBSCRIPTION_ADVICE}. Then cut again")


def require_no_subscription(link: PostgresqlLink, tables: Sequence[TableSpec]) -> None:
    """Raise EngineError if a subscription, also a disabled one, writes into *tables*.

    With one no cut would have a verdict, as find_subscriptions() finds it then.
    """
    if subscriptions := _describe_subscriptions(link, tables):
        raise EngineError(
            f"a subscription writes into dbcheck's tables: {subscriptions}",
            id=ErrorId.SERVER_IS_REPLICA,
            hint=f"{_SUBSCRIPTION_ADVICE}. Its publisher would give back rows that the"
            " server loses; ALTER SUBSCRIPTION ... DISABLE is not enough.",
        )


def _describe_subscriptions(link: PostgresqlLink, tables: Sequence[TableSpec]) -> str:
    """Return "s1 into dbcheck.ledger, ...", "" if there is none."""
    rows = link.rows("refill", {"names": [table.name for table in tables]})
    return ", ".join(f"{name} into dbcheck.{table}" for name, table in rows)
