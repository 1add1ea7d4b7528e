"""Facts about replication, as the nodes of a cluster report them.

Positions are bytes from the beginning of the writer's log (PostgreSQL), how many of its
transactions there are (MySQL, its groups), or the sequence number of the newest
(MariaDB, Galera).
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dbcheck.model.cut import PowerState

CHANGES_MAX = 20
SLOT, ADDRESS = "slot ", "address "  # how Follower.connection begins, of PostgreSQL
# Of a set of GTIDs, as MySQL writes it.
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class PromotedBy(enum.Enum):
    """Promoter of a node once the writer is gone; the value names it in inventories.

    AUTO: something else than dbcheck, such as Patroni.
    """

    SQL = "sql"
    COMMAND = "command"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Follower:
    """One standby as the writer lists it.

    name:    by which the writer knows it.
    state:   of the connection, e.g. "streaming" or "catchup".
    sync:    how commits wait for it, e.g. "sync", "quorum", "potential", "async".
    since:   what has another value at the next sample if the connection, or the wait
             for it, was interrupted between the two; "" if the server shows no such
             value.
    connection: what the server shows of it beside the name, which others may share:
             "slot NAME", else "address ADDRESS" (PostgreSQL); the host and port that
             a replica reports (MySQL, MariaDB); what a group calls the member; "" if
             it shows nothing.
    """

    name: str
    state: str
    sync: str
    since: str = ""
    connection: str = ""

    @property
    def is_awaited(self) -> bool:
        """True if a commit may be answered on the word of this standby."""
        return self.state == "streaming" and self.sync in ("sync", "quorum")


@dataclass(frozen=True, slots=True)
class Change:
    """From when on other standbys were awaited than before.

    clock_us: when the question was asked whose answer first showed that.
    names:    which.
    answered_us: when that answer came, None if that was not noted.
    connections: Follower.connection of each; () if that was not noted.
    """

    clock_us: int
    names: tuple[str, ...]
    answered_us: int | None = None
    connections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicationSeen:
    """The writer's standbys, as it showed them during the load.

    Times are on the client's monotonic clock, in microseconds.

    samples:  how often it was asked, and answered.
    first_us, last_us: when the first and the last of these questions were asked.
    gap_us:   the longest time between two of them.
    changes:  which standbys were awaited, from the first sample on; the last ones, at
              most CHANGES_MAX.
    ended:    why it was asked no more, "" if the load ended first.
    marked:   each sample showed Follower.since of each standby that was awaited.
    broken_us: when the first sample was answered by which such a mark, or who was
              awaited, was no longer what it was at the first; None: at none.
    shared:   names that several connected standbys bore at one sample, in any state.
    """

    samples: int
    first_us: int
    last_us: int
    gap_us: int
    changes: tuple[Change, ...]
    ended: str = ""
    marked: bool = False
    broken_us: int | None = None
    shared: tuple[str, ...] = ()

    def awaited(self, before_us: int | None = None) -> tuple[str, ...]:
        """Return the standbys that commits awaited at the last sample; see last()."""
        return self.last(before_us).names

    def last(self, before_us: int | None = None) -> Change:
        """Return the last sample's change of awaited standbys.

        before_us: of those samples that were answered before that; None: of all.
        """
        found = Change(self.first_us, ())
        for change in self.changes:
            answered_us = change.answered_us or change.clock_us
            if before_us is None or answered_us < before_us:
                found = change
        return found

    def is_unbroken(self, before_us: int | None = None) -> bool:
        """Return True if the standbys were awaited from the first sample to the last.

        Also between the samples, however far apart they are: the server's own marks
        of an interruption stayed the same.  before_us: see awaited().
        """
        if not self.marked:
            return False
        if self.broken_us is None:
            return True
        return before_us is not None and self.broken_us >= before_us


class ReplicationTally:
    """Adds samples up to a ReplicationSeen."""

    def __init__(self) -> None:
        self._samples = self._first_us = self._last_us = self._gap_us = 0
        self._changes: list[Change] = []
        self._first: Sequence[Follower] = ()  # that were awaited at the first sample
        self._marked = True
        self._broken_us: int | None = None
        self._shared: set[str] = set()

    def add(
        self, clock_us: int, followers: Sequence[Follower], answered_us: int
    ) -> None:
        """Count the answer to a question that was asked at *clock_us*."""
        awaited = sorted(
            (one for one in followers if one.is_awaited),
            key=lambda one: (one.name, one.connection),
        )
        if self._samples:
            self._gap_us = max(self._gap_us, clock_us - self._last_us)
        else:
            self._first_us, self._first = clock_us, awaited
        if awaited != self._first and self._broken_us is None:
            self._broken_us = answered_us
        self._samples += 1
        self._last_us = clock_us
        self._marked = self._marked and all(one.since for one in awaited)
        self._shared |= find_repeated_names([one.name for one in followers])
        change = Change(
            clock_us,
            tuple(one.name for one in awaited),
            answered_us,
            tuple(one.connection for one in awaited),
        )
        if not self._changes or not _is_same_change(self._changes[-1], change):
            self._changes = [*self._changes, change][-CHANGES_MAX:]

    def seen(self, ended: str = "") -> ReplicationSeen | None:
        """Return the sum of all samples, None if there was no answer."""
        if not self._samples:
            return None
        return ReplicationSeen(
            self._samples,
            self._first_us,
            self._last_us,
            self._gap_us,
            tuple(self._changes),
            ended,
            self._marked,
            self._broken_us,
            tuple(sorted(self._shared)),
        )


def find_repeated_names(names: Sequence[str]) -> frozenset[str]:
    """Return the names that are there more than once."""
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def _is_same_change(one: Change, other: Change) -> bool:
    return (one.names, one.connections) == (other.names, other.connections)


@dataclass(frozen=True, slots=True)
class Membership:
    """Identity of a node that follows another.

    name:   by which the writer lists it.
    source: the name in its log of the node that this one follows, or of its group (see
            Descent), "" if that is not shown.
    connection: what the writer has to show of the connection to this node, see
            Follower; "" if the node does not know that.
    sender: host and port from which it receives, as they were configured; None if that
            is not shown.
    own_address: the address at which it was asked, "" if it does not know that.
    semi_sync: whether it acknowledges commits, None where that is not shown.
    """

    name: str
    source: str = ""
    connection: str = ""
    sender: tuple[str, int] | None = None
    own_address: str = ""
    semi_sync: bool | None = None


@dataclass(frozen=True, slots=True)
class Detached:
    """A server that is out of its group, and does not try to join it.

    name, group: see Membership.  transactions: a set, as its product writes them.
    """

    name: str
    group: str
    transactions: str


@dataclass(frozen=True, slots=True)
class Received:
    """Progress of a node that follows.

    position: the end of what it has received, None if it does not show that.
    applied:  the end of what it has applied.
    connected: it is connected to the node that it follows, or to the majority of its
              group.
    members:  of a group: the names of the nodes that its view of it has, its own among
              them.
    """

    position: int | None
    applied: int | None
    connected: bool = False
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Descent:
    """Origin of the log of a node that took over, and the node's progress in it.

    parents: by the name of a writer in such logs (PostgreSQL: its timeline, in
             hexadecimal; MySQL: its server_uuid; MariaDB: its server_id; a group: what
             names its data), the position up to which the node has applied that log.
    own:     the timeline that it began, "" where there are none.
    unread:  why these are not known, "" if they are.
    """

    parents: Mapping[str, int] = field(default_factory=dict)
    own: str = ""
    unread: str = ""


@dataclass(frozen=True, slots=True)
class WriterOff:
    """Signs, at one moment, that the old writer is off.

    state:   of its power, as its switch reads it; UNKNOWN also if that failed.
    answers: something accepts connections at the address of its server.
    taken_over: another node had taken over by then.
    """

    state: PowerState
    answers: bool
    taken_over: bool = False

    @property
    def is_back(self) -> bool:
        """True if it may serve clients again."""
        return self.answers or self.state is PowerState.ON


@dataclass(frozen=True, slots=True)
class Promotion:
    """Record of the promotion of another node.

    by:       what promoted it.
    received: by the node's name, how far each node was that could be promoted.
    descent:  of the node that was promoted; None if none was, or it did not answer.
    old:      what was seen of the old writer: before the promotion, after it, and once
              the rows were read.
    """

    by: PromotedBy
    received: Mapping[str, Received]
    descent: Descent | None = None
    old: tuple[WriterOff, ...] = ()


GALERA_CLUSTER = "wsrep_cluster_state_uuid"
REPLICATION_GROUP = "group_replication_group_name"  # also begins its GTIDs
_NAMES_IN_LOG = (
    *(GALERA_CLUSTER, REPLICATION_GROUP),
    *("timeline", "server_uuid", "server_id"),
)


def name_in_log(identity: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind and the value of a server's name in its own log; "" if not known.

    identity: see model.server.ServerFacts.
    """
    found = ((name, identity[name]) for name in _NAMES_IN_LOG if name in identity)
    return next(found, ("", ""))


