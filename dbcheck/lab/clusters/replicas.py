"""Settings and statements that make servers of a lab follow one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.lab.clusters.statements import run_statements
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import Source
from dbcheck.lab.servers.settings import standard_name

_LOG_BIN = {"log_bin": "ON", "sync_binlog": "1"}
# For ever, as far as the server takes that, in milliseconds.
_PATIENT = {"mysql": "4294967295", "mariadb": "18446744073709551615"}
_SHARED: Mapping[str, Mapping[str, str]] = {
    "postgresql": {"wal_keep_size": "256MB"},
    "mysql": {
        **_LOG_BIN,
        "gtid_mode": "ON",
        "enforce_gtid_consistency": "ON",
        "plugin_load_add": "semisync_source.so;semisync_replica.so",
    },
    "mariadb": {**_LOG_BIN, "log_slave_updates": "ON", "gtid_strict_mode": "ON"},
}
# What a replica needs that is to keep what it has acknowledged when it is cut, too.  It
# costs a flush for each event.
_RELAY_LOG = {
    "mysql": {"sync_relay_log": "1", "relay_log_recovery": "OFF"},
    # Without the last two a cut has it forget whom it follows.
    "mariadb": {
        "sync_relay_log": "1",
        "sync_master_info": "1",
        "sync_relay_log_info": "1",
    },
}
_OF_A_SOURCE = {
    "mysql": {"rpl_semi_sync_source_enabled": "ON"},
    "mariadb": {
        "rpl_semi_sync_master_enabled": "ON",
        "rpl_semi_sync_master_wait_point": "AFTER_SYNC",
    },
}
_OF_A_REPLICA = {
    "mysql": {"rpl_semi_sync_replica_enabled": "ON", "read_only": "ON"},
    "mariadb": {"rpl_semi_sync_slave_enabled": "ON", "read_only": "ON"},
}
_TIMEOUTS = {
    "mysql": "rpl_semi_sync_source_timeout",
    "mariadb": "rpl_semi_sync_master_timeout",
}
_FOLLOW = {
    "mysql": (
        "change replication source to source_host = '127.0.0.1', source_port = {port},"
        " source_user = '{user}', source_password = '{password}',"
        " source_auto_position = 1, source_ssl = 1, source_ssl_ca = '{authority}',"
        " source_ssl_verify_server_cert = 1, source_connect_retry = 1",
        "start replica",
    ),
    "mariadb": (
        "change master to master_host = '127.0.0.1', master_port = {port},"
        " master_user = '{user}', master_password = '{password}',"
        " master_use_gtid = {position}, master_ssl = 1,"
        " master_ssl_ca = '{authority}', master_ssl_verify_server_cert = 1,"
        " master_connect_retry = 1",
        "start replica",
    ),
}

# What was a source is set to be a replica alone.
_REJOIN = {
    "mysql": (
        "set global super_read_only = on",
        "set global rpl_semi_sync_source_enabled = off",
        "stop replica",
        *_FOLLOW["mysql"],
    ),
    "mariadb": (
        "set global read_only = on",
        "set global rpl_semi_sync_master_enabled = off",
        "stop replica",
        *_FOLLOW["mariadb"],
    ),
}


def settings_of(
    engine: str,
    number: int,
    standbys: Sequence[str],
    given: Mapping[str, str],
    *,
    cuts_all: bool,
) -> dict[str, str]:
    """Return the settings of a node of a cluster: durable ones, and over them *given*.

    number: of the node, the writer's is 1.  standbys: the names of the others.
    cuts_all: the standbys lose their power, too.
    """
    own = {standard_name(name): value for name, value in given.items()}
    writes = number == 1
    if engine == "postgresql":
        names = {"synchronous_standby_names": f"ANY 1 ({', '.join(standbys)})"}
        if not writes:  # once it took over, it has no standbys to wait for
            names, _ = {}, own.pop("synchronous_standby_names", None)
        return {**_SHARED[engine], **names, **own}
    role = _OF_A_REPLICA[engine]
    if writes:
        role = {**_OF_A_SOURCE[engine], _TIMEOUTS[engine]: _PATIENT[engine]}
    server = {"server_id": str(number), "report_host": "127.0.0.1"}
    relay_log = _RELAY_LOG[engine] if cuts_all else {}
    return {**_SHARED[engine], **role, **server, **relay_log, **own}


def follow(lab: Lab, source: Source) -> None:
    """Have the server of *lab* follow; raise LabError.

    PostgreSQL's does since its data were copied.
    """
    statements = _FOLLOW.get(lab.spec.engine, ())
    if statements:
        run_statements(lab, statements, port=source.port, position="slave_pos")


def rejoin(lab: Lab, writer: Lab, source: Source) -> None:
    """Have the server of *lab* follow that of *writer* from now on; raise LabError.

    source: the latter.  It is done without copying the data anew: PostgreSQL is
    rewound, which takes away what it alone has.  MySQL and MariaDB keep that.
    """
    statements = _REJOIN.get(lab.spec.engine)
    if statements is not None:
        # A source of MariaDB follows another one from its own newest transaction.
        run_statements(lab, statements, port=source.port, position="current_pos")
        return
    # Without a checkpoint since the promotion pg_rewind takes both for servers of one
    # timeline, and does nothing (PostgreSQL 15 manual, pg_rewind, Notes).
    run_statements(writer, ("checkpoint",))
    lab.rejoin(source)
