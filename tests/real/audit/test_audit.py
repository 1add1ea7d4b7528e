"""The audit of real servers on real storage, and what a cut makes of its findings."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dbcheck.audit.result import AuditResult
from dbcheck.base.error_ids import ErrorId
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE
from dbcheck.config.workload_file import load
from dbcheck.cycle.preflight.audit import audit_server
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import open_host
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.audited import Flag, RuleStatus, Severity
from dbcheck.model.verdict import Verdict
from dbcheck.ports.engine import Engine
from dbcheck.remote.way import LOCAL
from dbcheck.rows.plans.registry import tables_of
from dbcheck.runner.matrix_cycles import RowResults, run_in_labs
from dbcheck.runner.receipts import find_receipt, make_receipt_result
from tests.kit.accounts import Least, statements
from tests.kit.accounts import new_least as new_least
from tests.kit.labs import lab_of
from tests.kit.rigs import Said
from tests.kit.servers import NewServer, engine_of
from tests.kit.users import DBCHECK
from tools.docs.schema import FOLDER

TABLES = tables_of(load("insert"))
ENGINES = ("postgresql", "mariadb", "mysql")
# What the honest defaults of MySQL are warned of is true: docs/findings.md.
ALARMS = {"mysql": {"my-doublewrite-not-flushed"}}


def audited(lab: Lab) -> AuditResult:
    engine = open_engine(lab.target_url, lab.password)
    host = open_host(lab.host_url, lab.ssh)
    with contextlib.closing(host):
        return audit_server(engine, host, TABLES, "")


def alarms(result: AuditResult) -> set[str]:
    """Return the rules that are not met, and claim more than a note."""
    return {
        each.rule
        for each in result.findings
        if each.status is RuleStatus.UNSAFE and each.severity is not Severity.NOTE
    }


def unknown(result: AuditResult) -> set[str]:
    found = (f for f in result.findings if f.status is RuleStatus.UNKNOWN)
    return {each.rule for each in found}


# ------------------------------------------------------------- storage of labs


@pytest.mark.wide_with("ext4")
@pytest.mark.root
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_honest_defaults_raise_no_alarm(
    engine: str, filesystem: str, tmp_path: Path
) -> None:
    with lab_of(LabSpec(engine, filesystem=filesystem), tmp_path) as lab:
        result = audited(lab)
    assert alarms(result) == ALARMS.get(engine, set())
    assert unknown(result) == set()
    assert result.safe > 40
    drives = [each for each in result.subjects if each.kind.value == "drive"]
    assert [each.facts["flushes"].value for each in drives] == ["sent"]


@pytest.mark.root
def test_a_drive_without_a_volatile_cache_leaves_mysql_without_a_warning(
    tmp_path: Path,
) -> None:
    """A loop device's cache is volatile in any case, so fsync stands for it here."""
    spec = LabSpec("mysql", settings={"innodb_flush_method": "fsync"})
    with lab_of(spec, tmp_path) as lab:
        assert alarms(audited(lab)) == set()


@pytest.mark.root
def test_a_lying_drive_passes_the_audit(tmp_path: Path) -> None:
    """It says what an honest one says; the report says that only a cut finds it."""
    lying = LabSpec("postgresql", drive=DriveSpec(personality="lying"))
    with lab_of(lying, tmp_path) as lab:
        assert alarms(audited(lab)) == set()


@pytest.mark.root
@pytest.mark.parametrize(
    ("rule", "spec"),
    [
        ("fs-barrier", LabSpec("postgresql", "drive", "ext4", "barrier=0")),
        ("drive-not-flushed", LabSpec("mariadb", write_cache="write through")),
        (
            "my-redo-on-another-drive",
            LabSpec(
                "mariadb",
                settings={"innodb_flush_method": "O_DIRECT_NO_FSYNC"},
                log_drive=True,
            ),
        ),
    ],
)
def test_storage_that_loses_is_named(rule: str, spec: LabSpec, tmp_path: Path) -> None:
    with lab_of(spec, tmp_path) as lab:
        found = alarms(audited(lab))
    assert found - {"my-flush-method"} == {rule}