def find_most_advanced_node(received: Mapping[str, Received]) -> str | None:
    """Return the name of the node that has received most, None if none is known."""
    known = {
        name: one.position for name, one in received.items() if one.position is not None
    }
    return max(known, key=lambda name: known[name]) if known else None


def parse_position(text: str) -> int:
    """Return the position that PostgreSQL writes as *text*, e.g. "0/16B3748"."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def format_position(position: int) -> str:
    """Return a position as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def count_gtids(text: str) -> dict[str, int]:
    """Count the transactions of each UUID in a set (MySQL 9.7 manual, 19.1.3.1).

    E.g. "UUID:1-5:7, UUID:tag:1-2" has eight of that UUID.
    """
    found: dict[str, int] = {}
    for part in re.sub(r"\s", "", text.lower()).split(","):
        uuid, *rest = part.split(":")
        if not _UUID.fullmatch(uuid):
            continue
        for interval in rest:
            if match := _INTERVAL.fullmatch(interval):
                first, last = int(match[1]), int(match[2] or match[1])
                found[uuid] = found.get(uuid, 0) + last - first + 1
    return found


def find_newest_gtids(text: str) -> dict[str, int]:
    """Return the newest sequence number of each server in a list of MariaDB's GTIDs.

    E.g. "0-1-100,0-2-105": domain, server, sequence.
    """
    found: dict[str, int] = {}
    for part in re.sub(r"\s", "", text).split(","):
        if re.fullmatch(r"\d+-\d+-\d+", part):
            _, server, sequence = part.split("-")
            found[server] = max(found.get(server, 0), int(sequence))
    return found
