"""What relaxed sessions need of a server, and what they change there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.config.workload_file import load
from dbcheck.cycle.cycle import run_control
from dbcheck.cycle.preflight.before_load import require_server
from dbcheck.cycle.rig import Rig
from dbcheck.engines.mysql.durability import TABLE
from dbcheck.engines.mysql.places import ENGINES as STORAGE
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load.sessions import commit
from dbcheck.model.cluster import Weakens
from dbcheck.ports.engine import Engine
from dbcheck.power.kinds.manual import ManualConfig, ManualSwitch
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from tests.kit.accounts import ACCOUNT, USAGE, Least, connect, statements
from tests.kit.accounts import new_least as new_least
from tests.kit.nodes import site_of
from tests.kit.operations import insert
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Said, quick
from tests.kit.servers import engine_of
from tests.kit.sessions import run_on
from tests.real.cycle.weak import weak_session

SETTING = STORAGE["innodb"].flush_log


class Administrator:
    """Looks at a MariaDB or MySQL over a connection of its own."""

    def __init__(self, server: DatabaseServer) -> None:
        self._server = server

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        with contextlib.closing(connect(self._server, "dbcheck")) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.with_rows else []

    @property
    def flush_log(self) -> object:
        return self.execute(f"select @@global.{SETTING}")[0][0]

    @property
    def tables(self) -> set[object]:
        return {row[0] for row in self.execute("show tables")}


@pytest.fixture(params=["mariadb", "mysql"])
def innodb_server(request: pytest.FixtureRequest) -> DatabaseServer:
    """MariaDB and MySQL in turn."""
    running: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    return running


@pytest.fixture
def innodb(innodb_server: DatabaseServer) -> Engine:
    engine = engine_of(innodb_server)
    engine.drop()
    return engine


def test_a_relaxed_session_of_postgresql_alone_is_relaxed(
    postgresql_server: DatabaseServer,
) -> None:
    engine = engine_of(postgresql_server)
    engine.prepare((LEDGER,))
    said = engine.weaken_durability(process=False)
    assert said == "synchronous_commit = off (else on) in its own sessions"
    shown: dict[bool, str] = {}
    for relaxed in (False, True):
        session = weak_session(engine) if relaxed else engine.open_session((INSERT,))
        try:
            row = Schedule(1, 1 + relaxed, (10,)).row(1, 1)
            assert commit(session, insert(row)) > 0
            ((shown[relaxed],),) = run_on(session, "show synchronous_commit")
        finally:
            session.close()
    assert shown == {False: "on", True: "off"}
    assert engine.facts().settings["synchronous_commit"] == "on"
    assert engine.restore_durability() is None
    engine.drop()


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize(
    ("innodb_server", "process", "value"),
    [("mariadb", True, 0), ("mysql", True, 0), ("mysql", False, 2)],
    indirect=["innodb_server"],
)
def test_a_server_is_relaxed_and_put_back(
    innodb: Engine, innodb_server: DatabaseServer, process: bool, value: int
) -> None:
    look = Administrator(innodb_server)
    innodb.prepare((LEDGER,))
    with refused(ErrorId.CONTROL_UNDONE, EngineError, naming="is 1"):
        weak_session(innodb)
    require_server(innodb, load("insert"), Weakens.FLUSH)
    # MySQL has a binary log, by default, on whose flush a commit hangs as well.
    both = innodb_server.name == "mysql"
    said = innodb.weaken_durability(process=process)
    changes = f"{SETTING} = {value} (was 1)" + ", sync_binlog = 0 (was 1)" * both
    assert said == f"{changes} on the whole server until the cut"
    assert look.flush_log == value
    weak_session(innodb).close()
    elsewhere = engine_of(innodb_server)  # all that another client knows
    said = f"{SETTING} is 1 again; a control had set it to {value}"
    said += ", sync_binlog is 1 again; a control had set it to 0" * both
    assert elsewhere.restore_durability() == said
    assert look.flush_log == 1
    assert "relaxed" not in look.tables
    assert innodb.restore_durability() is None


@pytest.mark.wide_with("mysql")
def test_what_somebody_else_set_meanwhile_is_left(
    innodb: Engine, innodb_server: DatabaseServer
) -> None:
    look = Administrator(innodb_server)
    innodb.prepare((LEDGER,))
    innodb.weaken_durability(process=True)
    look.execute(f"set global {SETTING} = 2")
    try:
        assert SETTING not in (innodb.restore_durability() or "")
        assert look.flush_log == 2
        assert "relaxed" not in look.tables
        if innodb_server.name == "mysql":
            look.execute("set global sync_binlog = 0")
        said = innodb.weaken_durability(process=True)
        assert said.startswith(f"{SETTING} is 2")
        assert said.endswith("on the server already; nothing was changed")
        assert "relaxed" not in look.tables
    finally:
        look.execute("set global sync_binlog = 1")
        look.execute(f"set global {SETTING} = 1")


@pytest.mark.wide_with("mysql")
def test_the_note_of_another_server_is_not_ours(
    innodb: Engine, innodb_server: DatabaseServer
) -> None:
    """A replica gets the row, and not the setting."""
    look = Administrator(innodb_server)
    innodb.prepare((LEDGER,))
    innodb.weaken_durability(process=True)
    look.execute(f"update {TABLE} set server = server + 1")
    try:
        assert innodb.restore_durability() is None
        assert look.flush_log == 0
    finally:
        look.execute("set global sync_binlog = 1")
        look.execute(f"set global {SETTING} = 1")


@pytest.mark.wide_with("mysql")
def test_somebody_elses_table_of_that_name_is_respected(
    innodb: Engine, innodb_server: DatabaseServer
) -> None:
    look = Administrator(innodb_server)
    look.execute(f"create table {TABLE} (n int)")
    try:
        innodb.check((INSERT,))
        for start in (
            lambda: require_server(innodb, load("insert"), Weakens.FLUSH),
            lambda: innodb.weaken_durability(process=True),
        ):
            with refused(
                ErrorId.TABLE_OF_OTHERS,
                EngineError,
                naming="was not created by dbcheck",
            ):
                start()
        assert look.flush_log == 1
        assert innodb.restore_durability() is None
        assert innodb.drop() == []
        assert look.tables == {TABLE}
    finally:
        look.execute(f"drop table {TABLE}")


@pytest.mark.wide_with("mysql-system_variables_admin")
@pytest.mark.parametrize(
    ("name", "privilege"),
    [("mariadb", "super"), ("mysql", "system_variables_admin")],
)
def test_without_the_privilege_nothing_is_begun(
    new_least: Callable[[str], Least], tmp_path: Path, name: str, privilege: str
) -> None:
    least = new_least(name)
    for statement in statements(name):
        least.run(statement)
    witness = open_witness(f"file:{tmp_path}/witness", volatile=True)
    switch = ManualSwitch(ManualConfig(), lambda text: None)
    with contextlib.closing(witness):
        rig = Rig(
            site_of(least.engine(), switch),
            witness,
            FrameLogReader(),
            Said(),
            tmp_path / "runs",
            lab={"cut": "drive"},
        )
        with refused(
            ErrorId.PRIVILEGE_MISSING, EngineError, naming=privilege.upper()
        ) as caught:
            run_control(rig, quick(), SEED)
    assert caught.value.hint == f"Run: grant {privilege} on *.* to '{ACCOUNT}'@'%';"
    assert list(tmp_path.iterdir()) == []
    least.engine().require_rights(USAGE)  # no control needs no more than before
    for statement in statements(name, optional=True):
        least.run(statement)
    engine = least.engine()
    require_server(engine, load("insert"), Weakens.FLUSH)
    engine.prepare((LEDGER,))
    assert "(was 1)" in engine.weaken_durability(process=True)
    assert "is 1 again" in str(engine.restore_durability())


def test_the_privilege_on_a_database_is_not_enough(
    new_least: Callable[[str], Least],
) -> None:
    least = new_least("mariadb")
    for statement in statements("mariadb"):
        least.run(statement)
    least.run("grant all on dbcheck.* to dbcheck@'%';")
    with refused(ErrorId.PRIVILEGE_MISSING, EngineError, naming="SUPER"):
        require_server(least.engine(), load("insert"), Weakens.FLUSH)
    least.run("grant all on *.* to dbcheck@'%';")
    require_server(least.engine(), load("insert"), Weakens.FLUSH)


def test_who_may_not_put_it_back_is_told(
    new_least: Callable[[str], Least],
) -> None:
    least = new_least("mariadb")
    for statement in statements("mariadb"):
        least.run(statement)
    url = least.url.set(username="dbcheck").render_as_string()
    may = open_engine(url, least.server.password)
    may.prepare((LEDGER,))
    may.weaken_durability(process=True)
    with refused(ErrorId.PRIVILEGE_MISSING, EngineError, naming="SUPER") as caught:
        least.engine().restore_durability()
    assert "grant super" in caught.value.hint
    assert "is 1 again" in str(may.restore_durability())
