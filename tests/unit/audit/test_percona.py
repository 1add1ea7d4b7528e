"""Percona Server, which cannot run here: MySQL with variables of its own.

version() and @@version_comment are as clients of it print them; the variables are in
its documentation (XtraDB performance improvements, MyRocks server variables).
"""

from __future__ import annotations

from typing import Any

import pytest

from dbcheck.audit.mysql import RULES, TABLES
from dbcheck.audit.rules import find_flagged_settings, judge_rule
from dbcheck.engines.mysql.check import parse_product
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.model.audited import RuleStatus
from dbcheck.model.managed import SERVICE
from tests.kit.recorded_servers import RecordedLink

VERSION = "8.0.46-37"
COMMENT = "Percona Server (GPL), Release 37, Revision 39e2b60e"
VARIABLES = {
    "server_uuid": "f2e3c1a0-0000-11ef-8000-0242ac120002",
    "hostname": "db1",
    "datadir": "/var/lib/mysql/",
    "port": "3306",
    "version": VERSION,
    "autocommit": "ON",
    "log_bin": "OFF",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_doublewrite": "ON",
    "innodb_force_recovery": "0",
    "innodb_use_global_flush_log_at_trx_commit": "OFF",
    "rocksdb_flush_log_at_trx_commit": "2",
    "rocksdb_wal_recovery_mode": "2",
}


def facts(monkeypatch: pytest.MonkeyPatch, options: str = "") -> Any:
    link = RecordedLink(
        {
            "server": [(VERSION, COMMENT, "dbcheck@%")],
            "variables": list(VARIABLES.items()),
            "default_engine": [("ROCKSDB",)],
            "clock": [(20_000_000, 20)],
            "uptime": [("Uptime", "5"), ("Innodb_redo_log_current_lsn", "70")],
        }
    )
    monkeypatch.setattr(MysqlEngine, "_open", lambda *_, **__: link)
    return MysqlEngine(f"mysql://dbcheck@db1/dbcheck{options}").facts()


def test_it_is_a_mysql_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_product(VERSION, COMMENT) == ("MySQL", (8, 0, 46))
    found = facts(monkeypatch)
    assert (found.product, found.version) == ("MySQL", "8.0.46")
    assert found.identity["server_uuid"] == VARIABLES["server_uuid"]
    assert not found.settings.keys() & {SERVICE, TABLES}


def test_its_own_flush_variable_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = facts(monkeypatch).settings
    (rule,) = [rule for rule in RULES if rule.id == "my-global-flush-log"]
    assert judge_rule(rule, settings) is RuleStatus.UNSAFE
    # MyRocks' setting bears on no row in InnoDB.
    assert find_flagged_settings("mysql", settings) == []


def test_tables_in_its_myrocks_hang_on_another_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = facts(monkeypatch, "?storage_engine=rocksdb")
    (finding,) = find_flagged_settings("mysql", found.settings)
    assert finding.rule.id == "my-rocksdb-flush-log"
    assert found.log is None  # InnoDB's log says nothing of them
    # What other clients' tables get, and not what dbcheck's sessions set.
    assert found.settings["default_storage_engine"] == "ROCKSDB"
