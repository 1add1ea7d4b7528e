"""Streaming replication: standbys, positions and a promotion; and subscriptions.

By a subscription another server, the publisher, writes into dbcheck's tables: as soon
as it is enabled, the server fetches from its publisher the changes that it lacks
(PostgreSQL 18 manual, 29.2 Subscription).
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from psycopg2 import ProgrammingError
from psycopg2.extensions import make_dsn, parse_dsn

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.link import Watch
from dbcheck.engines.postgresql.link import NOT_PERMITTED, PostgresqlLink, error_code
from dbcheck.engines.postgresql.rights import (
    grant_history,
    grant_monitor,
    grant_promote,
    grant_signal,
    make_superuser,
)
from dbcheck.model.replication import (
    Descent,
    Follower,
    Membership,
    Received,
    SourceLogin,
    parse_position,
)
from dbcheck.model.rights import MissingRight
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


UNREPLICATED = (
    "synchronous_commit = local in its own sessions; its standbys are disconnected"
    " again and again until the cut"
)


class Detaching(Watch):
    """Ends the connections of standbys over one link (ports.connection.Detaching).

    A standby connects again at once, and waits wal_retrieve_retry_interval (5 s by
    default) before each further try (PostgreSQL 17 manual, 19.6.3 Standby Servers).
    """

    def __init__(self, link: PostgresqlLink, names: Collection[str]) -> None:
        """Take over *link*; names: of the standbys, as the writer lists them."""
        super().__init__(link)
        self._names = list(names)

    def detach(self) -> int:
        return sum(ended for (ended,) in self._rows("detach", {"names": self._names}))


def find_missing_for_control(link: PostgresqlLink) -> Iterator[MissingRight]:
    """Yield what the account needs to end the connections of the standbys."""
    for account, by_superuser in link.rows("detach_rights"):
        if by_superuser:
            what = "superuser, as the role by which a standby connects is one"
            yield MissingRight(what, make_superuser(account))
        else:
            what = "the role pg_signal_backend"
            yield MissingRight(what, grant_signal(account))


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


_FOLLOWS_S, _POLL_S = 30.0, 0.1
_RELOADS_CONNINFO = 130_000  # server_version_num
_SYNCHRONOUS = "synchronous_standby_names"
_ADMIN_HINT = (
    "ALTER SYSTEM and pg_reload_conf() need a superuser, as a rule. Give dbcheck's"
    " account that, or rebuild the nodes by a program (docs/clusters.md)."
)
_REWIND = (
    "Rebuild it by a program that runs pg_rewind or pg_basebackup (docs/clusters.md has"
    " one)."
)


def follow(link: PostgresqlLink, source: SourceLogin) -> None:
    """Have this standby follow *source*, which must have its slot; wait until it does.

    All other options of primary_conninfo stay.  From PostgreSQL 13 on, a reload of the
    configuration has a standby follow another server (release notes of 13).  It also
    has the server log the new value, so that must hold no password.  Raise EngineError.
    """
    _, version, is_standby, _ = link.row("server")
    if not is_standby:
        raise EngineError(
            "no statement makes a PostgreSQL that took writes a standby: it may have"
            " commits that the new writer lacks",
            id=ErrorId.NODE_NOT_REBUILT,
            hint=_REWIND,
        )
    if version < _RELOADS_CONNINFO:
        raise EngineError(
            "PostgreSQL before 13 follows another server only after a restart",
            id=ErrorId.NODE_NOT_REBUILT,
            hint=_REWIND,
        )
    (old_conninfo,) = link.row("conninfo")
    conninfo = _point(old_conninfo, source)
    with _explain_refusal():
        link.rows("set_conninfo", {"conninfo": conninfo})
        link.rows("reload")
    _await(
        lambda: _streams_from(link, source),
        "it does not stream from the new writer: its log says why",
    )


def lead(
    link: PostgresqlLink,
    settings: Mapping[str, str],
    renamed: Mapping[str, str],
    slots: Collection[str],
) -> None:
    """Have commits on this server wait for its standbys as *settings* say.

    A slot that is not there is made, so that a standby need not be copied again after
    its next absence; nothing is dropped.  Raise EngineError.
    """
    awaited = rename_standbys(settings.get(_SYNCHRONOUS, ""), renamed)
    with _explain_refusal():
        for name in slots:
            link.rows("make_slot", {"name": name})
        link.rows("set_synchronous_standbys", {"names": awaited})
        link.rows("reload")
    _await(
        lambda: link.row("synchronous_standbys") == (awaited,),
        f"{_SYNCHRONOUS} does not become {awaited!r}: the server's command line may"
        " decide it",
    )


def rename_standbys(awaited: str, renamed: Mapping[str, str]) -> str:
    """Return a list of standbys with other names; capitals do not count in them.

    awaited: a value of synchronous_standby_names.
    """
    names = {old.lower(): new for old, new in renamed.items()}

    def replace(found: re.Match[str]) -> str:
        new = names.get((found[1] or found[0]).lower())
        return found[0] if new is None else f'"{new}"'

    return re.sub(r'"([^"]*)"|\w+', replace, awaited)


def _point(conninfo: str, source: SourceLogin) -> str:
    """Return *conninfo* with another host, port and perhaps user.

    Raise EngineError, which has nothing of it, if it holds a password, or if this libpq
    cannot read it.
    """
    try:
        options = {**parse_dsn(conninfo), "host": source.host, "port": source.port}
    except ProgrammingError:
        raise EngineError(
            "primary_conninfo has an option that dbcheck cannot read",
            id=ErrorId.NODE_NOT_REBUILT,
            hint=_REWIND,
        ) from None
    if "password" in options:
        raise EngineError(
            "primary_conninfo holds a password, which the server would write into its"
            " log with the new value",
            id=ErrorId.NODE_NOT_REBUILT,
            hint="Put it into .pgpass of the account that runs the server, and take it"
            " out of primary_conninfo.",
        )
    options.pop("hostaddr", None)  # libpq would connect to that
    if source.user:
        options["user"] = source.user
    return str(make_dsn(**options))


@contextlib.contextmanager
def _explain_refusal() -> Iterator[None]:
    """Give the error of a statement that was refused its hint."""
    try:
        yield
    except EngineError as error:
        denied = error_code(error) == NOT_PERMITTED
        raise EngineError(
            str(error),
            id=ErrorId.NODE_NOT_REBUILT,
            hint=_ADMIN_HINT if denied else "Look into the server's log.",
        ) from error


def _streams_from(link: PostgresqlLink, source: SourceLogin) -> bool:
    found = link.rows("receiver")
    return found == [("streaming", source.host, source.port)]


def _await(is_done: Callable[[], bool], failure: str) -> None:
    """Wait until *is_done* returns True; raise EngineError after _FOLLOWS_S seconds."""
    ends_s = time.monotonic() + _FOLLOWS_S
    while not is_done():
        if time.monotonic() >= ends_s:
            raise EngineError(
                f"{failure} (for {_FOLLOWS_S:g} s)",
                id=ErrorId.NODE_NOT_REBUILT,
                hint="Look into the logs of both servers.",
            )
        time.sleep(_POLL_S)


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
