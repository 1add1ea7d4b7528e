"""The settings that dbcheck's sessions depend on, and the values that they need.

Each setting can be changed for the whole server, or by its init_connect (MySQL 8.4
manual, 7.1.8; MariaDB's "Server System Variables"), so every connection sets them and
reads them back.  Settings that decide whether a commit is durable, or goes to the
binary log, are under test and never set here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dbcheck.server_log import Product

Value = int | str

_NO_LIMIT = 2**64 - 1
_DAY_S = 86_400

_SESSION_OF_BOTH: Mapping[str, Value] = {
    # Every statement is a transaction of its own.
    "autocommit": 1,
    "completion_type": "NO_CHAIN",
    # 0 asks for the next id (no NO_AUTO_VALUE_ON_ZERO), backslashes escape, "..." is a
    # string, and no other engine comes in place of InnoDB.
    "sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
    # A query returns every row, however many there are.
    "sql_select_limit": _NO_LIMIT,
    "sql_big_selects": 1,
    "sql_safe_updates": 0,
    "sql_auto_is_null": 0,
    "sql_buffer_result": 0,
    "sql_quote_show_create": 1,
    "unique_checks": 1,
    "foreign_key_checks": 1,
    # Time limits, in seconds, above any that dbcheck itself sets.
    "wait_timeout": _DAY_S,
    "net_read_timeout": 3600,
    "net_write_timeout": 3600,  # a reader of many rows may pause this long
    "lock_wait_timeout": _DAY_S,
    "innodb_lock_wait_timeout": 50,
    # How values are written and read.
    "time_zone": "+00:00",
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_results": "utf8mb4",
}

SESSION: Mapping[Product, Mapping[str, Value]] = {
    Product.MYSQL: {
        **_SESSION_OF_BOTH,
        "transaction_isolation": "REPEATABLE-READ",
        "max_execution_time": 0,
    },
    Product.MARIADB: {
        **_SESSION_OF_BOTH,
        "tx_isolation": "REPEATABLE-READ",
        "max_statement_time": 0,
        "idle_transaction_timeout": 0,
        "idle_readonly_transaction_timeout": 0,
        "idle_write_transaction_timeout": 0,
    },
}

# Settings that decide over a session's commits, and whose value in a session may differ
# from the server's: each session of the load shows its own while it commits.  The value
# here tells whether the setting is a switch, which a query shows as a number.  Scope of
# the settings: MySQL 8.4 manual, 19.1.6.4 and 20.9.1; for MariaDB and Percona Server
# their documentation of Galera, MyRocks and XtraDB.
OF_A_SESSION: Mapping[str, bool] = {
    "sql_log_bin": True,
    "innodb_flush_log_at_trx_commit": False,  # Percona Server
    "rocksdb_flush_log_at_trx_commit": False,
    "rocksdb_write_disable_wal": True,
    "rocksdb_bulk_load": True,
    "rocksdb_commit_in_the_middle": True,
    "wsrep_on": True,
    "group_replication_consistency": False,
}


def look_statement(names: Iterable[str]) -> str:
    """Return the statement that reads *names*, with values as in SHOW VARIABLES.

    names: of settings in OF_A_SESSION.
    """
    columns = (
        f"if(@@{name}, 'ON', 'OFF')" if OF_A_SESSION[name] else f"@@{name}"
        for name in names
    )
    return "select " + ", ".join(columns)


def set_statement(settings: Mapping[str, Value]) -> tuple[str, tuple[Value, ...]]:
    """Return the statement that sets *settings*, and its values.

    A variable's name cannot be a parameter.  All names come from this file.
    """
    names = ", ".join(f"{name} = %s" for name in settings)
    return f"set session {names}", tuple(settings.values())


def read_statement(settings: Mapping[str, Value]) -> str:
    """Return the statement that reads *settings* back, in their order."""
    return "select " + ", ".join(f"@@session.{name}" for name in settings)


def is_in_effect(wanted: Value, found: object) -> bool:
    """Return True if *found* is *wanted*; the order of words between commas is free."""
    if isinstance(wanted, str):
        return set(str(found).split(",")) == set(wanted.split(","))
    return found == wanted