@pytest.mark.root
def test_a_log_on_the_drive_of_the_data_is_no_log_apart(tmp_path: Path) -> None:
    settings = {"innodb_flush_method": "O_DIRECT_NO_FSYNC"}
    with lab_of(LabSpec("mariadb", settings=settings), tmp_path) as lab:
        assert alarms(audited(lab)) == {"my-flush-method"}


# ------------------------------------------------------------- receipts


RECEIPTS = [
    "pg-fsync",
    "pg-synchronous-commit",
    "pg-full-page-writes",
    "my-flush-log-at-trx-commit",
    "my-flush-method",
    "my-redo-on-another-drive",
    "my-doublewrite",
    "my-sync-binlog",
    "fs-barrier",
    "drive-not-flushed",
]


@pytest.mark.wide_with(
    "my-doublewrite",
    "my-flush-log-at-trx-commit",
    "my-flush-method",
    "my-redo-on-another-drive",
    "pg-full-page-writes",
)
@pytest.mark.root
@pytest.mark.timeout(900)  # some lose in one cut of six
@pytest.mark.parametrize("rule", RECEIPTS)
def test_what_a_rule_claims_is_named_without_a_cut_and_lost_in_one(
    rule: str, tmp_path: Path
) -> None:
    found = find_receipt(rule, 1)
    rows = [row for row in found.rows if row.lab and not list_missing(row.lab)]
    assert rows, "no server of the rows is installed"
    measured = list(map(RowResults, rows))
    run_in_labs(measured, 1, Said(), tmp_path)
    for one in measured:
        shown = make_receipt_result(found.rule, one)
        assert (shown.named, shown.error) == (True, ""), shown
        assert shown.lost and one.outcomes[-1].verdict is Verdict.FAIL


# ------------------------------------------------------------- servers


def run(engine: Any, *statements: str) -> None:
    where = () if engine.family == "postgresql" else ("dbcheck",)
    with engine._open(*where) as link:
        cursor = link.connection.cursor()
        for statement in statements:
            cursor.execute(statement)


def started(name: str, new_server: NewServer) -> Any:
    server = new_server(name)
    server.start()
    return engine_of(server)


def of_server(engine: Engine) -> dict[tuple[str, str], RuleStatus]:
    """Return what is found of a server: rule and subject -> status."""
    result = audit_server(engine, None, TABLES, "")
    return {
        (each.rule, each.subject): each.status
        for each in result.findings
        if each.subject_kind.value == "server"
    }


def test_what_is_set_for_a_role_and_a_database_is_found(
    postgresql_server: DatabaseServer,
) -> None:
    engine = engine_of(postgresql_server)
    run(
        engine,
        "create role audited_role",
        "alter role audited_role set synchronous_commit = off",
        "alter role audited_role in database postgres set synchronous_commit = off",
        "alter role audited_role set zero_damaged_pages = on",
        "create unlogged table public.audited_unlogged (id int)",
    )
    try:
        found = of_server(engine)
    finally:
        run(engine, "drop table public.audited_unlogged", "drop owned by audited_role")
        run(engine, "drop role audited_role")
    role = "role audited_role"
    assert found[("pg-synchronous-commit", role)] is RuleStatus.UNSAFE
    in_database = f"{role} in database postgres"
    assert found[("pg-synchronous-commit", in_database)] is RuleStatus.UNSAFE
    assert found[("pg-zero-damaged-pages", role)] is RuleStatus.UNSAFE
    assert found[("pg-unlogged-tables", "this database")] is RuleStatus.UNSAFE
    assert not [each for each in of_server(engine) if each[0] != "pg-data-checksums"]


