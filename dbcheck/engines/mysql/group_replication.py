"""A member of a MySQL replication group: its view, and how far it has come.

A commit is answered once a majority of the members has it in memory, and each applies
it by itself afterwards (MySQL 9.7 manual, 20.1.1.2 Group Replication).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.gtids import counts
from dbcheck.engines.mysql.link import MysqlLink, MysqlWatch
from dbcheck.model.replication import (
    REPLICATION_GROUP,
    Descent,
    Follower,
    Membership,
    Received,
)

_ONLINE, _UNREACHABLE = "ONLINE", "UNREACHABLE"
_JOINED = (_ONLINE, "RECOVERING")
_OFF = ("OFF", "0")


def is_member(variables: Mapping[str, str]) -> bool:
    """Return whether a server with these variables belongs to a replication group."""
    return bool(variables.get(REPLICATION_GROUP))


@dataclass(frozen=True, slots=True)
class View:
    """What a member sees of its group.

    own:    its server_uuid, by which the others list it.
    states: by the server_uuid of each member; {} while it has not joined.
    """

    own: str
    states: Mapping[str, str]

    @property
    def online(self) -> bool:
        """Whether it has joined, and reaches a majority of the members."""
        lost = sum(state == _UNREACHABLE for state in self.states.values())
        reaches = 2 * lost < len(self.states)
        return self.states.get(self.own) == _ONLINE and reaches

    @property
    def joined(self) -> bool:
        """Whether it is a member, or copies what it lacks to become one."""
        return self.states.get(self.own) in _JOINED

    @property
    def names(self) -> tuple[str, ...]:
        """The members, its own name among them."""
        return tuple(sorted(self.states))


class Members(MysqlWatch):
    """A connection to a member that lists the others; see ports.connection."""

    def __init__(self, link: MysqlLink) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._own, _ = link.row("executed_mysql")

    def read(self) -> Sequence[Follower]:
        (rows,) = self._texts("group_followers")
        found = sorted(
            (str(name), str(state), since or "") for name, state, since in rows
        )
        if not View(self._own, {name: state for name, state, _ in found}).online:
            return []
        return [
            Follower(
                *(name, "streaming" if state == _ONLINE else state.lower()),
                *("quorum", since, name),
            )
            for name, state, since in found
            if name != self._own
        ]


def followers(link: MysqlLink) -> Members:
    """Take over *link*; return what lists the other members."""
    return Members(link)


def membership(link: MysqlLink) -> Membership | None:
    """Return this member's server_uuid and the name of its group."""
    view = view_of(link)
    if not view.online:
        return None
    return Membership(view.own, group_of(link), view.own)


def received(link: MysqlLink) -> Received:
    """Return how far this member has come, and who is in its view.

    In this order: a member hands on every message of a view before it shows the next
    one, and counts a message as queued until it is in the relay log (MySQL 8.0,
    plugin/group_replication/src/gcs_event_handlers.cc and applier.cc,
    applier_thread_handle()).
    """
    view, queue = view_of(link), link.rows("group_queue")
    executed, unapplied = link.row("group_received")
    group = group_of(link)
    applied = counts(executed).get(group, 0)
    position = applied + counts(unapplied).get(group, 0)
    if not view.joined:
        return Received(position, applied)
    came = position + int(queue[0][0]) if queue else None
    return Received(came, applied, view.online, view.names)


def promote(link: MysqlLink) -> None:
    """Raise EngineError: the members elect who takes writes."""
    raise EngineError(
        "a member of a replication group is not promoted",
        id=ErrorId.PROMOTION_NOT_FOR_GROUP,
        hint="Set dbcheck_topology: group-replication.",
    )


def takes_writes(link: MysqlLink) -> bool:
    """Return whether this member is among the majority and not read-only."""
    variables = dict(link.rows("variables"))
    read_only = (variables.get(name) for name in ("read_only", "super_read_only"))
    return view_of(link).online and all(value in _OFF for value in read_only)


def descent(link: MysqlLink) -> Descent:
    """Return up to where this member has applied its group's transactions."""
    _, executed = link.row("executed_mysql")
    group = group_of(link)
    return Descent({group: counts(executed).get(group, 0)})


def view_of(link: MysqlLink) -> View:
    """Return what this member sees of its group now."""
    own, _ = link.row("executed_mysql")
    return View(own, dict(link.rows("group_members")))


def group_of(link: MysqlLink) -> str:
    """Return the group's name as its GTIDs have it."""
    return str(dict(link.rows("cluster_node"))[REPLICATION_GROUP]).lower()
