"""The nodes that hold the data, the promise of a cluster, and whose data may be read.

A cluster promises to have every commit after the loss of one node's power, or of all.
Some settings contradict that promise.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import assert_never

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.family import MYSQL, POSTGRESQL
from dbcheck.model.replication import GALERA_CLUSTER, REPLICATION_GROUP
from dbcheck.model.server import (
    DATA_NAME,
    explain_unknown_identity,
    find_difference_of_servers,
)

STAGGER_S_MAX = 60.0


class Promise(enum.Enum):
    """Promise that a test checks: the nodes that lose power, and the writer's return.

    The value is its name in inventories, flags and runs.
    """

    WRITER = "writer"
    WRITER_GONE = "writer-gone"
    ALL = "all"
    ALL_WRITER_GONE = "all-writer-gone"

    @property
    def writer_returns(self) -> bool:
        """True if the writer gets its power back and is read."""
        return self in (Promise.WRITER, Promise.ALL)

    @property
    def cuts_all(self) -> bool:
        """True if every node loses its power."""
        return self in (Promise.ALL, Promise.ALL_WRITER_GONE)

    def describe(self, stagger_s: float, cut: str = "power cut") -> str:
        """Return the event that the commits must survive, to come after "survived".

        stagger_s: see model.records.Manifest.  cut: the name of what ends a node.
        """
        order = f", one after the other within {stagger_s:g} s" if stagger_s else ""
        return _DESCRIPTIONS[self].format(cut=cut) + order

    def cut(self, names: Iterable[str], writer: str) -> tuple[str, ...]:
        """Return the nodes among *names* that lose their power."""
        return tuple(name for name in names if self.cuts_all or name == writer)

    def returning(self, names: Iterable[str], writer: str) -> tuple[str, ...]:
        """Return the nodes among *names* that are cut and restored before a reading."""
        cut_names = self.cut(names, writer)
        return tuple(
            name for name in cut_names if self.writer_returns or name != writer
        )


class Weakens(enum.Enum):
    """Kinds of controls, by what the acks of their sessions do not wait for.

    FLUSH: the flush of the commit, which the cut of the server then loses.
    REPLICATION: another node, which then takes over without the commit.
    """

    FLUSH = "flush"
    REPLICATION = "replication"

    @classmethod
    def for_promise(cls, promise: Promise | None) -> Weakens:
        """Return the kind of a control for *promise*; None for a single server.

        A writer that comes back is read itself, as a single server is.
        """
        returns = promise is None or promise.writer_returns
        return cls.FLUSH if returns else cls.REPLICATION


def require_stagger(promise: Promise | None, stagger_s: float) -> None:
    """Raise UsageError if the cuts for *promise* cannot be staggered by *stagger_s*.

    A standby that is read must have been cut when the acknowledgements ended.
    promise: None of a single server.
    """
    if not stagger_s or promise is Promise.ALL:
        return
    if promise is None:
        what = "the cut of a single server cannot be staggered"
    else:
        what = f"cuts for the promise {promise.value} cannot be staggered"
    raise UsageError(
        what,
        id=ErrorId.PROMISE_NOT_STAGGERED,
        hint=f"Use a cluster and the promise {Promise.ALL.value}, or leave --stagger"
        " (dbcheck_stagger_s) out.",
    )


def draw_stagger(
    names: Iterable[str], writer: str, stagger_s: float, seed: int
) -> dict[str, float]:
    """Return name -> seconds after which the node is cut; the *writer* is the first.

    The other nodes follow in an order that *seed* draws, the last at *stagger_s*.
    """
    others = sorted(name for name in names if name != writer)
    random = Random(seed)
    random.shuffle(others)
    delays = sorted(random.uniform(0, stagger_s) for _ in others[1:])
    return dict(zip([writer, *others], [0.0, *delays, stagger_s], strict=False))


_DESCRIPTIONS = {
    Promise.WRITER: "a {cut} of the writer",
    Promise.WRITER_GONE: "the loss of the writer",
    Promise.ALL: "a {cut} of all nodes",
    Promise.ALL_WRITER_GONE: "the loss of the writer in a {cut} of all nodes",
}


ONLY_NODE = "server"  # the name of the node of a single server
NODES_MAX = 100
CLUSTER_NODES_MIN = 2
GROUP_NODES_MIN = 3
NAME_CHARACTERS = 100


class SiteKind(enum.Enum):
    """The kinds of sites; the value names one in runs."""

    SINGLE = "single"
    STREAMING = "streaming"  # PostgreSQL's streaming replication
    SEMI_SYNC = "semi-sync"  # replication of MySQL or MariaDB by GTID
    GALERA = "galera"  # MariaDB Galera Cluster
    GROUP_REPLICATION = "group-replication"  # of MySQL

    @property
    def is_cluster(self) -> bool:
        """True if it has several nodes."""
        return self is not SiteKind.SINGLE

    @property
    def is_group(self) -> bool:
        """True if the nodes decide by majority which of them are the cluster.

        They also decide which node takes writes, so dbcheck promotes none.
        """
        return self in (SiteKind.GALERA, SiteKind.GROUP_REPLICATION)

    @property
    def forms_by_itself(self) -> bool:
        """True if the nodes of a group form it again after a cut of them all.

        Group Replication does not: an operator or dbcheck must bootstrap it (MySQL 9.7
        manual, 20.5.2 Restarting a Group).
        """
        return self is not SiteKind.GROUP_REPLICATION

    @property
    def named_by(self) -> str:
        """The part of a server's identity that names its group, "" without a group."""
        match self:
            case SiteKind.GALERA:
                return GALERA_CLUSTER
            case SiteKind.GROUP_REPLICATION:
                return REPLICATION_GROUP
            case _:
                return ""

    @property
    def family(self) -> str:
        """The family of the servers of such a cluster, "" if it may be any."""
        if self is SiteKind.STREAMING:
            return POSTGRESQL.name
        return MYSQL.name if self.is_cluster else ""

    def require_promise(self, promise: Promise, nodes: int) -> None:
        """Raise UsageError if a site of *nodes* nodes cannot be tested for it."""
        if not self.is_group:
            return
        if nodes < GROUP_NODES_MIN:
            raise UsageError(
                f"a cluster of the topology {self.value} needs {GROUP_NODES_MIN} nodes"
                " or more: of two, one alone has no majority and stops",
                id=ErrorId.CLUSTER_TOO_SMALL,
                hint="Use three (--nodes 3; in an inventory, name all of them). An"
                " arbitrator (garbd) is not one.",
            )
        if promise is Promise.WRITER:
            raise UsageError(
                f"the promise {promise.value} cannot be tested with the topology"
                f" {self.value}: a node that returns copies what it lost from others",
                id=ErrorId.PROMISE_NOT_TESTABLE,
                hint=f"Use {Promise.WRITER_GONE.value} or {Promise.ALL.value}.",
            )
        if promise is Promise.ALL_WRITER_GONE:
            reason = "a commit is answered before another node has flushed it"
            if self.forms_by_itself:
                reason = (
                    "after a power cut of all nodes the cluster forms again by itself"
                )
                reason += " only once all of them are back"
            raise UsageError(
                f"the promise {promise.value} cannot be tested with the topology"
                f" {self.value}: {reason}",
                id=ErrorId.PROMISE_NOT_TESTABLE,
                hint=f"Use {Promise.ALL.value}.",
            )