@pytest.mark.parametrize(
    ("command", "is_found"),
    [
        ("test ! -f /a/%f && cp %p /a/%f", True),
        ("cp %p /a/%f && sync /a/%f", False),
        ("pgbackrest --stanza=main archive-push %p", False),
    ],
)
def test_an_archive_command_that_does_not_flush_is_found(
    postgresql_server: DatabaseServer, command: str, is_found: bool
) -> None:
    """With archive_mode off it would not run: the statement is asked with it on."""
    engine: Any = engine_of(postgresql_server)
    text = Path("sql/postgresql/archiver.sql").read_text()
    values = f"('archive_mode', 'on'), ('archive_command', '{command}')"
    view = (
        "create temporary view pg_settings as"
        f" select * from (values {values}) as v(name, setting)"
    )
    with engine._open() as link:
        cursor = link.connection.cursor()
        cursor.execute(view)
        cursor.execute("set search_path = pg_temp, pg_catalog")
        cursor.execute(text)
        found = cursor.fetchall()
    assert found == [("copies without a flush" if is_found else "other",)]


@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_tables_without_durable_commits_are_found(
    name: str, new_server: NewServer
) -> None:
    engine = started(name, new_server)
    run(engine, "create table audited (id int) engine = MyISAM")
    try:
        found = of_server(engine)
    finally:
        run(engine, "drop table audited")
    place = ("my-tables-not-durable", "the server's tables")
    assert found[place] is RuleStatus.UNSAFE
    assert place not in of_server(engine)


@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_an_audit_leaves_nothing_on_the_server(
    name: str, new_server: NewServer
) -> None:
    """A run makes its database, and on MariaDB a mark in the data directory."""
    engine = started(name, new_server)
    run(engine, "drop database dbcheck")
    host = open_host(LOCAL)
    with contextlib.closing(host):
        audit_server(engine, host, TABLES, "")
    with engine._open(None) as link:
        assert link.rows("database", {"database": "dbcheck"}) == []


@pytest.mark.parametrize("name", ENGINES)
def test_the_account_of_the_document_can_audit(
    name: str, new_least: Callable[[str], Least]
) -> None:
    least = new_least(name)
    for statement in statements(name):
        least.run(statement)
    result = audit_server(least.engine(), None, TABLES, "")
    assert alarms(result) == set()
    for each in result.findings:
        if each.status is RuleStatus.UNKNOWN:
            assert each.remedy, each
    assert {"fs-in-memory", "drive-not-flushed"} <= unknown(result)


# ------------------------------------------------------------- the command


def dbcheck(*words: str, server: DatabaseServer) -> subprocess.CompletedProcess[str]:
    password = {"DBCHECK_PASSWORD": server.password}
    return subprocess.run(
        (*DBCHECK, "audit", "--target", server.url, *words),
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **password},
    )


