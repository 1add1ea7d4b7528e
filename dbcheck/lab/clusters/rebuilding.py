"""Nodes of a cluster of labs, rebuilt for the node that has taken over.

What a node has to itself, and no other node, decides how: a server of the MySQL family
that committed what the new writer never had cannot follow it with that data.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.clusters.replication import (
    LEADING_SETTINGS,
    follow,
    join_group,
    make_slot,
    rejoin,
    run_statements,
)
from dbcheck.lab.clusters.spec import COPY
from dbcheck.lab.lab import Lab
from dbcheck.lab.network import Source
from dbcheck.model.cut import PowerState
from dbcheck.model.replication import find_newest_gtids

_FOLLOWS_S, _POLL_S = 120.0, 0.2
_HOST, _PORT = re.compile(r"\bhost=\S+"), re.compile(r"\bport=\S+")
SYNCHRONOUS = "synchronous_standby_names"


def swap_names(value: str, first: str, second: str) -> str:
    """Return a list of standbys in which two nodes have changed places.

    A list that is given names the standbys of the first writer.
    """
    other = {first: second, second: first}
    names = rf"\b({re.escape(first)}|{re.escape(second)})\b"
    return re.sub(names, lambda found: other[found[0]], value)


def lead(lab: Lab, settings: Mapping[str, str]) -> None:
    """Have a server that has taken over wait for standbys from now on.

    settings: of a writer.  They also count from its next start on.  Raise LabError.
    """
    lab.reassign(settings)
    if lab.spec.engine == "postgresql":
        value = settings.get(SYNCHRONOUS, "").replace("'", "''")
        run_statements(
            lab,
            (
                f"alter system set {SYNCHRONOUS} = '{{value}}'",
                "select pg_reload_conf()",
            ),
            value=value,
        )
        return
    names = LEADING_SETTINGS[lab.spec.engine]
    run_statements(lab, [f"set global {name} = {settings[name]}" for name in names])


def rebuild(
    lab: Lab,
    writer: Lab,
    source: Source,
    settings: Mapping[str, str],
    method: str,
    new_id: int,
) -> bool:
    """Have the server of *lab* follow the server of *writer*; return once it does.

    source: the server of *writer*.  settings: of a standby.
    method: "" or one of spec.REBUILDS.
    new_id: a server_id that the cluster has never had, for a server with new data: it
            skips events that name its own id as their origin.
    Return True if the server has that id now.  Raise LabError if it does not follow
    within _FOLLOWS_S seconds.
    """
    if lab.spec.engine == "postgresql":
        _rebuild_postgresql(lab, writer, source, settings, method)
        return False
    if method != COPY and _may_follow(lab, writer):
        lab.reassign(settings)
        rejoin(lab, writer, source)
        with contextlib.suppress(_Diverged):
            _await_replica(lab, writer, source.member)
            return False
    lab.reassign({**settings, "server_id": str(new_id)})
    lab.copy(source)
    follow(lab, source)  # the binary logs of a lab go back to the first transaction
    _await_replica(lab, writer, source.member)
    return True


def _rebuild_postgresql(
    lab: Lab, writer: Lab, source: Source, settings: Mapping[str, str], method: str
) -> None:
    slot = {"primary_slot_name": source.member}
    if method == COPY:
        make_slot(writer, source)
        lab.reassign({**settings, **slot})
        lab.copy(source)
    elif _is_standby(lab):
        make_slot(writer, source)
        lab.reassign({**settings, **slot})
        _point_standby(lab, source)
    else:
        lab.reassign({**settings, **slot})
        rejoin(lab, writer, source)
    # Both copies of the data have the configuration of the new writer.
    run_statements(
        lab, (f"alter system reset {SYNCHRONOUS}", "select pg_reload_conf()")
    )
    _await_standby(lab, writer, source.member)


def rebuild_below_patroni(lab: Lab, writer: Lab, source: Source, method: str) -> None:
    """Have Patroni start the server of *lab* as a standby of the server of *writer*.

    Patroni rewinds it; with the method "copy" its data is deleted before, so that
    Patroni copies the leader's.  Raise LabError if it does not follow.
    """
    if method == COPY:
        lab.copy(source)
    elif not _is_standby(lab):
        lab.rejoin(source)
    _await_standby(lab, writer, source.member)


def rebuild_member(
    lab: Lab, writer: Lab, source: Source, settings: Mapping[str, str], method: str
) -> None:
    """Have the server of *lab* join the group of *writer*; return once it is in sync.

    It fetches from the others what it lacks.  A server that the group refuses gets new
    data, and one with the method "copy", too.
    source: the server of *writer*.  settings: for a server with new data.
    Raise PowerError if its power cannot be restored, LabError if it does not join.
    """
    switch = lab.switch()
    if switch.state() is not PowerState.ON:
        switch.restore()
    if method != COPY and not switch.failure():
        with contextlib.suppress(LabError):
            _join(lab)
            _await_member(lab, writer, source.member)
            return
    lab.reassign(settings)
    lab.copy(source)
    _join(lab)
    _await_member(lab, writer, source.member)


def _join(lab: Lab) -> None:
    """Have MySQL's server join its group; Galera's does that when it starts."""
    if lab.spec.engine == "mysql" and not _count_members(lab):
        run_statements(lab, ("stop group_replication",))  # what is left of an attempt
        join_group(lab, first=False)


# The number of members that are in sync, as this server sees it.
_MEMBERS = {
    "mysql": "select count(*) as members"
    " from performance_schema.replication_group_members"
    " where member_state = 'ONLINE' and exists"
    " (select * from performance_schema.replication_group_members"
    " where member_id = @@server_uuid and member_state = 'ONLINE')",
    "mariadb": "select case when 'Synced' in (select variable_value"
    " from information_schema.global_status"
    " where variable_name = 'wsrep_local_state_comment')"
    " then max(variable_value) else 0 end as members"
    " from information_schema.global_status where variable_name = 'wsrep_cluster_size'",
}


def _count_members(lab: Lab) -> int:
    (row,) = run_statements(lab, (_MEMBERS[lab.spec.engine],))
    return int(row["members"])


def _await_member(lab: Lab, writer: Lab, member: str) -> None:
    """Wait until a node is in sync with the writer; others may still have to join."""
    ends_s = time.monotonic() + _FOLLOWS_S
    while not 1 < _count_members(lab) == _count_members(writer):
        if time.monotonic() >= ends_s:
            raise _make_error(member, lab.server_log(5))
        time.sleep(_POLL_S)


def _is_standby(lab: Lab) -> bool:
    (row,) = run_statements(lab, ("select pg_is_in_recovery() as is_standby",))
    return bool(row["is_standby"])


def _point_standby(lab: Lab, source: Source) -> None:
    """Have a running standby follow *source*: only the place of its source changes.

    From PostgreSQL 13 on, a reload is enough for that.
    """
    (row,) = run_statements(lab, ("show primary_conninfo",))
    conninfo = _PORT.sub(f"port={source.port}", str(row["primary_conninfo"]))
    conninfo = _HOST.sub(f"host={source.host}", conninfo)
    run_statements(
        lab,
        (
            "alter system set primary_conninfo = '{conninfo}'",
            "select pg_reload_conf()",
        ),
        conninfo=conninfo.replace("'", "''"),
    )


class _Diverged(LabError):
    """The node has transactions that its source lacks."""


_OWN_GTIDS = {
    "mysql": "select @@global.gtid_executed as gtids, @@server_uuid as id",
    "mariadb": "select @@global.gtid_binlog_state as gtids, @@server_id as id",
}


def _may_follow(lab: Lab, writer: Lab) -> bool:
    """Return True if both servers have the same of what the server of *lab* committed.

    What the writer lacks would stay on that server alone.  What the server itself has
    lost it would never get back: it skips events that name it as their origin (MySQL
    8.4 manual, replicate-same-server-id).
    """
    (own,) = run_statements(lab, (_OWN_GTIDS[lab.spec.engine],))
    (there,) = run_statements(writer, (_OWN_GTIDS[lab.spec.engine],))
    name = str(own["id"])
    if lab.spec.engine == "mariadb":
        newest, newest_there = map(find_newest_gtids, (own["gtids"], there["gtids"]))
        return newest.get(name, 0) == newest_there.get(name, 0)
    (row,) = run_statements(
        writer,
        (
            "select gtid_subtract('{own}', @@global.gtid_executed) as extra,"
            " gtid_subtract(@@global.gtid_executed, '{own}') as missing",
        ),
        own=own["gtids"],
    )
    return not row["extra"] and name not in row["missing"]


# How far a server's commits, or what a replica has applied, reach.
_POSITION = {
    "postgresql": "select pg_current_wal_lsn()::text as position",
    "mysql": "select @@global.gtid_executed as position",
    # A replica of a lab logs what it applies.
    "mariadb": "select @@global.gtid_binlog_pos as position",
}
_HAS_APPLIED = {
    "postgresql": "select pg_last_wal_replay_lsn() >= '{position}' as done",
    "mysql": "select gtid_subset('{position}', @@global.gtid_executed) as done",
}


def _read_position(lab: Lab) -> str:
    (row,) = run_statements(lab, (_POSITION[lab.spec.engine],))
    return str(row["position"])


def _has_applied(lab: Lab, writer: Lab) -> bool:
    """Return True if a node has applied what the writer, without a load, has now.

    A MariaDB that committed a transaction of its own ends at another one, before its
    connection to the writer fails because of that.
    """
    position, statement = _read_position(writer), _HAS_APPLIED.get(lab.spec.engine)
    if statement is None:
        return _read_position(lab) == position
    (row,) = run_statements(lab, (statement,), position=position)
    return bool(row["done"])


def _await_standby(lab: Lab, writer: Lab, member: str) -> None:
    """Wait until a standby streams from the writer and has applied what it had."""
    ends_s = time.monotonic() + _FOLLOWS_S
    streaming = (
        "select 1 as row from pg_stat_replication where state = 'streaming'"
        " and application_name = '{member}'",
    )
    while not (
        run_statements(writer, streaming, member=member) and _has_applied(lab, writer)
    ):
        if time.monotonic() >= ends_s:
            raise _make_error(member, lab.server_log(5))
        time.sleep(_POLL_S)


def _await_replica(lab: Lab, writer: Lab, member: str) -> None:
    """Wait until a replica has applied what the writer had; raise _Diverged."""
    ends_s = time.monotonic() + _FOLLOWS_S
    while True:
        (status,) = run_statements(lab, ("show replica status",))
        if why := _find_replica_error(status):
            raise _Diverged(
                f"{member} does not follow the new writer: {why}",
                id=ErrorId.LAB_NODES_DO_NOT_FOLLOW,
            )
        if _both_run(status) and _has_applied(lab, writer):
            return
        if time.monotonic() >= ends_s:
            running = str(status["last_io_error"]) or "it has not applied all"
            raise _make_error(member, running)
        time.sleep(_POLL_S)


# Fatal errors of a replica's connection to its source, after which it tries no more
# (MySQL 8.4 error reference, ER_SOURCE_FATAL_ERROR_READING_BINLOG).
_FATAL_IO_ERRORS = {1236, 13114}


def _find_replica_error(status: Mapping[str, Any]) -> str:
    """Return the error that stopped a replica, "" if none did."""
    if int(status["last_io_errno"]) in _FATAL_IO_ERRORS:
        return str(status["last_io_error"])
    return str(status["last_sql_error"])


def _both_run(status: Mapping[str, Any]) -> bool:
    """Return True if a replica receives and applies; MariaDB has the older names."""
    running = [
        value
        for name, value in status.items()
        if name in ("replica_io_running", "replica_sql_running")
        or name in ("slave_io_running", "slave_sql_running")
    ]
    return running == ["Yes", "Yes"]


def _make_error(member: str, why: str) -> LabError:
    return LabError(
        f"{member} does not follow the new writer after {_FOLLOWS_S:g} s: {why}",
        id=ErrorId.LAB_NODES_DO_NOT_FOLLOW,
        hint="Look for a lack of CPU or memory here, then run it again.",
    )
