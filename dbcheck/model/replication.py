"""Facts about replication, as the nodes of a cluster report them.

A position is, in PostgreSQL, a number of bytes from the beginning of the writer's log;
in MySQL a number of transactions, of the writer or of its group; in MariaDB and Galera
the sequence number of the newest transaction.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dbcheck.model.cut import PowerState

CHANGES_MAX = 20
SLOT, ADDRESS = "slot ", "address "  # beginnings of Follower.connection of PostgreSQL
# Parts of a set of GTIDs, as MySQL writes it.
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class PromotedBy(enum.Enum):
    """Promoter of a node once the writer is gone; the value names it in inventories.

    AUTO: something else than dbcheck, such as Patroni.
    """

    SQL = "sql"
    COMMAND = "command"
    AUTO = "auto"


class RebuiltBy(enum.Enum):
    """Who has the nodes follow the new writer; the value names it in inventories.

    SQL: dbcheck, by statements that copy no data.  CLONE: dbcheck, by MySQL's clone
    plugin.  AUTO: something else than dbcheck, such as Patroni.
    """

    NOBODY = "nobody"
    SQL = "sql"
    CLONE = "clone"
    COMMAND = "command"
    AUTO = "auto"

    @property
    def awaits_reading(self) -> bool:
        """True if a node that was cut keeps its data until dbcheck has read them."""
        return self not in (RebuiltBy.NOBODY, RebuiltBy.AUTO)


@dataclass(frozen=True, slots=True)
class SourceLogin:
    """The server to follow, and the login at it.

    host, port: as the node that follows reaches it.
    user: "": the login that the node has used so far.
    password: never shown; PostgreSQL has it in a file of its own (.pgpass).
    """

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Follower:
    """One standby as the writer lists it.

    name:    the name by which the writer knows the standby.
    state:   state of the connection, e.g. "streaming" or "catchup".
    sync:    how commits wait for the standby: "sync", "quorum", "potential", "async".
    continuity: a value that changes from one sample to the next if the connection, or
             the wait for the standby, was interrupted between both; "" if the server
             shows no such value.
    connection: what the server shows of the connection beside the name, which other
             standbys may share: "slot NAME", else "address ADDRESS" (PostgreSQL); the
             host and port that a replica reports (MySQL, MariaDB); what a group calls
             the member; "" if the server shows nothing.
    """

    name: str
    state: str
    sync: str
    continuity: str = ""
    connection: str = ""

    @property
    def is_awaited(self) -> bool:
        """True if a commit may be answered once this standby has confirmed it."""
        return self.state == "streaming" and self.sync in ("sync", "quorum")


@dataclass(frozen=True, slots=True)
class Change:
    """Change of the standbys that commits awaited.

    clock_us: when the question was asked whose answer first showed the change.
    names:    the standbys that were awaited from then on.
    answered_us: when that answer came, None if that was not noted.
    connections: Follower.connection of each standby; () if that was not noted.
    """

    clock_us: int
    names: tuple[str, ...]
    answered_us: int | None = None
    connections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicationSeen:
    """The writer's standbys, as it showed them during the load.

    Times are on the client's monotonic clock, in microseconds.

    samples:  how often the writer was asked, and answered.
    first_us, last_us: when the questions of the first and the last sample were asked.
    gap_us:   the longest time between two questions.
    changes:  which standbys were awaited, from the first sample on; the newest
              CHANGES_MAX changes.
    ended:    why the writer was asked no more, "" if the load ended first.
    marked:   each sample showed Follower.continuity of each standby that was awaited.
    broken_us: when the first sample was answered that showed another
              Follower.continuity, or other awaited standbys, than the very first
              sample; None if none did.
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
        """Return the newest change of the awaited standbys.

        It has no names if none counts.
        before_us: only changes that were answered before this time count; None: all.
        """
        newest = Change(self.first_us, ())
        for change in self.changes:
            answered_us = change.answered_us or change.clock_us
            if before_us is None or answered_us < before_us:
                newest = change
        return newest

    def is_unbroken(self, before_us: int | None = None) -> bool:
        """Return True if the standbys were awaited from the first sample to the last.

        They were awaited between the samples, too, however far apart these are: each
        Follower.continuity stayed the same.  before_us: see last().
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
            (follower for follower in followers if follower.is_awaited),
            key=lambda follower: (follower.name, follower.connection),
        )
        if self._samples:
            self._gap_us = max(self._gap_us, clock_us - self._last_us)
        else:
            self._first_us, self._first = clock_us, awaited
        if awaited != self._first and self._broken_us is None:
            self._broken_us = answered_us
        self._samples += 1
        self._last_us = clock_us
        self._marked = self._marked and all(follower.continuity for follower in awaited)
        self._shared |= find_repeated_names([follower.name for follower in followers])
        change = Change(
            clock_us,
            tuple(follower.name for follower in awaited),
            answered_us,
            tuple(follower.connection for follower in awaited),
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
    """Return the names that occur more than once."""
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def _is_same_change(one: Change, other: Change) -> bool:
    return (one.names, one.connections) == (other.names, other.connections)


@dataclass(frozen=True, slots=True)
class Membership:
    """Identity of a node that follows another.

    name:   the name by which the writer lists this node.
    source: the value of name_in_log() for the node or the group that this node follows:
            a server_uuid, a server_id or the id of the group; "" if that is not shown
            (PostgreSQL).
    connection: what the writer must show of the connection to this node, see
            Follower; "" if the node does not know that.
    sender: host and port from which this node receives, as they were configured; None
            if that is not shown.
    own_address: the address at which this node was asked, "" if it does not know that.
    semi_sync: whether this node acknowledges commits, None where that is not shown.
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

    name: see Membership.  group: the name of the group that it is out of.
    transactions: its set of transactions, as the server's product writes such a set.
    """

    name: str
    group: str
    transactions: str


@dataclass(frozen=True, slots=True)
class Received:
    """Progress of a node that follows another node or a group.

    position: the end of what the node has received, None if it does not show that.
    applied:  the end of what the node has applied.
    connected: the node is connected to the node that it follows, or to the majority of
              its group.
    members:  names of the nodes in the node's view of its group, its own name among
              them; () without a group.
    """

    position: int | None
    applied: int | None
    connected: bool = False
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Descent:
    """Origin of the log of a node that took over, and the node's progress in it.

    parents: name of a writer in the log (PostgreSQL: its timeline, in hexadecimal;
             MySQL: its server_uuid; MariaDB: its server_id; a group: what names its
             data) -> the position up to which the node has applied that writer's log.
    own:     the timeline that the node began, "" where there are no timelines.
    unread:  why parents and own are not known, "" if they are.
    """

    parents: Mapping[str, int] = field(default_factory=dict)
    own: str = ""
    unread: str = ""


@dataclass(frozen=True, slots=True)
class WriterOff:
    """Signs, at one moment, that the old writer, or a node lost after it, is off.

    state:   state of its power, as its switch reads it; UNKNOWN also if reading failed.
    answers: something accepts connections at the address of its server.
    taken_over: another node had taken over by then.
    planned: it had got its power back on purpose by then, see ReturnedWriter.
    """

    state: PowerState
    answers: bool
    taken_over: bool = False
    planned: bool = False

    @property
    def is_back(self) -> bool:
        """True if the old writer may serve clients again, which it is not meant to."""
        return not self.planned and (self.answers or self.state is PowerState.ON)


@dataclass(frozen=True, slots=True)
class ReturnedWriter:
    """Record of an old writer that got its power back beside the node that took over.

    back_us:  when it had its power back, on the client's monotonic clock.
    until_us: until when clients could reach both before the rows were read.
    """

    back_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class CutWhilePromoted:
    """Record of the cut of a node that was being promoted.

    Times in us of the client's monotonic clock.
    node:      its name.
    asked_us:  when it was asked to take over.
    gone_us:   when its power was gone.
    looked_us: when the newest look began that found it not to take writes before that;
               None if there was none.
    taken_us:  when a look had found it to take writes, None if none did.
    answered_us: when the order had been answered, None if that broke off.
    again:     it came back as a standby, and was asked once more.
    off:       of a node that was to stay off, so that another one takes over: signs
               that it did, after that; None if it got its power back.
    """

    node: str
    asked_us: int
    gone_us: int
    looked_us: int | None = None
    taken_us: int | None = None
    answered_us: int | None = None
    again: bool = False
    off: WriterOff | None = None


@dataclass(frozen=True, slots=True)
class Promotion:
    """Record of the promotion of another node.

    by:       what promoted the node.
    received: name of a node that could be promoted -> its progress.
    descent:  of the node that was promoted; None if none was, or if it did not answer.
    old:      signs of the old writer: before the promotion, after it, and after the
              rows were read.
    asked_us: when dbcheck asked for the promotion, on the client's monotonic clock;
              None if it did not.
    cut:      the cut of a node on its way, None if there was none.
    returned: of the old writer, None if it was to stay off.
    """

    by: PromotedBy
    received: Mapping[str, Received]
    descent: Descent | None = None
    old: tuple[WriterOff, ...] = ()
    asked_us: int | None = None
    cut: CutWhilePromoted | None = None
    returned: ReturnedWriter | None = None


GALERA_CLUSTER = "wsrep_cluster_state_uuid"
# The name of a group; the GTIDs of its transactions begin with the name.
REPLICATION_GROUP = "group_replication_group_name"
_NAMES_IN_LOG = (
    *(GALERA_CLUSTER, REPLICATION_GROUP),
    *("timeline", "server_uuid", "server_id"),
)


def name_in_log(identity: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind and the value of a server's name in its own log; "" if not known.

    identity: see model.server.ServerFacts.
    """
    names = ((name, identity[name]) for name in _NAMES_IN_LOG if name in identity)
    return next(names, ("", ""))


def find_most_advanced_node(
    received: Mapping[str, Received], but: Collection[str] = ()
) -> str | None:
    """Return the name of the node that has received most, None if none is known.

    but: nodes that cannot take over any more.
    """
    known = {
        name: progress.position
        for name, progress in received.items()
        if progress.position is not None and name not in but
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
    counts: dict[str, int] = {}
    for part in re.sub(r"\s", "", text.lower()).split(","):
        uuid, *parts = part.split(":")
        if not _UUID.fullmatch(uuid):
            continue
        for interval in parts:
            if match := _INTERVAL.fullmatch(interval):
                first, last = int(match[1]), int(match[2] or match[1])
                counts[uuid] = counts.get(uuid, 0) + last - first + 1
    return counts


def find_newest_gtids(text: str) -> dict[str, int]:
    """Return the newest sequence number of each server in a list of MariaDB's GTIDs.

    E.g. "0-1-100,0-2-105": domain, server, sequence.
    """
    newest: dict[str, int] = {}
    for part in re.sub(r"\s", "", text).split(","):
        if re.fullmatch(r"\d+-\d+-\d+", part):
            _, server, sequence = part.split("-")
            newest[server] = max(newest.get(server, 0), int(sequence))
    return newest
