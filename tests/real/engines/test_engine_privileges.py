"""The accounts of `dbcheck grants`: enough for everything, and nothing too much."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.config.workload_file import load
from dbcheck.cycle.preflight.before_load import require_server, run_preflight
from dbcheck.engines.link import NOT_GRANTED
from dbcheck.engines.registry import open_engine
from dbcheck.inventory.entry import Entry
from dbcheck.load.sessions import commit
from dbcheck.model.cluster import Weakens
from dbcheck.model.server import CheckOutcome
from dbcheck.ports.engine import Engine
from dbcheck.probe.measure_flushes import probe_flushes
from dbcheck.report.console import make_progress_console
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.operation import Usage, list_verbs_by_table
from dbcheck.rows.plans.plan import InsertPlan
from dbcheck.rows.plans.registry import plan_of, usage_of
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER
from dbcheck.rows.tasks import KINDS, TaskKind
from dbcheck.runner.matrix_cycles import RowResults, run_on_target
from dbcheck.runner.matrix_rows import read_matrix
from tests.kit.accounts import (
    ACCOUNT,
    PRODUCTS,
    USAGE,
    Least,
    connect,
    granted,
    statements,
)
from tests.kit.accounts import new_least as new_least
from tests.kit.cases import is_same
from tests.kit.operations import CLASSICS
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Said, quick, rig_by_hand

CHECKPOINT_ROLE = 15  # PostgreSQL's first major version that has pg_checkpoint
PAGES_CHECK = 14  # the first with verify_heapam()
PRIVILEGES = ("select", "insert", "create", "drop")


def major_version(engine: Engine) -> int:
    return int(engine.facts().version.split(".")[0])


@pytest.fixture(params=sorted(PRODUCTS))
def least(request: pytest.FixtureRequest, new_least: Callable[[str], Least]) -> Least:
    return new_least(request.param)


@pytest.mark.wide_with("mysql")
def test_the_documented_account_is_enough(least: Least) -> None:
    for statement in statements(least.server.name):
        least.run(statement)
    engine = least.engine()
    assert engine.ready() is None
    server = engine.facts()
    for plan in (InsertPlan(Schedule(1, 2, (1, 5000))), CLASSICS):
        (table,) = plan.tables
        engine.require_rights(Usage(list_verbs_by_table(plan.statements)))
        engine.check(plan.statements)
        unmade = engine.places(plan.tables)
        engine.prepare(plan.tables, server=server)
        assert len(engine.places(plan.tables)) >= len(unmade)
        assert unmade or least.server.name == "postgresql"
        engine.check(plan.statements)
        session = engine.open_session(plan.statements, server=server)
        row_id = commit(session, plan.operation(1, 1))
        session.close()
        assert engine.row(table, row_id)
        found = engine.survivors(plan.tables, server=server)
        assert [(whose, len(batch)) for whose, batch in found] == [(table, 1)]
    facts = engine.facts()
    assert is_same(facts.identity, engine.facts().identity)
    assert engine.checkpoint()
    if least.server.name == "postgresql":
        assert facts.unreadable.keys() == {"data_directory"}
        check = engine.check_tables((LEDGER,))
        assert check is not None
        assert check.outcome is CheckOutcome.NOT_DONE
        assert (
            "as a superuser run: create extension if not exists amcheck;"
            in check.reason
        )
        has_role = major_version(engine) >= CHECKPOINT_ROLE
        has_pages = major_version(engine) >= PAGES_CHECK
        for statement in statements("postgresql", optional=True):
            if not has_role and "pg_checkpoint" in statement:
                continue
            if has_pages or "verify_heapam" not in statement:
                least.run(statement)
        assert bool(least.engine().checkpoint()) is not has_role
        assert "data_directory" in least.engine().facts().identity
        check = engine.check_tables((LEDGER,))
        assert check is not None
        assert check.outcome is CheckOutcome.SOUND
        checked = "the indexes and pages" if has_pages else "the indexes"
        assert f"nothing wrong with {checked} of ledger" in check.reason
    if least.server.name == "mysql":
        assert engine.logged(0) is None
        for statement in statements("mysql", optional=True):
            least.run(statement)
        assert least.engine().logged(0) is not None
    assert {"dbcheck.fs", "dbcheck.ledger"} <= set(engine.drop())


OPERATIONS = 60  # enough for each kind of a mix
WORKLOADS = ("insert", "mixed", "order-entry", "two-phase", "windows")


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.wide_with("mysql")
def test_a_workload_runs_with_the_rights_of_its_own_list(
    least: Least, workload: str
) -> None:
    """What the load does, its side tables included, and what cleans up."""
    load_of = load(workload)
    for statement in statements(least.server.name, workload=workload):
        least.run(statement)
    engine = least.engine()
    tasks = [k for k in load_of.housekeeping if k not in engine.lacking(KINDS)]
    schedule = Schedule(1, 2, load_of.payload_bytes)
    plan = plan_of(replace(load_of, housekeeping=tuple(tasks)), schedule)
    server = engine.facts()
    require_server(engine, load_of)
    engine.prepare(plan.tables, server=server)
    with contextlib.closing(engine.open_session(plan.statements, server=server)) as one:
        for seq in range(1, OPERATIONS + 1):
            assert commit(one, plan.operation(1, seq))
    if tasks:
        session = engine.open_session(plan.housekeeping_statements, server=server)
        with contextlib.closing(session) as one:
            for seq in range(1, OPERATIONS + 1):
                assert commit(one, plan.operation(HOUSEKEEPING_SESSION, seq))
    require_server(engine, load_of)  # with the tables there
    assert {f"dbcheck.{table.name}" for table in plan.tables} <= set(engine.drop())


@pytest.mark.wide_with("mysql")
def test_all_rights_that_a_workload_lacks_are_named_at_once(
    least: Least, tmp_path: Path
) -> None:
    """By each way to a load: the hint makes the account one that may run it."""
    name = least.server.name
    for statement in granted(name, "two-phase").create:
        least.run(statement)
    rights = [r for r in granted(name, "mixed", control=True).rights if r.is_required]
    rig = rig_by_hand(least.engine(), tmp_path, Said())
    with (
        contextlib.closing(rig.witness),
        refused(ErrorId.PRIVILEGE_MISSING, EngineError) as caught,
    ):
        run_preflight(rig, load("mixed"), SEED, control=True)
    given = caught.value.hint.removeprefix("Run: ").replace("`", "").split("; ")
    wanted = {right.statement.split(" to ")[0] for right in rights if not right.only}
    assert {each.split(" to ")[0] for each in given} == wanted
    for statement in given:
        least.execute(statement)
    least.engine().require_rights(usage_of(load("mixed")), control=Weakens.FLUSH)


def test_a_probe_of_flushes_names_the_rights_before_it_asks_the_host(
    new_least: Callable[[str], Least],
) -> None:
    least = new_least("postgresql")
    for statement in granted("postgresql").create:
        least.run(statement)
    unasked: Any = None
    with refused(ErrorId.PRIVILEGE_MISSING, EngineError) as caught:
        probe_flushes(least.engine(), unasked, 30, SEED, "")
    for statement in caught.value.hint.removeprefix("Run: ").split("; "):
        least.execute(statement)
    usage = Usage(list_verbs_by_table(InsertPlan.statements))
    least.engine().require_rights(usage, asks_host=True)


def test_a_matrix_names_the_rights_of_each_row_and_cuts_nothing(
    new_least: Callable[[str], Least], tmp_path: Path
) -> None:
    least = new_least("mariadb")
    for statement in statements("mariadb"):
        least.run(statement)
    matrix = read_matrix(
        None, ["workload=mixed,registers", "relaxed=true"], target=True, seed=SEED
    )
    measured = [RowResults(row) for row in matrix.rows]
    said = Said()
    rig = rig_by_hand(least.engine(), tmp_path, said)
    with contextlib.closing(rig.witness):
        run_on_target(
            measured, rig, SEED, PlainProgress(make_progress_console()), Entry("", "")
        )
    assert [row.error_id for row in measured] == [ErrorId.PRIVILEGE_MISSING] * 2
    for row, privileges in zip(measured, ("update, delete", "update"), strict=True):
        assert f"grant {privileges} on `dbcheck`.*" in row.error
        assert "grant super on *.*" in row.error
    assert not rig.runs.exists()


@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_listing_prepared_transactions_takes_one_more_grant_on_mysql(
    new_least: Callable[[str], Least], name: str
) -> None:
    least = new_least(name)
    for line in statements(name):
        least.run(line)
    engine, two_phase = least.engine(), replace(USAGE, prepares=True)
    if name == "mysql":
        with refused(
            ErrorId.PRIVILEGE_MISSING, EngineError, naming="cannot list prepared"
        ) as caught:
            engine.require_two_phase(1, weak=False)
        grant = caught.value.hint.removeprefix("Run: ").rstrip(";")
        assert grant == "grant xa_recover_admin on *.* to 'least'@'%'"
        documented = grant.replace("'least'", "dbcheck") + ";"
        assert documented in statements(name, optional=True)
        with refused(
            ErrorId.PRIVILEGE_MISSING, EngineError, naming="lacks XA_RECOVER_ADMIN"
        ):
            engine.require_rights(two_phase)
        least.execute(grant)
    engine.require_rights(two_phase)
    engine.require_two_phase(1, weak=False)


def test_the_tasks_of_an_account_are_known(least: Least) -> None:
    """Those that it may not do are named with what it lacks; then it may."""
    name = least.server.name
    for line in statements(name):
        least.run(line)
    engine = least.engine()
    never: set[TaskKind] = {
        "postgresql": set[TaskKind](),
        "mariadb": {TaskKind.VACUUM, TaskKind.ROTATE},
        "mysql": {TaskKind.VACUUM},
    }[name]
    has_role = name != "postgresql" or major_version(least.engine()) >= CHECKPOINT_ROLE
    if not has_role:
        never.add(TaskKind.CHECKPOINT)
    lacking = engine.lacking(KINDS)
    granted = {TaskKind.CHECKPOINT, TaskKind.ROTATE}
    if name != "postgresql":
        granted |= {TaskKind.REWRITE, TaskKind.INDEX}
    assert set(lacking) == granted | never
    assert all("grant " in lacking[kind] for kind in granted - never)
    grants = {"switch", "alter", "reload"} | ({"checkpoint"} if has_role else set())
    for line in statements(name, optional=True):
        if any(word in line for word in grants):
            least.run(line)
    again = least.engine()
    assert set(again.lacking(KINDS)) == never


def test_each_grant_that_is_left_out_is_named(least: Least) -> None:
    lines = statements(least.server.name)
    grants = [line for line in lines if line.startswith("grant ")]
    for line in lines:
        if line not in grants:
            least.run(line)
    for left_out in grants:
        others = [line for line in grants if line != left_out]
        for line in others:
            least.run(line)
        what, _, where = left_out.removeprefix("grant ").partition(" on ")
        hint = least.refusal().hint.replace("`", "")
        assert f"grant {what} on {where.split(' to ')[0]} to " in hint
        for line in others:
            least.run(line.replace("grant ", "revoke ").replace(" to ", " from "))
    for line in grants:
        least.run(line)
    least.engine().require_rights(USAGE)


def test_each_privilege_that_is_missing_is_named(
    new_least: Callable[[str], Least],
) -> None:
    least = new_least("mariadb")
    for statement in statements("mariadb"):
        least.run(statement)
    for privilege in PRIVILEGES:
        least.execute(f"revoke {privilege} on dbcheck.* from {ACCOUNT}@'%'")
        error = least.refusal()
        assert privilege.upper() in str(error)
        assert error.hint == f"Run: grant {privilege} on `dbcheck`.* to 'least'@'%';"
        least.execute(error.hint.removeprefix("Run: ").rstrip(";"))
    least.engine().require_rights(USAGE)


@pytest.mark.parametrize(
    ("name", "monitor", "default"),
    [
        ("mariadb", "slave monitor", "writers for"),
        ("mysql", "replication client", "writers to"),
    ],
)
def test_privileges_may_come_by_a_role(
    new_least: Callable[[str], Least], name: str, monitor: str, default: str
) -> None:
    least = new_least(name)
    for statement in statements(name):
        least.run(statement)
    for statement in (
        f"revoke all privileges, grant option from {ACCOUNT}@'%'",
        "create role writers",
        "grant select, insert, create, drop on dbcheck.* to writers",
        f"grant {monitor} on *.* to {ACCOUNT}@'%'",
        f"grant writers to {ACCOUNT}@'%'",
    ):
        least.execute(statement)
    assert "SELECT" in str(least.refusal())  # the role is not active yet
    least.execute(f"set default role {default} {ACCOUNT}@'%'")
    least.engine().require_rights(USAGE)
    least.engine().prepare((LEDGER,))


def test_the_tables_of_another_account_need_more(
    new_least: Callable[[str], Least],
) -> None:
    """On PostgreSQL the schema may be there already, and not be ours."""
    least = new_least("postgresql")
    for statement in statements("postgresql"):
        least.run(statement)
    url = least.url.set(username="dbcheck").render_as_string()
    owner = open_engine(url, least.server.password)
    owner.prepare((LEDGER,))
    error = least.refusal()
    for words in ("USAGE", "SELECT", "ownership"):
        assert words in str(error)
    with contextlib.closing(connect(least.server, "dbcheck")) as connection:
        connection.cursor().execute(error.hint.removeprefix("Run: "))
    least.engine().require_rights(USAGE)


def test_what_the_account_cannot_read_is_said(
    new_least: Callable[[str], Least], tmp_path: Path
) -> None:
    least = new_least("postgresql")
    for statement in statements("postgresql"):
        least.run(statement)
    said = Said()
    rig = rig_by_hand(least.engine(), tmp_path, said)
    with contextlib.closing(rig.witness):
        run_preflight(rig, quick(), SEED).log.close()
    assert (
        "data_directory cannot be read: the account lacks the role pg_read_all"
        in said.text
    )
    assert "no checkpoint: " in said.text


@pytest.mark.wide_with("mysql")
def test_a_statement_that_is_denied_leads_to_the_list(least: Least) -> None:
    """As `clean`, whose account has lost a right since the run."""
    name = least.server.name
    for statement in statements(name):
        least.run(statement)
    least.engine().prepare((LEDGER,))
    if name == "postgresql":
        with contextlib.closing(connect(least.server, "dbcheck")) as connection:
            connection.cursor().execute("alter schema dbcheck owner to dbcheck")
    else:
        least.execute(f"revoke drop on dbcheck.* from {ACCOUNT}@'%'")
    with refused(ErrorId.STATEMENT_FAILED, EngineError) as caught:
        least.engine().drop()
    assert caught.value.hint == NOT_GRANTED
