"""A session whose settings do not hold, and a reading that leaves rows out."""

from __future__ import annotations

from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, TableLost
from dbcheck.config import files
from dbcheck.engines.mysql import link as mysql_link
from dbcheck.engines.postgresql import link as postgresql_link
from dbcheck.engines.postgresql import session as postgresql_session
from dbcheck.load.sessions import commit
from dbcheck.ports.engine import Engine
from dbcheck.rows.plans.plan import INSERT, Plan
from dbcheck.rows.table import LEDGER
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