def require_nodes(kind: SiteKind, names: Collection[str], writer_name: str) -> None:
    """Raise ValueError unless a site of *kind* may have nodes with these *names*."""
    if len(names) > NODES_MAX:
        raise ValueError(f"a site has at most {NODES_MAX} nodes, and not {len(names)}")
    if any(len(name) > NAME_CHARACTERS or not name.isprintable() for name in names):
        raise ValueError("the name of a node is too long, or cannot be printed")
    if writer_name not in names:
        raise ValueError(f"the writer {writer_name[:100]!r} is not one of the nodes")
    if kind.is_cluster and len(names) < CLUSTER_NODES_MIN:
        raise ValueError(f"a cluster has {CLUSTER_NODES_MIN} nodes or more")
    if not kind.is_cluster and set(names) != {ONLY_NODE}:
        raise ValueError(
            f"a single server has one node, {ONLY_NODE!r}, and not {sorted(names)}"
        )


@dataclass(frozen=True, slots=True)
class Lineage:
    """Comparison of the data that are read with those that took the load.

    other:   why the data read are other data, "" if nothing shows that.
    unknown: why it is not shown whose data were read, "" if it is shown.
    same:    the names of the parts of the identity that are equal.
    """

    other: str = ""
    unknown: str = ""
    same: tuple[str, ...] = ()


