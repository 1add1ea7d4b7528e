"""Managed services: how they are recognised, and what may be claimed of them.

None of them can run here.  What their servers answer is from the providers' documents
(named in model.managed) and from what clients of theirs print.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path
from typing import Any, cast

import pytest

from dbcheck.audit.mysql import RULES
from dbcheck.audit.rules import find_flagged_settings, judge_rule
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.cycle.preflight.before_load import require_failover
from dbcheck.engines.mysql.check import require_known
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.server_end import judge_not_shut_down
from dbcheck.judge.verdict import judge_rows
from dbcheck.model.audited import RuleStatus
from dbcheck.model.cut import DECLARABLE, CutClass, OtherUsers
from dbcheck.model.managed import (
    ALLOYDB,
    AURORA,
    AZURE,
    CLOUD_SQL,
    RDS,
    SERVICE,
    find_service_of_host,
    find_service_of_mysql,
    find_service_of_postgresql,
)
from dbcheck.model.server import (
    ServerFacts,
    explain_unknown_identity,
    find_difference_of_servers,
)
from dbcheck.ports.engine import Engine
from dbcheck.power.kinds.exec import ExecConfig, ExecSwitch
from dbcheck.runner.guard import check_interlocks
from tests.kit.bare_engine import BareEngine
from tests.kit.cases import case
from tests.kit.inventories import loaded
from tests.kit.recorded_servers import RecordedLink
from tests.kit.refusals import refused
from tests.kit.samples import CLEAN, FACTS

GUIDE = Path(__file__).parents[3] / "docs/guides/cloud.md"
SAME = Item(ItemId.SAME_SERVER, Status.PRESENT, "", True)
POSTGRESQL = "PostgreSQL 16.4 on x86_64-pc-linux-gnu, compiled by gcc"


@pytest.mark.parametrize(
    ("host", "service"),
    [
        ("db1.abc123.eu-west-1.rds.amazonaws.com", RDS),
        ("DB1.abc123.EU-WEST-1.rds.amazonaws.com.", RDS),
        ("db1.abc123.rds.cn-north-1.amazonaws.com.cn", ""),
        ("c1.cluster-abc123.eu-west-1.rds.amazonaws.com", AURORA),
        ("c1.cluster-ro-abc123.eu-west-1.rds.amazonaws.com", AURORA),
        ("1a2b.3c4d.europe-west3.sql.goog", CLOUD_SQL),
        ("db1.postgres.database.azure.com", AZURE),
        ("db1.mysql.database.azure.com", AZURE),
        ("rds.amazonaws.com.example.net", ""),
        ("db1", ""),
        ("", ""),
    ],
)
def test_a_host_name_shows_a_service(host: str, service: str) -> None:
    assert find_service_of_host(host) == service


@pytest.mark.parametrize(
    ("settings", "service"),
    [
        ({"rds.force_ssl": "1", "fsync": "on"}, RDS),
        ({"rds.force_ssl": "1", "apg_ccm_enabled": "off"}, AURORA),
        ({"data_directory": "/rdsdbdata/db"}, RDS),
        ({"cloudsql.iam_authentication": "off"}, CLOUD_SQL),
        ({"alloydb.iam_authentication": "off"}, ALLOYDB),
        ({"azure.extensions": ""}, AZURE),
        ({"fsync": "on", "data_directory": "/var/lib/postgresql"}, ""),
    ],
)
def test_settings_of_postgresql_show_a_service(
    settings: dict[str, str], service: str
) -> None:
    assert find_service_of_postgresql(settings) == service


@pytest.mark.parametrize(
    ("variables", "version", "comment", "service"),
    [
        ({"aurora_version": "3.05.2"}, "8.0.32", "Source distribution", AURORA),
        ({"datadir": "/rdsdbdata/db/"}, "8.0.39", "Source distribution", RDS),
        ({"basedir": "/rdsdbbin/mysql-8.0.39.R1/"}, "8.0.39", "", RDS),
        ({}, "8.0.31-google", "(Google)", CLOUD_SQL),
        ({}, "8.0.39-azure", "MySQL Community Server (GPL)", AZURE),
        ({"datadir": "/var/lib/mysql/"}, "8.4.3", "MySQL Community Server - GPL", ""),
        (
            {"datadir": "/var/lib/mysql/"},
            "8.0.46-37",
            "Percona Server (GPL), Release 37, Revision 39e2b60e",
            "",
        ),
    ],
)
def test_variables_of_mysql_show_a_service(
    variables: dict[str, str], version: str, comment: str, service: str
) -> None:
    assert find_service_of_mysql(variables, version, comment) == service


# ------------------------------------------------------------ what the engines read


def postgresql_facts(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], place: str = "db1/orders"
) -> tuple[Any, RecordedLink]:
    """Return the facts of a server with these settings, and what it was asked."""
    link = RecordedLink(
        {
            "facts": [("16.4", "160004", 10, "orders 5", 20, POSTGRESQL, False)],
            "settings": list(settings.items()),
            "cluster": [("7301234567890123456",)],
            "system_identifier": [("7301234567890123456", "00000001")],
        }
    )
    monkeypatch.setattr(PostgresqlEngine, "_open", lambda *_, **__: link)
    return PostgresqlEngine(f"postgresql://db@{place}").facts(), link


def test_a_failover_of_aurora_postgresql_leads_to_the_same_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"rds.force_ssl": "1", "apg_ccm_enabled": "off", "fsync": "on"}
    facts, link = postgresql_facts(monkeypatch, shown)
    # Its servers have no functions that show a position in a log of their own.
    assert "system_identifier" not in link.asked
    assert facts.settings[SERVICE] == AURORA
    assert facts.identity == {
        "server_version_num": "160004",
        "database": "orders 5",
        "system_identifier": "7301234567890123456",
    }
    assert facts.unreadable == {}
    assert explain_unknown_identity(facts.identity, facts.identity) == ""


def test_a_service_is_seen_by_the_url_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    host = "db1.abc.eu-west-1.rds.amazonaws.com"
    facts, _ = postgresql_facts(monkeypatch, {"fsync": "on"}, f"{host}/orders")
    assert facts.settings == {"fsync": "on", SERVICE: RDS}


@pytest.mark.parametrize(
    "host",
    [
        "?host=db2,db1.abc.eu-west-1.rds.amazonaws.com",
        "?host=db1.abc.eu-west-1.rds.amazonaws.com&hostaddr=192.0.2.1",
        "",
    ],
)
def test_a_service_is_seen_by_whatever_names_its_host(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOSTADDR", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PGHOST", "" if host else "db1.abc.eu-west-1.rds.amazonaws.com")
    facts, _ = postgresql_facts(monkeypatch, {"fsync": "on"}, f"/orders{host}")
    assert facts.settings == {"fsync": "on", SERVICE: RDS}


def test_an_option_file_names_the_host_of_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.cnf"
    file.write_text("[client]\nhost=db1.abc.eu-west-1.rds.amazonaws.com\n")
    file.chmod(0o600)
    url = f"mysql://admin@/orders?option_files={file}"
    assert MysqlEngine(url)._service({}, "8.4.0", "") == RDS


def test_a_server_of_ones_own_has_its_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    facts, _ = postgresql_facts(monkeypatch, {"data_directory": "/d"})
    assert SERVICE not in facts.settings
    assert facts.identity["timeline"] == "00000001"
    assert facts.identity["data_directory"] == "/d"


def aurora_mysql(monkeypatch: pytest.MonkeyPatch, hostname: str, uuid: str) -> Any:
    """Return the facts of a server of Aurora MySQL 3."""
    variables = {
        "aurora_version": "3.05.2",
        "hostname": hostname,
        "server_uuid": uuid,
        "datadir": "/rdsdbdata/db/",
        "port": "3306",
        "version": "8.0.32",
        "innodb_flush_log_at_trx_commit": "1",
    }
    link = RecordedLink(
        {
            "server": [("8.0.32", "Source distribution", "admin@%")],
            "variables": list(variables.items()),
            "default_engine": [("InnoDB",)],
            "clock": [(20_000_000, 20)],
            "uptime": [("Uptime", "5")],
            "identity": [("6e5a1c0e-0000-4000-8000-000000000001",)],
        }
    )
    monkeypatch.setattr(MysqlEngine, "_open", lambda *_, **__: link)
    return MysqlEngine("mysql://admin@db1/orders").facts()


def test_a_failover_of_aurora_mysql_leads_to_the_same_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = aurora_mysql(monkeypatch, "ip-10-0-0-1", "uuid-of-one")
    after = aurora_mysql(monkeypatch, "ip-10-0-0-2", "uuid-of-another")
    assert before.settings[SERVICE] == AURORA
    assert before.identity.keys() == {"database", "version", "dbcheck.identity"}
    assert find_difference_of_servers(before.identity, after.identity) == ""
    assert explain_unknown_identity(before.identity, after.identity) == ""


# --------------------------------------------------------------- what is refused


def node(declared: CutClass | None, host: object = None) -> Any:
    """Return a node whose switch is declared to make such cuts."""
    engine = PostgresqlEngine("postgresql://db@db1/orders")
    power = ExecSwitch(ExecConfig(cut=("fail", "over"), declared=declared))
    return type("Node", (), {"engine": engine, "power": power, "host": host})()


MANAGED = dataclasses.replace(FACTS, settings={**FACTS.settings, SERVICE: RDS})
REFUSED = [None, *(CutClass(each) for each in DECLARABLE if each != "failover")]


@pytest.mark.parametrize("declared", REFUSED)
def test_no_other_class_can_be_declared(declared: CutClass | None) -> None:
    with refused(ErrorId.MANAGED_SERVICE_NEEDS_FAILOVER, UsageError) as caught:
        require_failover(node(declared), MANAGED)
    assert "--power-class failover" in caught.value.hint
    require_failover(node(declared), FACTS)  # a server of one's own


def test_no_host_can_be_named() -> None:
    with refused(ErrorId.MANAGED_SERVICE_HAS_NO_HOST, UsageError):
        require_failover(node(CutClass.FAILOVER, host=object()), MANAGED)
    require_failover(node(CutClass.FAILOVER), MANAGED)


class Managed(BareEngine):
    """The engine of such a server, as far as the guard asks it."""

    def endpoints(self) -> list[tuple[str, int]]:
        return []

    def facts(self) -> ServerFacts:
        return MANAGED

    def other_users(self) -> OtherUsers:
        return OtherUsers((), 0)


def test_the_guide_s_inventory_passes_the_guard_as_a_failover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host has no name to expect: any other class of cut is refused for that."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = re.findall(r"(?m)^    all:\n(?:^     .*\n)+", GUIDE.read_text())
    (text,) = [each for each in found if "failover" in each]
    entry = loaded(tmp_path, textwrap.dedent(text)).entry("orders")
    assert entry.host == ""
    engine = cast(Engine, Managed())
    assert check_interlocks(entry, engine, yes=True, i_know=False) == RDS
    plan = dataclasses.replace(cast(ExecConfig, entry.power), declared=CutClass.AC)
    with refused(ErrorId.HOST_NOT_IDENTIFIED, UsageError, naming="hostname"):
        check_interlocks(
            dataclasses.replace(entry, power=plan), engine, yes=True, i_know=False
        )


# --------------------------------------------------------------- what is claimed


@pytest.mark.parametrize("declared", [CutClass.AC, CutClass.UNKNOWN, CutClass.RESET])
def test_a_stored_run_of_one_is_a_failover_whatever_it_says(declared: CutClass) -> None:
    stored = case(facts=MANAGED, cut_class=declared)
    assert stored.cut_class is CutClass.FAILOVER
    assert stored.depths == []
    assert stored.shown_depth is None


def test_a_pass_says_that_it_survived_a_failover() -> None:
    ended = Item(ItemId.NOT_SHUT_DOWN, Status.ABSENT, "it said goodbye", False)
    claim, *details = judge_rows(CLEAN, [SAME, ended], CutClass.FAILOVER).reasons
    assert claim.endswith("survived this forced failover (no power cut was tested)")
    said = "\n".join(details)
    assert "says nothing about a power cut, an operating system or drives" in said
    assert "whether the former server crashed was not seen (it said goodbye)" in said
    assert "was lost" not in f"{claim} {said}"


def test_an_orderly_end_of_the_former_server_is_no_contradiction() -> None:
    after = {
        "facts": dataclasses.replace(MANAGED, started_us=MANAGED.started_us + 9**9)
    }
    shut = case(facts=MANAGED, after={**after, "canary": True})
    item = judge_not_shut_down(shut)
    assert (item.status, item.required) == (Status.ABSENT, False)
    own = case(after={"facts": after["facts"], "canary": True})
    assert judge_not_shut_down(own).status is Status.CONTRADICTED
    same = case(facts=MANAGED, after={"facts": MANAGED, "canary": True})
    assert judge_not_shut_down(same).status is Status.CONTRADICTED


def test_what_aurora_does_not_go_by_is_not_believed() -> None:
    shown = {
        "autocommit": "ON",
        "innodb_flush_log_at_trx_commit": "1",
        "innodb_flush_method": "O_DIRECT_NO_FSYNC",
        "innodb_doublewrite": "OFF",
        "innodb_checksum_algorithm": "none",
        "innodb_force_recovery": "0",
        "log_bin": "OFF",
    }
    unsafe = [f.rule.id for f in find_flagged_settings("mysql", shown)]
    assert unsafe == ["my-flush-method", "my-doublewrite", "my-checksum-algorithm"]
    assert find_flagged_settings("mysql", {**shown, SERVICE: AURORA}) == []
    weak = {**shown, SERVICE: AURORA, "innodb_flush_log_at_trx_commit": "0"}
    (finding,) = find_flagged_settings("mysql", weak)
    assert finding.rule.id == "my-flush-log-at-trx-commit"
    allowed = {SERVICE: AURORA, "innodb_trx_commit_allow_data_loss": "1"}
    (rule,) = [rule for rule in RULES if rule.id == "my-aurora-data-loss"]
    assert judge_rule(rule, allowed) is RuleStatus.UNSAFE


def test_the_provider_s_own_database_is_no_other_user_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = [("rdsadmin",), ("shop",)]
    link = RecordedLink({"others": others, "connections": [(2,)]})
    monkeypatch.setattr(PostgresqlEngine, "_open", lambda *_, **__: link)
    found = PostgresqlEngine("postgresql://db@db1/orders").other_users()
    assert (found.databases, found.connections) == (("shop",), 2)


@pytest.mark.parametrize(
    ("name", "other"),
    [("tidb_txn_mode", "TiDB"), ("ob_query_timeout", "OceanBase")],
)
def test_a_server_that_only_calls_itself_mysql_is_refused(
    name: str, other: str
) -> None:
    # TiDB's version() is a setting of its own (server-version), as 8.0.11 here.
    with refused(ErrorId.SERVER_NOT_SUPPORTED, EngineError, naming=(other, name)):
        require_known({"innodb_flush_log_at_trx_commit": "1", name: "1"})
    require_known({"innodb_flush_log_at_trx_commit": "1"})
