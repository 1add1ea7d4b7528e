"""The accounts of docs/privileges.md: enough for everything, and nothing too much."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mysql.connector.connection
import psycopg2
import pytest
import sqlalchemy.engine

from dbcheck.campaign import observable
from dbcheck.campaign.preflight import preflight
from dbcheck.core.evidence import Standing, same_server
from dbcheck.core.plans.insert import INSERT, InsertPlan
from dbcheck.core.plans.kinds import PlanKind
from dbcheck.core.plans.registry import statements_of, tables_of
from dbcheck.core.schedule import Schedule
from dbcheck.core.table import LEDGER
from dbcheck.engines.registry import open_engine
from dbcheck.errors import EngineError
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load.commit import commit
from dbcheck.ports.engine import Engine
from tests.kit.operations import CLASSICS
from tests.real.rigs import SEED, Said, quick, rig_by_hand
from tests.real.servers import NewServer

DOCUMENT = Path(__file__).parents[2] / "docs" / "privileges.md"
SECTIONS = {"postgresql": "PostgreSQL", "mariadb": "MariaDB", "mysql": "MySQL"}
# The lab's own account is called dbcheck too, so the document's gets another name.
ACCOUNT = "least"
CHECKPOINT_ROLE = 15  # PostgreSQL's first major version that has pg_checkpoint
PRIVILEGES = ("select", "insert", "create", "drop")


def statements(name: str, *, optional: bool = False) -> list[str]:
    """Return the SQL statements of a section of the document."""
    text = DOCUMENT.read_text("utf-8")
    section = text.split(f"\n## {SECTIONS[name]}\n")[1].split("\n## ")[0]
    required, _, rest = section.partition("\n### Optional\n")
    blocks = re.findall(r"```sql\n(.*?)```", rest if optional else required, re.S)
    return [line for block in blocks for line in block.splitlines()]


def connect(server: DatabaseServer, database: str) -> Any:
    """Return a connection, in autocommit mode, of the account that may do it all."""
    url = sqlalchemy.engine.make_url(server.url)
    connection: Any
    if server.name == "postgresql":
        connection = psycopg2.connect(
            host=url.host,
            port=url.port,
            user=url.username,
            dbname=database,
            password=server.password,
        )
    else:
        connection = mysql.connector.connection.MySQLConnection(
            host=url.host,
            port=url.port,
            user=url.username,
            database=database,
            password=server.password,
        )
    connection.autocommit = True
    return connection


class Least:
    """A server with the document's account, created statement by statement."""

    def __init__(self, server: DatabaseServer) -> None:
        self.server = server
        self.password = secrets.token_urlsafe(12)
        self.connection = connect(
            server, sqlalchemy.engine.make_url(server.url).database or ""
        )
        self.url = sqlalchemy.engine.make_url(server.url).set(
            username=ACCOUNT, database="dbcheck"
        )
        if server.name != "postgresql":
            self.execute("drop database dbcheck")

    def execute(self, statement: str) -> None:
        """Run a statement as the administrator."""
        self.connection.cursor().execute(statement)

    def run(self, statement: str) -> None:
        """Run a statement of the document, for the account under its other name."""
        text = statement.replace("CHANGE-ME", self.password)
        text = text.replace("dbcheck@'%'", f"{ACCOUNT}@'%'")
        text = text.replace("role dbcheck", f"role {ACCOUNT}")
        self.execute(re.sub("(to|from) dbcheck;", rf"\1 {ACCOUNT};", text))

    def engine(self) -> Engine:
        return open_engine(self.url.render_as_string(), self.password)

    def refusal(self) -> EngineError:
        with pytest.raises(EngineError) as caught:
            self.engine().check((INSERT,))
        return caught.value


@pytest.fixture
def new_least(new_server: NewServer) -> Iterator[Callable[[str], Least]]:
    """Make an account of the document's name for it, on a fresh server."""
    made: list[Least] = []

    def make(name: str) -> Least:
        server = new_server(name)
        server.start()
        made.append(Least(server))
        return made[-1]

    yield make
    for one in made:
        one.connection.close()


@pytest.fixture(params=sorted(SECTIONS))
def least(request: pytest.FixtureRequest, new_least: Callable[[str], Least]) -> Least:
    return new_least(request.param)


def test_the_documented_account_is_enough(least: Least) -> None:
    for statement in statements(least.server.name):
        least.run(statement)
    engine = least.engine()
    assert engine.ready() is None
    server = engine.facts()
    for plan in (InsertPlan(Schedule(1, 2, (1, 5000))), CLASSICS):
        (table,) = plan.tables
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
    same = same_server(facts.identity, engine.facts().identity)
    assert same.standing is Standing.PRESENT
    assert observable.checkpoint(engine)
    if least.server.name == "postgresql":
        assert facts.unreadable.keys() == {"data_directory"}
        has_role = int(facts.version.split(".")[0]) >= CHECKPOINT_ROLE
        for statement in statements("postgresql", optional=True):
            if has_role or "pg_checkpoint" not in statement:
                least.run(statement)
        assert bool(observable.checkpoint(least.engine())) is not has_role
        assert "data_directory" in least.engine().facts().identity
    if least.server.name == "mysql":
        assert observable.logged(engine, 0) is None
        for statement in statements("mysql", optional=True):
            least.run(statement)
        assert observable.logged(least.engine(), 0) is not None
    assert {"dbcheck.fs", "dbcheck.ledger"} <= set(engine.drop())


def test_a_plan_that_updates_needs_one_more_grant(least: Least) -> None:
    """On PostgreSQL the account owns its tables, which is enough."""
    for line in statements(least.server.name):
        least.run(line)
    wanted = statements_of(PlanKind.REGISTERS)
    if least.server.name != "postgresql":
        with pytest.raises(EngineError, match=r"lacks UPDATE on dbcheck\.register"):
            least.engine().check(wanted)
        for line in statements(least.server.name, optional=True):
            if line.startswith("grant update"):
                least.run(line)
    least.engine().check(wanted)
    assert set(least.engine().prepare(tables_of(PlanKind.REGISTERS))) == {
        "ledger",
        "register",
    }


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
    least.engine().check((INSERT,))


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
    least.engine().check((INSERT,))


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
    least.engine().check((INSERT,))
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
    with contextlib.closing(connect(least.server, "dbcheck")) as connection:
        for words in ("USAGE", "SELECT", "ownership"):
            error = least.refusal()
            assert words in str(error)
            connection.cursor().execute(error.hint.removeprefix("Run: "))
    least.engine().check((INSERT,))


def test_what_the_account_cannot_read_is_said(
    new_least: Callable[[str], Least], tmp_path: Path
) -> None:
    least = new_least("postgresql")
    for statement in statements("postgresql"):
        least.run(statement)
    said = Said()
    rig = rig_by_hand(least.engine(), tmp_path, said)
    with contextlib.closing(rig.witness):
        preflight(rig, quick(), SEED).log.close()
    assert (
        "data_directory cannot be read: the account lacks the role pg_read_all"
        in said.text
    )
    assert "no checkpoint: " in said.text
