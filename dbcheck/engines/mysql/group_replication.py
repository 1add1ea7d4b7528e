"""A member of a MySQL replication group: its view of the group, and its position.

A commit is answered once a majority of the members has it in memory; each member
applies it by itself afterwards (MySQL 9.7 manual, 20.1.1.2 Group Replication).

A group that lost all its members at once is formed again: one of them bootstraps it,
and the others join (20.5.2 Restarting a Group).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, StillBootstraps
from dbcheck.engines.mysql.grants import parse_privileges
from dbcheck.engines.mysql.link import MysqlLink, MysqlWatch
from dbcheck.model.replication import (
    REPLICATION_GROUP,
    Descent,
    Detached,
    Follower,
    Membership,
    Received,
    count_gtids,
)

_ONLINE, _UNREACHABLE = "ONLINE", "UNREACHABLE"
_JOINED = (_ONLINE, "RECOVERING")
_OFF = ("OFF", "0")
_JOIN_S = 75.0  # MySQL gives up after 60 s, with a message that says why
_ADMIN = "GROUP_REPLICATION_ADMIN"
_PRIVILEGES_TO_START = {_ADMIN, "SUPER", "ALL PRIVILEGES"}
_LOG_HINT = (
    "Look into its error log. A server that has transactions which the group lacks is"
    " refused."
)
_PRIVILEGES_HINT = (
    "Grant the account GROUP_REPLICATION_ADMIN and SYSTEM_VARIABLES_ADMIN"
    " (docs/privileges.md), or form the group again by other means"
    " (dbcheck_promoted_by: auto)."
)


def is_member(variables: Mapping[str, str]) -> bool:
    """Return True if a server with these variables belongs to a replication group."""
    return bool(variables.get(REPLICATION_GROUP))


@dataclass(frozen=True, slots=True)
class View:
    """A member's view of its group.

    own:    the member's own server_uuid, by which the others list it.
    states: server_uuid of each member -> its state; {} while this one has not joined.
    """

    own: str
    states: Mapping[str, str]

    @property
    def online(self) -> bool:
        """True if it has joined, and reaches a majority of the members."""
        unreachable = sum(state == _UNREACHABLE for state in self.states.values())
        reaches_majority = 2 * unreachable < len(self.states)
        return self.states.get(self.own) == _ONLINE and reaches_majority

    @property
    def joined(self) -> bool:
        """True if it is a member, or fetches what it lacks in order to become one."""
        return self.states.get(self.own) in _JOINED

    @property
    def names(self) -> tuple[str, ...]:
        """The members, its own name among them."""
        return tuple(sorted(self.states))


class Members(MysqlWatch):
    """A connection to a member that lists the others (ports.connection.Followers)."""

    def __init__(self, link: MysqlLink) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._own, _ = link.row("executed_mysql")

    def read(self) -> Sequence[Follower]:
        (rows,) = self._texts("group_followers")
        members = sorted(
            (str(name), str(state), continuity or "")
            for name, state, continuity in rows
        )
        if not View(self._own, {name: state for name, state, _ in members}).online:
            return []
        return [
            Follower(
                *(name, "streaming" if state == _ONLINE else state.lower()),
                *("quorum", continuity, name),
            )
            for name, state, continuity in members
            if name != self._own
        ]


def followers(link: MysqlLink) -> Members:
    """Take over *link*; return what lists the other members."""
    return Members(link)


def membership(link: MysqlLink) -> Membership | None:
    """Return this member's server_uuid and the name of its group; None if offline."""
    view = read_view(link)
    if not view.online:
        return None
    return Membership(view.own, read_group_name(link), view.own)


def received(link: MysqlLink) -> Received:
    """Return this member's position, and the members in its view.

    The view is read first, then the queue, then the relay log: a member hands on every
    message of a view before it shows the next view, and counts a message as queued
    until it is in the relay log (MySQL 8.0, plugin/group_replication/src,
    gcs_event_handlers.cc and applier.cc, applier_thread_handle()).
    """
    view, queue = read_view(link), link.rows("group_queue")
    executed, unapplied = link.row("group_received")
    group = read_group_name(link)
    applied = count_gtids(executed).get(group, 0)
    position = applied + count_gtids(unapplied).get(group, 0)
    if not view.joined:
        return Received(position, applied)
    received_position = position + int(queue[0][0]) if queue else None
    return Received(received_position, applied, view.online, view.names)


def promote(link: MysqlLink) -> None:
    """Raise EngineError: the members themselves elect the one that takes writes."""
    raise EngineError(
        "a member of a replication group is not promoted",
        id=ErrorId.PROMOTION_NOT_FOR_GROUP,
        hint="Set dbcheck_topology: group-replication.",
    )