def compare_lineage(
    kind: SiteKind,
    writer: Mapping[str, str],
    reader: Mapping[str, str],
    *,
    promoted: Mapping[str, str] | None = None,
) -> Lineage:
    """Compare the identity of the node that took the load with the node that is read.

    writer: before the load.  reader: after the cut.  See model.server.ServerFacts.
    promoted: if another node than the writer is read, its identity before the load.
    """
    match kind:
        case SiteKind.STREAMING if promoted is not None:
            return _compare_cluster(writer, reader)
        case SiteKind.SINGLE | SiteKind.STREAMING:
            return _compare_server(writer, reader)
        case SiteKind.SEMI_SYNC | SiteKind.GALERA | SiteKind.GROUP_REPLICATION:
            if promoted is not None:
                return _compare_replica(writer, promoted, reader)
            return _compare_server(writer, reader)
        case _:
            assert_never(kind)


def _compare_server(before: Mapping[str, str], after: Mapping[str, str]) -> Lineage:
    return Lineage(
        find_difference_of_servers(before, after),
        explain_unknown_identity(before, after),
        tuple(sorted(before.keys() & after.keys())),
    )


def _compare_cluster(before: Mapping[str, str], after: Mapping[str, str]) -> Lineage:
    """Compare the writer with a standby that took over from it.

    A standby is a copy of the whole cluster, system_identifier included, and begins a
    later timeline of its own when it is promoted (PostgreSQL 17 manual, 25.3.6).
    """
    cluster_name, timeline = "system_identifier", "timeline"
    for name in (cluster_name, timeline):
        for identity, when in ((before, "before the cut"), (after, "after it")):
            if not identity.get(name):
                return Lineage(unknown=f"{name} could not be read {when}")
    if before[cluster_name] != after[cluster_name]:
        text = f"{cluster_name} was {before[cluster_name]} and is {after[cluster_name]}"
        return Lineage(f"{text}: the node that answers is not of this cluster")
    try:
        is_later = int(after[timeline], 16) > int(before[timeline], 16)
    except ValueError:
        return Lineage(unknown=f"{timeline} is not a number")
    if not is_later:
        return Lineage(
            f"the node that answers is on timeline {after[timeline]}, and the writer"
            f" was on {before[timeline]}: it was not promoted from this writer"
        )
    return Lineage(same=(cluster_name,))


def _compare_replica(
    writer: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str]
) -> Lineage:
    """Compare a replica that took over with itself, and its data with the writer's.

    The replica's GTIDs show that it continues the writer's log, see
    model.replication.Descent.  MariaDB's data have a name that is replicated with them;
    MySQL's server_uuid is each server's own.
    """
    if difference := find_difference_of_servers(before, after):
        return Lineage(difference)
    name = DATA_NAME if DATA_NAME in writer else "server_uuid"
    expected = writer[name] if name == DATA_NAME else before.get(name)
    if not expected or name not in after:
        return Lineage(unknown=f"{name} of the node that answers could not be read")
    if after[name] != expected:
        text = f"{name} was {expected} and is {after[name]}"
        return Lineage(f"{text}: the node that answers is not of this cluster")
    return Lineage(same=(name,))


_SWITCHED_ON, _SWITCHED_OFF = ("on", "1"), ("off", "0")
# PostgreSQL 17 manual, 19.5.1, synchronous_commit.
_COMMITS_AWAIT_NO_STANDBY = ("off", "local")
_COMMITS_AWAIT_NO_FLUSH = "remote_write"
_STANDBY_NAMES = "synchronous_standby_names"
# MySQL 9.7 manual, 19.4.10 Semisynchronous Replication; MariaDB documentation,
# Semisynchronous Replication.  MySQL before 8.0.26 uses "master" and "slave", too.
_ROLE_NAMES = (("source", "replica"), ("master", "slave"))
# A setting that MariaDB has and MySQL lacks.  MariaDB's replicas discard their relay
# log when they restart: seen of 10.11 with GTIDs
# (tests/real/site/test_cluster_semi_sync.py).
_MARIADB_ONLY_SETTING = "binlog_commit_wait_count"
# With these, nodes that lost the majority go on (Galera documentation, Galera
# Parameters).
IGNORE_MAJORITY = ("pc.ignore_quorum", "pc.ignore_sb")
_FALSE_IN_GALERA = ("false", "no", "0", "off")
_FLUSH_LOG = "innodb_flush_log_at_trx_commit"
_FLUSHES_EACH_COMMIT = ("1", "3")  # MariaDB documentation, InnoDB System Variables
_SYNC_BINLOG = "sync_binlog"
_CONSISTENCY = "group_replication_consistency"
PATIENT_MS = 3_600_000  # a source that waits so long is taken to wait for ever


