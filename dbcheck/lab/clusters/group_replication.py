"""Settings and statements that make servers of a lab one MySQL replication group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.lab.clusters.statements import run_statements
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.mysql import GROUP
from dbcheck.lab.servers.settings import require_undecided, standard_name

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


def group_settings(
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