def test_the_command_prints_a_table_its_json_and_sarif(
    postgresql_server: DatabaseServer,
) -> None:
    shown = dbcheck("--target-host", LOCAL, server=postgresql_server)
    assert shown.returncode == 0, shown.stderr
    for text in ("What was looked at", "Only a power cut finds that"):
        assert text in " ".join(shown.stdout.split())
    printed = dbcheck("--json", "--target-host", LOCAL, server=postgresql_server)
    values = json.loads(printed.stdout)
    schema = json.loads((FOLDER / "audit.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(values)
    assert postgresql_server.password not in printed.stdout + shown.stdout
    log = json.loads(dbcheck("--format", "sarif", server=postgresql_server).stdout)
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    known = {rule["id"] for rule in one["tool"]["driver"]["rules"]}
    for each in one["results"]:
        assert each["ruleId"] in known
        assert each["kind"] == ("fail" if each["level"] != "none" else "open")
        assert one["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]


def test_the_exit_code_is_what_fail_on_asks_for(
    postgresql_server: DatabaseServer,
) -> None:
    server = postgresql_server
    assert dbcheck(server=server).returncode == 0
    # Without its host, what the data lie on is not known, which is not safe.
    assert dbcheck("--fail-on", "error", server=server).returncode == 3
    engine = engine_of(server)
    run(engine, "alter role dbcheck set synchronous_commit = off")
    try:
        assert dbcheck("--fail-on", "error", server=server).returncode == 1
        assert dbcheck(server=server).returncode == 0
    finally:
        run(engine, "alter role dbcheck reset synchronous_commit")


def test_a_host_that_cannot_be_read_is_no_success(
    postgresql_server: DatabaseServer, tmp_path: Path
) -> None:
    """Its server is audited; of one host alone, and of several, it is said so."""
    server, nowhere = postgresql_server, "ssh://root@127.0.0.1:1"
    flag = ("--target-host", nowhere)
    for level in ((), ("--fail-on", "error")):
        done = dbcheck("--json", *flag, *level, server=server)
        assert done.returncode == INCONCLUSIVE, done.stderr
        (one,) = json.loads(done.stdout)["targets"]
        assert one["host_error"] and not one["error"] and not one["host"]
        assert ErrorId(one["host_error_id"]) and not one["error_id"]
        assert one["safe"] > 20
        assert "fs-in-memory" in {each["rule"] for each in one["findings"]}
    shown = dbcheck(*flag, server=server)
    assert shown.returncode == INCONCLUSIVE
    _, title, headline, *_ = shown.stdout.splitlines()
    assert server.url in title and "host" in headline
    assert one["host_error_id"] in shown.stdout
    engine = engine_of(server)
    run(engine, "alter role dbcheck set synchronous_commit = off")
    try:
        done = dbcheck("--fail-on", "error", *flag, server=server)
        assert done.returncode == FAIL, done.stderr
    finally:
        run(engine, "alter role dbcheck reset synchronous_commit")
    log = json.loads(dbcheck("--format", "sarif", *flag, server=server).stdout)
    assert not log["runs"][0]["invocations"][0]["executionSuccessful"]

    also = server.url.replace("+psycopg2", "", 1)  # one server as two targets
    assert also != server.url
    read = {"ansible_connection": "local", "dbcheck_target": server.url}
    unread = {"ansible_host": "127.0.0.1", "ansible_port": 1, "dbcheck_target": also}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {"db1": read, "db2": unread}}}))
    done = subprocess.run(
        (*DBCHECK, "audit", "--inventory", str(inventory), "--all", "--json"),
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "DBCHECK_PASSWORD": server.password},
    )
    assert done.returncode == INCONCLUSIVE, done.stderr
    errors = [bool(one["host_error"]) for one in json.loads(done.stdout)["targets"]]
    assert errors == [False, True]


def test_a_server_that_does_not_answer_is_named_and_the_others_audited(
    postgresql_server: DatabaseServer, tmp_path: Path
) -> None:
    server = postgresql_server
    closed = server.url.replace(str(server.port), "1")
    hosts = {"up": {"dbcheck_target": server.url}, "down": {"dbcheck_target": closed}}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    done = subprocess.run(
        (*DBCHECK, "audit", "--inventory", str(inventory), "--all", "--json"),
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "DBCHECK_PASSWORD": server.password},
    )
    assert done.returncode == INCONCLUSIVE, done.stderr
    targets = {each["name"]: each for each in json.loads(done.stdout)["targets"]}
    up, down = targets["up"], targets["down"]
    assert not up["error"] and up["safe"] > 20
    (unseen, *_) = (f for f in up["findings"] if f["rule"] == "fs-in-memory")
    assert "cannot reach up" in unseen["unread"]  # its name is no host's here
    assert "refused" in down["error"] and down["findings"] == []
    assert (up["error_id"], down["error_id"]) == ("", "connection-failed")
    nothing_read = subprocess.run(
        (*DBCHECK, "audit", "--target", closed), capture_output=True, text=True
    )
    assert nothing_read.returncode == FAILED, nothing_read.stderr


# ------------------------------------------------------------- beside a run


def test_a_flag_reads_as_a_sentence() -> None:
    flag = Flag(
        "fs-barrier",
        Severity.ERROR,
        RuleStatus.UNSAFE,
        *("data (/d)", "mount option barrier", "nobarrier"),
    )
    assert str(flag) == (
        "error fs-barrier: mount option barrier is nobarrier (data (/d))"
    )
