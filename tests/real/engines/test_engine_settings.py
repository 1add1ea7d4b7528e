"""A session whose settings do not hold, and a reading that leaves rows out."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import mysql.connector
import pytest

from dbcheck.audit.rules import RULES
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, TableLost
from dbcheck.config import files
from dbcheck.engines.mysql import link as mysql_link
from dbcheck.engines.mysql import settings as mysql_settings
from dbcheck.engines.postgresql import link as postgresql_link
from dbcheck.engines.postgresql import session as postgresql_session
from dbcheck.engines.postgresql import settings as postgresql_settings
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load.sessions import commit
from dbcheck.model.family import MYSQL, POSTGRESQL, Family
from dbcheck.ports.engine import Engine
from dbcheck.rows.plans.plan import INSERT, Plan
from dbcheck.rows.table import LEDGER
from tests.kit.lab_access import connect
from tests.kit.operations import CLASSICS, INSERTS
from tests.kit.refusals import refused


@pytest.mark.parametrize("plan", [INSERTS, CLASSICS], ids=["insert", "classic"])
def test_rows_that_do_not_arrive_are_not_missing(
    engine: Engine, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something between server and client leaves all but three rows out."""
    engine.prepare(plan.tables)
    session = engine.open_session(plan.statements)
    for seq in range(1, 6):
        commit(session, plan.operation(1, seq))
    session.close()

    def limited(family: str, statement: str) -> str:
        text = files.read_sql(family, statement)
        if not statement.startswith("survivors"):
            return text
        at = ")\n  to stdout" if family == "postgresql" else text
        return text.replace(at, f" limit 3{at}") if at in text[:-1] else f"{at} limit 3"

    for module in (mysql_link, postgresql_link):
        monkeypatch.setattr(module, "read_sql", limited)
    read = 0
    with refused(
        ErrorId.ROWS_READ_INCOMPLETELY, EngineError, naming="counts 5"
    ) as caught:
        for _, batch in engine.survivors(plan.tables):
            read += len(batch)
    assert read == 3
    assert not isinstance(caught.value, TableLost)
    assert caught.value.hint


def test_settings_that_do_not_hold_are_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler gives each statement to another connection of its own."""
    engine.prepare((LEDGER,))

    def nothing(family: str, statement: str) -> str:
        if statement == "session":
            return "select %(settings)s"
        return files.read_sql(family, statement)

    def nowhere(_: Any) -> tuple[str, tuple[str, ...]]:
        return "do 0", ()

    monkeypatch.setattr(postgresql_link, "read_sql", nothing)
    monkeypatch.setattr(postgresql_session, "read_sql", nothing)
    monkeypatch.setattr(mysql_link, "set_statement", nowhere)
    for ask in (engine.facts, lambda: engine.open_session((INSERT,))):
        with refused(
            ErrorId.CONNECTION_NOT_DIRECT, EngineError, naming="although it was set to"
        ) as caught:
            ask()
        assert "without a pooler or proxy" in caught.value.hint


def test_each_harmful_setting_of_a_session_is_one_that_a_session_shows(
    server: DatabaseServer,
) -> None:
    """An account or a database may have another value than the server shows."""
    family = POSTGRESQL if server.name == "postgresql" else MYSQL
    harmful = {rule.fact for rule in RULES[family.name] if rule.harm or rule.harms}
    harmful -= {"autocommit"}  # each session of the load begins its own transactions
    with contextlib.closing(connect(server.url, server.password)) as connection:
        known = {"synchronous_commit", "sql_log_bin"}
        own = set(_list_session_settings(connection, family, harmful | known))
    assert own & known
    shown = postgresql_settings if family is POSTGRESQL else mysql_settings
    assert own <= set(shown.OF_A_SESSION)


def _list_session_settings(
    connection: Any, family: Family, names: Collection[str]
) -> Iterator[str]:
    """Yield those of *names* that a session may set for itself."""
    cursor = connection.cursor()
    if family is POSTGRESQL:
        cursor.execute(
            "select name from pg_settings where context in ('user', 'superuser')"
        )
        yield from {name for (name,) in cursor} & set(names)
        return
    for name in names:
        with contextlib.suppress(mysql.connector.Error):
            cursor.execute(f"select @@session.{name}")
            cursor.fetchall()
            yield name