def takes_writes(link: MysqlLink) -> bool:
    """Return True if this member is among the majority and not read-only."""
    variables = dict(link.rows("variables"))
    read_only = (variables.get(name) for name in ("read_only", "super_read_only"))
    return read_view(link).online and all(value in _OFF for value in read_only)


def descent(link: MysqlLink) -> Descent:
    """Return the transactions of its group that this member has applied."""
    _, executed = link.row("executed_mysql")
    group = read_group_name(link)
    return Descent({group: count_gtids(executed).get(group, 0)})


def read_view(link: MysqlLink) -> View:
    """Read this member's view of its group now."""
    own, _ = link.row("executed_mysql")
    return View(own, dict(link.rows("group_members")))


def read_group_name(link: MysqlLink) -> str:
    """Return the group's name as its GTIDs have it."""
    return str(dict(link.rows("cluster_node"))[REPLICATION_GROUP]).lower()


def require_group_privileges(link: MysqlLink) -> None:
    """Raise EngineError if this account may not have the server form a group."""
    with _add_hint():
        link.rows("group_joining")
        link.rows("bootstrap_off")  # a trial: it is OFF already
    statements = [row[0] for row in link.rows("grants")]
    privileges = parse_privileges(statements, "*", "*")
    # A role may give the privilege.
    has_roles = any(" ON " not in statement for statement in statements)
    if not (privileges & _PRIVILEGES_TO_START or has_roles):
        raise EngineError(
            f"the account lacks {_ADMIN}",
            id=ErrorId.PRIVILEGE_MISSING,
            hint=_PRIVILEGES_HINT,
        )


def detached(link: MysqlLink) -> Detached:
    """Return this server's identity and its transactions, relay log included.

    Raise EngineError if it is a member, or tries to become one.
    """
    view = read_view(link)
    if view.joined:
        raise EngineError(
            "it is in a group already",
            id=ErrorId.NODE_JOINED_MEANWHILE,
            hint="dbcheck looks again whose that is.",
        )
    _require_idle(link, view)
    executed, unapplied = link.row("group_received")
    transactions = ",".join(filter(None, (executed, unapplied)))
    return Detached(view.own, read_group_name(link), transactions)


def require_all_of(link: MysqlLink, others: Mapping[str, str]) -> None:
    """Raise EngineError if another server has transactions that this one lacks.

    others: name of each other server -> the transactions that it has.
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

    end_anew: does the same as end_bootstrap(), over a new connection.
    Raise EngineError, and StillBootstraps if end_bootstrap() is due.
    """
    _end_attempt(link)
    with _add_hint():
        try:
            link.rows("bootstrap_on")
            link.rows("start_group", answer_s=_JOIN_S)
        finally:
            with interrupt.hold_interrupts_back():
                try:
                    end_bootstrap(link)
                except EngineError:  # the connection may be gone, and the server not
                    end_anew()


def end_bootstrap(link: MysqlLink) -> None:
    """Let the server's next START GROUP_REPLICATION join a group, and form none."""
    link.rows("bootstrap_off")


def still_bootstraps_error(error: EngineError) -> StillBootstraps:
    """Return the error of a server on which end_bootstrap() is still due."""
    return StillBootstraps(
        f"group_replication_bootstrap_group may still be ON: {error}",
        id=ErrorId.GROUP_MAY_START_TWICE,
        hint="Run: set global group_replication_bootstrap_group = OFF; or else this"
        " server may form a second group.",
    )


def join(link: MysqlLink) -> None:
    """Have this server join the group, unless it has joined; return once it is in."""
    if read_view(link).joined:
        return
    _end_attempt(link)
    with _add_hint():
        link.rows("start_group", answer_s=_JOIN_S)


def _end_attempt(link: MysqlLink) -> None:
    """Clear a failed attempt to join; raise EngineError if one succeeded or goes on."""
    view = read_view(link)
    if view.joined:
        raise EngineError(
            "it has joined a group meanwhile",
            id=ErrorId.NODE_JOINED_MEANWHILE,
            hint="dbcheck looks again whose that is.",
        )
    _require_idle(link, view)
    with _add_hint():
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
def _add_hint() -> Generator[None]:
    """Give the error of a statement that was refused its id and its hint."""
    try:
        yield
    except StillBootstraps:
        raise
    except EngineError as error:
        denied = "denied" in str(error).lower()
        raise EngineError(
            str(error),
            id=ErrorId.PRIVILEGE_MISSING if denied else ErrorId.GROUP_NOT_FORMED,
            hint=_PRIVILEGES_HINT if denied else _LOG_HINT,
        ) from error