@dataclass(frozen=True, slots=True)
class Kept:
    """Judgement on whether settings keep a promise.

    contradiction: why the settings break the promise, "" if nothing shows that.
    doubts:        what a PASS has to assume.
    """

    contradiction: str = ""
    doubts: tuple[str, ...] = ()


def judge_settings_for_promise(
    kind: SiteKind,
    promise: Promise,
    writer: Mapping[str, str],
    standby: Mapping[str, str],
) -> Kept:
    """Judge whether the settings of *writer* and *standby* keep the promise.

    writer: the settings as its sessions have them.  standby: {} if not known.
    """
    match kind:
        case SiteKind.GALERA:
            return _judge_galera(promise, writer)
        case SiteKind.GROUP_REPLICATION:
            return _judge_group_replication(promise, writer)
        case _ if promise.writer_returns:
            return Kept()
        case SiteKind.STREAMING if _STANDBY_NAMES not in writer:
            return Kept(doubts=(f"{_STANDBY_NAMES} could not be read",))
        case SiteKind.STREAMING:
            return Kept(_find_fault_of_streaming(promise, writer))
        case SiteKind.SEMI_SYNC:
            return _judge_semi_sync(promise, writer, standby)
        case SiteKind.SINGLE:
            return Kept()
        case _:
            assert_never(kind)


# What a report shows of each node: what the promise rests on, as far as it is read.
_SETTINGS_SHOWN: Mapping[SiteKind, tuple[str, ...]] = {
    SiteKind.SINGLE: (),
    SiteKind.STREAMING: (_STANDBY_NAMES, "synchronous_commit"),
    SiteKind.GALERA: (_FLUSH_LOG, *IGNORE_MAJORITY),
    SiteKind.GROUP_REPLICATION: (_FLUSH_LOG, _SYNC_BINLOG, _CONSISTENCY),
}
_OF_REPLICA = ("relay_log_recovery", "sync_relay_log")
_OF_SOURCE = tuple(f"rpl_semi_sync_{source}_" for source, _ in _ROLE_NAMES)


def select_settings_for_promise(
    kind: SiteKind, settings: Mapping[str, str], *, of_writer: bool
) -> dict[str, str]:
    """Return those *settings* of a node that the promise rests on.

    of_writer: the node took the load.
    """
    if kind is SiteKind.SEMI_SYNC:
        begins = _OF_SOURCE if of_writer else _OF_REPLICA
        return {name: settings[name] for name in settings if name.startswith(begins)}
    if kind is SiteKind.STREAMING and not of_writer:
        return {}
    names = _SETTINGS_SHOWN[kind]
    return {name: settings[name] for name in names if name in settings}


def _judge_flush_by_writer(
    settings: Mapping[str, str], safe: Mapping[str, Sequence[str]]
) -> Kept:
    """Judge whether the writer flushes a commit before it answers.

    No other node flushes the commit before the answer.
    safe: setting -> values with which the writer flushes each commit first.
    """
    unread = tuple(f"{name} could not be read" for name in safe if name not in settings)
    for name, values in safe.items():
        if name in settings and settings[name] not in values:
            return Kept(
                f"{name} = {settings[name]}: a commit is answered before any node has"
                " flushed it"
            )
    return Kept(doubts=unread)


