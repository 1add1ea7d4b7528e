"""Settings and statements that make servers of a lab one cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mysql.connector
import psycopg2
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.certificates import descriptor_path, open_in_memory
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.lab import Lab
from dbcheck.lab.network import LOOPBACK, Source
from dbcheck.lab.servers.base import USER, require_undecided, standard_name
from dbcheck.lab.servers.mysql import GROUP
from dbcheck.model.standbys import REPLICA_COUNT

_CONNECT_S, _STATEMENT_S = 10, 60


def run_statements(
    lab: Lab, statements: Sequence[str], **values: object
) -> list[dict[str, Any]]:
    """Run *statements* on the server of *lab*; return the rows of the last one.

    Each row has its values by the names of the columns, in lower case.  Raise LabError.

    values: what replaces each {name} in the statements.  {user}, {password} and
    {authority}, the server's certificate file of the authority, come from the lab.
    """
    lab_values = {
        "user": USER,
        "password": lab.password,
        "authority": lab.authority_file,
    }
    filled = [statement.format(**lab_values, **values) for statement in statements]
    run = _run_on_postgresql if lab.spec.engine == "postgresql" else _run_on_mysql
    try:
        return run(lab, filled)
    except (mysql.connector.Error, psycopg2.Error) as error:
        text = str(error).strip().replace(lab.password, "***")
        raise LabError(
            f"{lab.name}: a statement failed: {text}", id=ErrorId.STATEMENT_FAILED
        ) from None


def _run_on_mysql(lab: Lab, statements: Sequence[str]) -> list[dict[str, Any]]:
    """Run *statements* on a server with a certificate of the cluster's authority.

    While the lab's server is off, another process may listen at its port.
    """
    url = make_url(lab.target_url)
    with open_in_memory(lab.authority) as (authority,):
        link = mysql.connector.connect(
            host=url.host,
            port=url.port or 0,
            user=USER,
            password=lab.password,
            ssl_ca=str(descriptor_path(authority)),
            ssl_verify_cert=True,
            # The driver also trusts the system's authorities, which certify anyone, but
            # not the address 127.0.0.1.
            ssl_verify_identity=True,
        )
    with contextlib.closing(link), contextlib.closing(link.cursor()) as cursor:
        return _execute_all(cursor, statements)


def _run_on_postgresql(lab: Lab, statements: Sequence[str]) -> list[dict[str, Any]]:
    """Run *statements* on a server that proves by SCRAM to know the password."""
    url = make_url(lab.target_url)
    link = psycopg2.connect(
        host=url.host,
        port=url.port,
        user=USER,
        password=lab.password,
        require_auth="scram-sha-256",
        dbname=url.database,
        connect_timeout=_CONNECT_S,
        options=f"-c statement_timeout={_STATEMENT_S}s",
    )
    with contextlib.closing(link):
        link.autocommit = True
        with link.cursor() as cursor:
            return _execute_all(cursor, statements)


def _execute_all(cursor: Any, statements: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for statement in statements:
        cursor.execute(statement)
        names = [column[0].lower() for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor] if names else []
    return rows


_LOG_BIN = {"log_bin": "ON", "sync_binlog": "1"}
# The longest time for a replica's answer that each server takes, in milliseconds.
_TIMEOUT_MAX_MS = {"mysql": "4294967295", "mariadb": "18446744073709551615"}
_NODE_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "postgresql": {"wal_keep_size": "256MB"},
    "mysql": {
        **_LOG_BIN,
        "gtid_mode": "ON",
        "enforce_gtid_consistency": "ON",
        "plugin_load_add": "semisync_source.so;semisync_replica.so",
    },
    "mariadb": {**_LOG_BIN, "log_slave_updates": "ON", "gtid_strict_mode": "ON"},
}
# A replica with these settings keeps what it has acknowledged when it is cut itself.
# They cost a flush for each event.
_RELAY_LOG_SETTINGS = {
    "mysql": {"sync_relay_log": "1", "relay_log_recovery": "OFF"},
    # Without the last two a replica forgets its source at a cut.
    "mariadb": {
        "sync_relay_log": "1",
        "sync_master_info": "1",
        "sync_relay_log_info": "1",
    },
}
_SOURCE_SETTINGS = {
    "mysql": {"rpl_semi_sync_source_enabled": "ON"},
    "mariadb": {
        "rpl_semi_sync_master_enabled": "ON",
        "rpl_semi_sync_master_wait_point": "AFTER_SYNC",
    },
}
_REPLICA_SETTINGS = {
    "mysql": {"rpl_semi_sync_replica_enabled": "ON", "read_only": "ON"},
    "mariadb": {"rpl_semi_sync_slave_enabled": "ON", "read_only": "ON"},
}
_TIMEOUT_NAMES = {
    "mysql": "rpl_semi_sync_source_timeout",
    "mariadb": "rpl_semi_sync_master_timeout",
}
# What a writer that has taken over is to set, in this order.
LEADING_SETTINGS = {
    engine: (_TIMEOUT_NAMES[engine], *reversed(_SOURCE_SETTINGS[engine]))
    for engine in _TIMEOUT_NAMES
}
_FOLLOW_STATEMENTS = {
    "mysql": (
        "change replication source to source_host = '{host}', source_port = {port},"
        " source_user = '{user}', source_password = '{password}',"
        " source_auto_position = 1, source_ssl = 1, source_ssl_ca = '{authority}',"
        " source_ssl_verify_server_cert = 1, source_connect_retry = 1",
        "start replica",
    ),
    "mariadb": (
        "change master to master_host = '{host}', master_port = {port},"
        " master_user = '{user}', master_password = '{password}',"
        " master_use_gtid = {position}, master_ssl = 1,"
        " master_ssl_ca = '{authority}', master_ssl_verify_server_cert = 1,"
        " master_connect_retry = 1",
        "start replica",
    ),
}

# They make a former source a replica and nothing else.
_REJOIN_STATEMENTS = {
    "mysql": (
        "set global super_read_only = on",
        "set global rpl_semi_sync_source_enabled = off",
        "set global rpl_semi_sync_replica_enabled = on",
        "stop replica",
        *_FOLLOW_STATEMENTS["mysql"],
    ),
    "mariadb": (
        "set global read_only = on",
        "set global rpl_semi_sync_master_enabled = off",
        "set global rpl_semi_sync_slave_enabled = on",
        "stop replica",
        *_FOLLOW_STATEMENTS["mariadb"],
    ),
}
_MAKE_SLOT = (
    "select pg_create_physical_replication_slot('{member}', true) where not exists"
    " (select from pg_replication_slots where slot_name = '{member}')"
)


def make_node_settings(
    engine: str,
    number: int,
    standbys: Sequence[str],
    given: Mapping[str, str],
    *,
    is_writer: bool,
    cuts_all: bool,
    host: str = LOOPBACK,
    awaited: int = 1,
) -> dict[str, str]:
    """Return the settings of a node of a cluster; *given* override its durable ones.

    number: the node's server_id.  standbys: the names of all nodes but the writer.
    cuts_all: the standbys lose their power, too.  host: the node's address.
    awaited: how many standbys each commit waits for, more than 1 not of MariaDB.
    """
    given_settings = {standard_name(name): value for name, value in given.items()}
    if engine == "postgresql":
        names = {"synchronous_standby_names": f"ANY {awaited} ({', '.join(standbys)})"}
        if not is_writer:  # a standby that took over has no standbys to wait for
            names, _ = {}, given_settings.pop("synchronous_standby_names", None)
        return {**_NODE_SETTINGS[engine], **names, **given_settings}
    role = _REPLICA_SETTINGS[engine]
    if is_writer:
        role = {
            **_SOURCE_SETTINGS[engine],
            _TIMEOUT_NAMES[engine]: _TIMEOUT_MAX_MS[engine],
        }
        if awaited > 1:
            role[REPLICA_COUNT] = str(awaited)
    server = {"server_id": str(number), "report_host": host}
    relay_log = _RELAY_LOG_SETTINGS[engine] if cuts_all else {}
    return {**_NODE_SETTINGS[engine], **role, **server, **relay_log, **given_settings}


def follow(lab: Lab, source: Source) -> None:
    """Make the server of *lab* follow *source*; raise LabError.

    PostgreSQL's server already follows since its data was copied.
    """
    statements = _FOLLOW_STATEMENTS.get(lab.spec.engine, ())
    if statements:
        place = {"host": source.host, "port": source.port}
        run_statements(lab, statements, **place, position="slave_pos")


def rejoin(lab: Lab, writer: Lab, source: Source) -> None:
    """Make the server of *lab* follow the server of *writer*; raise LabError.

    source: the server of *writer*.  The data is not copied anew: PostgreSQL is rewound,
    which removes the transactions that only this server has; MySQL and MariaDB keep
    them.
    """
    statements = _REJOIN_STATEMENTS.get(lab.spec.engine)
    if statements is not None:
        # A source of MariaDB follows another one from its own newest transaction.
        place = {"host": source.host, "port": source.port}
        run_statements(lab, statements, **place, position="current_pos")
        return
    # Without a checkpoint after the promotion, pg_rewind takes the two servers to be on
    # one timeline, and does nothing (PostgreSQL 15 manual, pg_rewind, Notes).
    run_statements(writer, ("checkpoint",))
    make_slot(writer, source)
    lab.rejoin(source)


def make_slot(writer: Lab, source: Source) -> None:
    """Make PostgreSQL's slot of the member, unless it is there; raise LabError.

    source: the server of *writer*, as the member follows it.
    """
    run_statements(writer, (_MAKE_SLOT,), member=source.member)


_GROUP_SETTINGS = {
    "log_bin": "ON",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "plugin_load_add": "group_replication.so",
    # After a power cut of all nodes no group is left to join at the start.
    f"{GROUP}start_on_boot": "OFF",
    f"{GROUP}recovery_use_ssl": "ON",
    # Messages then go to the nodes' ports for clients, and only after a login.  XCom's
    # own ports accept peers without a certificate, even with ssl_mode = VERIFY_CA
    # (MySQL 9.7).
    f"{GROUP}communication_stack": "MYSQL",
}
# Settings that the lab's server makes, as it has the files (servers.mysql).
_SERVER_DECIDES = {
    f"{GROUP}{name}"
    for name in ("ssl_mode", "recovery_ssl_ca", "recovery_ssl_verify_server_cert")
}
_GROUP_DEFAULTS = {
    "sync_binlog": "1",
    # A member that was cut is expelled after 5 s, instead of 10 or more.
    f"{GROUP}member_expel_timeout": "0",
    # Bytes of messages that a server may keep, by default 1 GiB.
    f"{GROUP}message_cache_size": str(128 << 20),
}
RECOVERY = (
    "change replication source to source_user = '{user}',"
    " source_password = '{password}' for channel 'group_replication_recovery'"
)
_START_STATEMENT = "start group_replication"
BOOTSTRAP = (
    f"set global {GROUP}bootstrap_group = on",
    _START_STATEMENT,
    f"set global {GROUP}bootstrap_group = off",
)


def make_group_settings(
    group: str,
    number: int,
    ports: Sequence[HeldPort],
    given: Mapping[str, str],
    hosts: Sequence[str] = (),
) -> dict[str, str]:
    """Return the settings of a member of a replication group; *given* override some.

    group: the group's name, a UUID.  number: of the member, from 1.  ports, hosts: of
    all members, their hosts by address; () if all are on 127.0.0.1.  Raise UsageError
    for a given setting that the members need to find each other.
    """
    hosts = hosts or [LOOPBACK] * len(ports)
    addresses = [
        f"{host}:{port.number}" for host, port in zip(hosts, ports, strict=True)
    ]
    decided_settings = {
        **_GROUP_SETTINGS,
        "server_id": str(number),
        "report_host": hosts[number - 1],
        f"{GROUP}group_name": group,
        f"{GROUP}local_address": addresses[number - 1],
        f"{GROUP}group_seeds": ",".join(addresses),
    }
    given_settings = {standard_name(name): value for name, value in given.items()}
    decided_names = {*decided_settings, f"{GROUP}bootstrap_group", *_SERVER_DECIDES}
    require_undecided(given_settings, decided_names, "a replication group")
    return {**decided_settings, **_GROUP_DEFAULTS, **given_settings}


def join_group(lab: Lab, *, first: bool) -> None:
    """Make the server of *lab* bootstrap its group, or join it; raise LabError."""
    run_statements(lab, (RECOVERY, *(BOOTSTRAP if first else (_START_STATEMENT,))))


_PROVIDER_OPTIONS = "wsrep_provider_options"


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of a Galera node beside its port for clients.

    group: for messages of the other nodes.  missed: to receive transactions that the
    node missed.  copy: to receive a copy of another node's data.
    """

    group: HeldPort
    missed: HeldPort
    copy: HeldPort

    @classmethod
    def held(cls) -> Ports:
        """Take three free ports; raise LabError if there are too few."""
        return cls(HeldPort(), HeldPort(), HeldPort())


