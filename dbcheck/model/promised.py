"""Settings that contradict a cluster's promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from dbcheck.model.cluster import Promise, SiteKind

_ON, _OFF = ("on", "1"), ("off", "0")
# PostgreSQL 17 manual, 19.5.1, synchronous_commit.
_NOT_AWAITED = ("off", "local")
_NOT_FLUSHED = "remote_write"
_STANDBYS = "synchronous_standby_names"
# MySQL 9.7 manual, 19.4.10 Semisynchronous Replication; MariaDB documentation,
# Semisynchronous Replication.  MySQL before 8.0.26 has the second names, too.
_WORDS = (("source", "replica"), ("master", "slave"))
# A setting that MariaDB has and MySQL lacks.  That its replicas discard their relay log
# was seen of 10.11 with GTIDs (tests/real/test_cluster_semi_sync.py).
_MARIADB = "binlog_commit_wait_count"
# With these, nodes that lost the majority go on (Galera documentation, Galera
# Parameters).
IGNORE_MAJORITY = ("pc.ignore_quorum", "pc.ignore_sb")
_NO = ("false", "no", "0", "off")
_FLUSH_LOG = "innodb_flush_log_at_trx_commit"
_FLUSHED = ("1", "3")  # MariaDB documentation, InnoDB System Variables
_SYNC_BINLOG = "sync_binlog"
PATIENT_MS = 3_600_000  # a source that waits so long is taken to wait for ever


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether settings keep a promise.

    contradiction: why they do not, "" if nothing shows that.
    doubts:        what a PASS has to assume.
    """

    contradiction: str = ""
    doubts: tuple[str, ...] = ()


def kept_by(
    kind: SiteKind,
    promise: Promise,
    writer: Mapping[str, str],
    standby: Mapping[str, str],
) -> Kept:
    """Return whether the settings of *writer* and *standby* keep the promise.

    writer: as its sessions have them.  standby: {} if they are not known.
    """
    match kind:
        case SiteKind.GALERA:
            return _galera(promise, writer)
        case SiteKind.GROUP_REPLICATION:
            return _group_replication(promise, writer)
        case _ if promise.writer_returns:
            return Kept()
        case SiteKind.STREAMING if _STANDBYS not in writer:
            return Kept(doubts=(f"{_STANDBYS} could not be read",))
        case SiteKind.STREAMING:
            return Kept(_streaming(promise, writer))
        case SiteKind.SEMI_SYNC:
            return _semi_sync(promise, writer, standby)
        case SiteKind.SINGLE:
            return Kept()
        case _:
            assert_never(kind)


def _flushed(settings: Mapping[str, str], safe: Mapping[str, Sequence[str]]) -> Kept:
    """Judge whether the writer flushes a commit before it answers; no other node does.

    safe: the values of settings with which it does.
    """
    unread = tuple(f"{name} could not be read" for name in safe if name not in settings)
    for name, values in safe.items():
        if name in settings and settings[name] not in values:
            return Kept(
                f"{name} = {settings[name]}: a commit is answered before any node has"
                " flushed it"
            )
    return Kept(doubts=unread)


def _group_replication(promise: Promise, settings: Mapping[str, str]) -> Kept:
    """Judge a commit that is answered once a majority has it in memory.

    Each member flushes it by itself (MySQL 9.7 manual, 20.1.1.2 Group Replication).
    Recovery goes by the binary log, which a group needs (7.4.4 The Binary Log).
    """
    if promise.cuts_all:
        return _flushed(settings, {_FLUSH_LOG: ("1",), _SYNC_BINLOG: ("1",)})
    return Kept()


def _galera(promise: Promise, settings: Mapping[str, str]) -> Kept:
    """Judge a commit that is answered once all nodes have it in their memory.

    Each node flushes it by itself (MariaDB documentation, About Galera Replication).
    """
    if promise.cuts_all:
        return _flushed(settings, {_FLUSH_LOG: _FLUSHED})
    doubts = []
    for name in IGNORE_MAJORITY:
        if name not in settings:
            doubts.append(f"{name} could not be read")
        elif settings[name] not in _NO:
            doubts.append(
                f"{name} = {settings[name]}: nodes without a majority take writes, too"
            )
    return Kept(doubts=tuple(doubts))


def _streaming(promise: Promise, settings: Mapping[str, str]) -> str:
    commits = settings.get("synchronous_commit", "")
    if commits in _NOT_AWAITED:
        return (
            f"synchronous_commit = {commits}: a commit is answered before any standby"
            " has it"
        )
    if not settings[_STANDBYS]:
        return (
            "synchronous_standby_names is empty: a commit is answered before any"
            " standby has it"
        )
    if promise.cuts_all and commits == _NOT_FLUSHED:
        return (
            f"synchronous_commit = {commits}: a commit is answered before a standby has"
            " flushed it"
        )
    return ""


def _semi_sync(
    promise: Promise, writer: Mapping[str, str], standby: Mapping[str, str]
) -> Kept:
    enabled = [
        (source, replica)
        for source, replica in _WORDS
        if writer.get(f"rpl_semi_sync_{source}_enabled", "").lower() in _ON
    ]
    if not enabled:
        return Kept(
            "semi-synchronous replication is off: a commit is answered before any"
            " replica has it"
        )
    source, replica = enabled[0]
    if promise.cuts_all and "relay_log_recovery" not in standby:
        return Kept(doubts=("relay_log_recovery of the standby could not be read",))
    if promise.cuts_all and _MARIADB in writer:
        return Kept(
            "a replica of MariaDB that restarts discards what it had received and not"
            " applied"
        )
    if promise.cuts_all and (why := _relay_log(standby)):
        return Kept(why)
    doubts = []
    name = f"rpl_semi_sync_{source}_timeout"
    if int(writer.get(name, "0")) < PATIENT_MS:
        doubts.append(
            f"{name} = {writer.get(name)} ms: after so long without a replica commits"
            " are answered before any has them, and no error shows it"
        )
    name = f"rpl_semi_sync_{source}_wait_no_{replica}"
    if writer.get(name, "").lower() in _OFF:
        doubts.append(f"{name} = OFF: without a replica no commit waits for one")
    return Kept(doubts=tuple(doubts))


def patience_ms(writer: Mapping[str, str]) -> int:
    """Return how long a source waits for a replica, in ms; 0 if that is not known."""
    for source, _ in _WORDS:
        if f"rpl_semi_sync_{source}_timeout" in writer:
            return int(writer[f"rpl_semi_sync_{source}_timeout"])
    return 0


def _relay_log(standby: Mapping[str, str]) -> str:
    """Return why a replica that loses its power may lose what it has acknowledged.

    It acknowledges what is in its relay log (MySQL 9.7 manual, 19.4.10).
    """
    if standby["relay_log_recovery"].lower() in _ON:
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