def _judge_group_replication(promise: Promise, settings: Mapping[str, str]) -> Kept:
    """Judge the settings of a group, which answers once a majority has a commit.

    The majority has it in memory; each member flushes it by itself (MySQL 9.7 manual,
    20.1.1.2 Group Replication).  Recovery goes by the binary log, which a group needs
    (7.4.4 The Binary Log).
    """
    if promise.cuts_all:
        return _judge_flush_by_writer(
            settings, {_FLUSH_LOG: ("1",), _SYNC_BINLOG: ("1",)}
        )
    return Kept()


def _judge_galera(promise: Promise, settings: Mapping[str, str]) -> Kept:
    """Judge the settings of Galera, which answers once all nodes have a commit.

    They have it in memory; each node flushes it by itself (MariaDB documentation, About
    Galera Replication).
    """
    if promise.cuts_all:
        return _judge_flush_by_writer(settings, {_FLUSH_LOG: _FLUSHES_EACH_COMMIT})
    doubts = []
    for name in IGNORE_MAJORITY:
        if name not in settings:
            doubts.append(f"{name} could not be read")
        elif settings[name] not in _FALSE_IN_GALERA:
            doubts.append(
                f"{name} = {settings[name]}: nodes without a majority take writes, too"
            )
    return Kept(doubts=tuple(doubts))


def _find_fault_of_streaming(promise: Promise, settings: Mapping[str, str]) -> str:
    commit_level = settings.get("synchronous_commit", "")
    if commit_level in _COMMITS_AWAIT_NO_STANDBY:
        return (
            f"synchronous_commit = {commit_level}: a commit is answered before any"
            " standby has it"
        )
    if not settings[_STANDBY_NAMES]:
        return (
            "synchronous_standby_names is empty: a commit is answered before any"
            " standby has it"
        )
    if promise.cuts_all and commit_level == _COMMITS_AWAIT_NO_FLUSH:
        return (
            f"synchronous_commit = {commit_level}: a commit is answered before a"
            " standby has flushed it"
        )
    return ""


def _judge_semi_sync(
    promise: Promise, writer: Mapping[str, str], standby: Mapping[str, str]
) -> Kept:
    enabled_names = [
        (source, replica)
        for source, replica in _ROLE_NAMES
        if writer.get(f"rpl_semi_sync_{source}_enabled", "").lower() in _SWITCHED_ON
    ]
    if not enabled_names:
        return Kept(
            "semi-synchronous replication is off: a commit is answered before any"
            " replica has it"
        )
    source, replica = enabled_names[0]
    if promise.cuts_all and "relay_log_recovery" not in standby:
        return Kept(doubts=("relay_log_recovery of the standby could not be read",))
    if promise.cuts_all and _MARIADB_ONLY_SETTING in writer:
        return Kept(
            "a replica of MariaDB that restarts discards what it had received and not"
            " applied"
        )
    if promise.cuts_all and (why := _find_fault_of_relay_log(standby)):
        return Kept(why)
    doubts = []
    name = f"rpl_semi_sync_{source}_timeout"
    if int(writer.get(name, "0")) < PATIENT_MS:
        doubts.append(
            f"{name} = {writer.get(name)} ms: after so long without a replica commits"
            " are answered before any has them, and no error shows it"
        )
    name = f"rpl_semi_sync_{source}_wait_no_{replica}"
    if writer.get(name, "").lower() in _SWITCHED_OFF:
        doubts.append(f"{name} = OFF: without a replica no commit waits for one")
    return Kept(doubts=tuple(doubts))


def read_replica_timeout_ms(writer: Mapping[str, str]) -> int:
    """Return the time that a source waits for a replica, in ms; 0 if not known."""
    for source, _ in _ROLE_NAMES:
        if f"rpl_semi_sync_{source}_timeout" in writer:
            return int(writer[f"rpl_semi_sync_{source}_timeout"])
    return 0


def _find_fault_of_relay_log(standby: Mapping[str, str]) -> str:
    """Return the reason why a cut may take what a replica acknowledged, "" if none.

    A replica acknowledges what is in its relay log (MySQL 9.7 manual, 19.4.10).
    """
    if standby["relay_log_recovery"].lower() in _SWITCHED_ON:
        return (
            "relay_log_recovery = ON: a replica that restarts discards what it had"
            " received and not applied"
        )
    if standby.get("sync_relay_log") != "1":
        return (
            f"sync_relay_log = {standby.get('sync_relay_log')}: a replica acknowledges"
            " commits that it has not flushed"
        )
    return ""
