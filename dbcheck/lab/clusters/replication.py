"""Settings and statements that make servers of a lab one cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mysql.connector
import psycopg2
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.certificates import descriptor_path, open_in_memory
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import USER, Source, require_undecided, standard_name
from dbcheck.lab.servers.mysql import GROUP

_CONNECT_S, _STATEMENT_S = 10, 60


def run_statements(lab: Lab, statements: Sequence[str], **values: object) -> None:
    """Run these on the server of *lab*; raise LabError.

    values: what stands for {name} in them; user, password and authority, the file by
    which the server knows others, are the lab's own.
    """
    own = {"user": USER, "password": lab.password, "authority": lab.authority_file}
    filled = [each.format(**own, **values) for each in statements]
    run = _run_on_postgresql if lab.spec.engine == "postgresql" else _run_on_mysql
    try:
        run(lab, filled)
    except (mysql.connector.Error, psycopg2.Error) as error:
        text = str(error).strip().replace(lab.password, "***")
        raise LabError(
            f"{lab.name}: a statement failed: {text}", id=ErrorId.STATEMENT_FAILED
        ) from None


def _run_on_mysql(lab: Lab, statements: Sequence[str]) -> None:
    """Run them on the server that the cluster's authority vouches for, and on no other.

    Another may listen at its port while it is off.
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
            # The driver trusts the system's authorities as well; they have certificates
            # for anyone, but for no 127.0.0.1.
            ssl_verify_identity=True,
        )
    with contextlib.closing(link), contextlib.closing(link.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)


def _run_on_postgresql(lab: Lab, statements: Sequence[str]) -> None:
    """Run them on a server that knows the password, too, as SCRAM has it prove."""
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
            for statement in statements:
                cursor.execute(statement)


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


def make_node_settings(
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


_HOST = "127.0.0.1"
_NEEDED = {
    "log_bin": "ON",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "plugin_load_add": "group_replication.so",
    # Once all nodes lost their power, none is there to be joined.
    f"{GROUP}start_on_boot": "OFF",
    f"{GROUP}recovery_use_ssl": "ON",
    # Messages go to each other's port for clients, and only after a login.  XCom's own
    # ports let in who shows no certificate, even with ssl_mode = VERIFY_CA (MySQL 9.7).
    f"{GROUP}communication_stack": "MYSQL",
}
# Of these the lab's server has the files (servers.mysql).
_BY_SERVER = {
    f"{GROUP}{name}"
    for name in ("ssl_mode", "recovery_ssl_ca", "recovery_ssl_verify_server_cert")
}
_CHOSEN = {
    "sync_binlog": "1",
    # A member that was cut is out of the group after 5 s, and not after 10 or more.
    f"{GROUP}member_expel_timeout": "0",
    # Each server may keep so many bytes of messages, 1 GiB by default.
    f"{GROUP}message_cache_size": str(128 << 20),
}
RECOVERY = (
    "change replication source to source_user = '{user}',"
    " source_password = '{password}' for channel 'group_replication_recovery'"
)
_START = "start group_replication"
BOOTSTRAP = (
    f"set global {GROUP}bootstrap_group = on",
    _START,
    f"set global {GROUP}bootstrap_group = off",
)


def make_group_settings(
    group: str, number: int, ports: Sequence[HeldPort], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings of one member of a replication group, and over them *given*.

    group: its name, a UUID.  number: of the member, from 1.  ports: of the servers of
    all of them.  Raise UsageError for a given setting that they need to find each
    other.
    """
    addresses = [f"{_HOST}:{port.number}" for port in ports]
    ours = {
        **_NEEDED,
        "server_id": str(number),
        "report_host": _HOST,
        f"{GROUP}group_name": group,
        f"{GROUP}local_address": addresses[number - 1],
        f"{GROUP}group_seeds": ",".join(addresses),
    }
    asked = {standard_name(name): value for name, value in given.items()}
    decided = {*ours, f"{GROUP}bootstrap_group", *_BY_SERVER}
    require_undecided(asked, decided, "a replication group")
    return {**ours, **_CHOSEN, **asked}


def join_group(lab: Lab, *, first: bool) -> None:
    """Have the server of *lab* bootstrap its group, or join it; raise LabError."""
    run_statements(lab, (RECOVERY, *(BOOTSTRAP if first else (_START,))))


_OPTIONS = "wsrep_provider_options"


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of a Galera node beside its port for clients.

    group: for the others' messages.  missed: for the transactions that it missed.
    copy:  for a copy of another's data.
    """

    group: HeldPort
    missed: HeldPort
    copy: HeldPort

    @classmethod
    def held(cls) -> Ports:
        """Take three; raise LabError if there are none."""
        return cls(HeldPort(), HeldPort(), HeldPort())


def make_galera_settings(
    names: Sequence[str], number: int, ports: Sequence[Ports], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings of one node of a Galera cluster, and over them *given*.

    names, ports: of all nodes.  number: which of them it is, from 1; the first one
    begins the cluster (see servers.galera).  Raise UsageError for a given setting that
    the nodes need to find each other.
    """
    own = ports[number - 1]
    address = f"{_HOST}:{own.group.number}"
    options = {
        "gmcast.listen_addr": f"tcp://{address}",
        "ist.recv_addr": f"{_HOST}:{own.missed.number}",
        "gcache.size": "32M",  # a node is gone for a short time, and drives are small
    }
    begins = {"wsrep_new_cluster": ""} if number == 1 else {}
    asked = {standard_name(name): value for name, value in given.items()}
    ours = {
        "wsrep_cluster_name": "dbcheck",
        "wsrep_cluster_address": "gcomm://"
        + ",".join(f"{_HOST}:{each.group.number}" for each in ports),
        "wsrep_node_name": names[number - 1],
        "wsrep_node_address": address,
        "wsrep_sst_receive_address": f"{_HOST}:{own.copy.number}",
        "server_id": str(number),
        **begins,
    }
    require_undecided(asked, {*ours, "wsrep_new_cluster"}, "a Galera cluster")
    # Of two values of an option Galera takes the later one.
    more = asked.pop(_OPTIONS, "")
    parts = [*(f"{name}={value}" for name, value in options.items()), more]
    return {**ours, _OPTIONS: ";".join(filter(None, parts)), **asked}