def make_galera_settings(
    names: Sequence[str],
    number: int,
    ports: Sequence[Ports],
    given: Mapping[str, str],
    hosts: Sequence[str] = (),
) -> dict[str, str]:
    """Return the settings of a node of a Galera cluster; *given* override some.

    names, ports, hosts: of all nodes, their hosts by address; () if all are on
    127.0.0.1.  number: of the node, from 1; the first node begins the cluster (see
    servers.mariadb.GaleraServer).  Raise UsageError for a given setting that the nodes
    need to find each other.
    """
    hosts = hosts or [LOOPBACK] * len(ports)
    own_ports, host = ports[number - 1], hosts[number - 1]
    address = f"{host}:{own_ports.group.number}"
    addresses = [
        f"{host}:{each.group.number}" for host, each in zip(hosts, ports, strict=True)
    ]
    options = {
        "gmcast.listen_addr": f"tcp://{address}",
        "ist.recv_addr": f"{host}:{own_ports.missed.number}",
        "gcache.size": "32M",  # a node is gone for a short time, and drives are small
    }
    first_node = {"wsrep_new_cluster": ""} if number == 1 else {}
    given_settings = {standard_name(name): value for name, value in given.items()}
    decided_settings = {
        "wsrep_cluster_name": "dbcheck",
        "wsrep_cluster_address": "gcomm://" + ",".join(addresses),
        "wsrep_node_name": names[number - 1],
        "wsrep_node_address": address,
        "wsrep_sst_receive_address": f"{host}:{own_ports.copy.number}",
        "server_id": str(number),
        **first_node,
    }
    require_undecided(
        given_settings, {*decided_settings, "wsrep_new_cluster"}, "a Galera cluster"
    )
    # Of two values of an option Galera takes the later value.
    given_options = given_settings.pop(_PROVIDER_OPTIONS, "")
    parts = [*(f"{name}={value}" for name, value in options.items()), given_options]
    return {
        **decided_settings,
        _PROVIDER_OPTIONS: ";".join(filter(None, parts)),
        **given_settings,
    }
