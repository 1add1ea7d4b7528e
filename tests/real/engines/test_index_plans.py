"""The plans by which MySQL and MariaDB answer from an index, and those refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mysql.connector
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, IndexDamaged
from dbcheck.config import files
from dbcheck.engines.mysql import index as mysql_index
from dbcheck.engines.mysql import link as mysql_link
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER, REGISTER, TableSpec
from tests.kit.operations import batches
from tests.kit.refusals import refused

ROWS = 200
NOT_FOUND = "(found.id is null or found.id <> t.id)"
KINDS = ("mariadb", "mysql", pytest.param("myrocks", marks=pytest.mark.wide))
kinds = pytest.mark.parametrize("server", KINDS, indirect=True)


def run(engine: Engine, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement in a session of its own; return its rows."""
    assert isinstance(engine, MysqlEngine)
    with engine._open("dbcheck") as link:
        cursor: Any = link.connection.cursor()
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.with_rows else []


def fill(engine: Engine, tables: Sequence[TableSpec], ids: Iterable[int]) -> None:
    """Create the tables, each with rows of these ids."""
    engine.prepare(tables)
    rows = ", ".join(f"({n}, 1, {n % 7}, {n}, {n}, '', 0)" for n in ids)
    for table in tables:
        columns = "id, epoch, session, seq, part, payload, checksum"
        run(engine, f"insert into {table.name} ({columns}) values {rows}")
        run(engine, f"analyze table {table.name}")


@pytest.fixture
def filled(engine: Engine) -> Engine:
    """An engine whose tables have rows, and sound indexes."""
    fill(engine, (LEDGER, REGISTER), range(1, ROWS + 1))
    return engine


@contextmanager
def with_global(engine: Engine, **settings: str) -> Iterator[None]:
    """Have new sessions begin with these settings."""
    before = {name: run(engine, f"select @@global.{name}")[0][0] for name in settings}
    try:
        for name, value in settings.items():
            run(engine, f"set global {name} = {value}")
        yield
    finally:
        for name, value in before.items():
            run(engine, f"set global {name} = {value!r}")


@kinds
@pytest.mark.parametrize("table", [LEDGER, REGISTER], ids=lambda table: table.name)
def test_sound_indexes_answer(filled: Engine, table: TableSpec) -> None:
    assert sum(len(batch) for batch in batches(filled, table)) == ROWS


@pytest.mark.parametrize("server", ["mysql"], indirect=True)
@pytest.mark.parametrize("table", [LEDGER, REGISTER], ids=lambda table: table.name)
def test_they_answer_beside_the_hypergraph_optimizer(
    filled: Engine, table: TableSpec
) -> None:
    """It would join by a hash, and has no plan in the format that is read here."""
    on = "'hypergraph_optimizer=on'"
    try:
        run(filled, f"set optimizer_switch = {on}")
    except mysql.connector.Error as error:
        pytest.skip(f"this release has no hypergraph optimizer: {error}")
    with with_global(filled, optimizer_switch=on):
        assert sum(len(batch) for batch in batches(filled, table)) == ROWS


@pytest.mark.parametrize("server", ["mariadb"], indirect=True)
@pytest.mark.parametrize("table", [LEDGER, REGISTER], ids=lambda table: table.name)
def test_a_hash_join_is_no_search(filled: Engine, table: TableSpec) -> None:
    levels = {"join_cache_level": "4", "optimizer_switch": "'join_cache_hashed=on'"}
    with (
        with_global(filled, **levels),
        refused(
            ErrorId.PLAN_NOT_AS_ASKED,
            EngineError,
            naming=(f"lookup_{table.name}", "hash"),
        ),
    ):
        list(batches(filled, table))


@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
@pytest.mark.parametrize("statement", ["lookup_register", "lookup_key_register"])
@pytest.mark.parametrize("first", [1, 2])
def test_rows_whose_ids_have_a_step_are_searched(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, statement: str, first: int
) -> None:
    """With auto_increment_increment = 2, as on two masters, all ids may be odd.

    Here each row that is searched counts as not found.
    """

    def changed(family: str, name: str) -> str:
        text = files.read_sql(family, name)
        if name != statement:
            return text
        assert NOT_FOUND in text
        return text.replace(NOT_FOUND, "(found.id is null or found.id = t.id)")

    fill(engine, (REGISTER,), range(first, 2 * ROWS + first, 2))
    monkeypatch.setattr(mysql_index, "LOOKUPS_MAX", ROWS // 4)
    monkeypatch.setattr(mysql_link, "read_sql", changed)
    with refused(ErrorId.INDEX_DAMAGED, IndexDamaged, naming="register") as caught:
        list(batches(engine, REGISTER))
    assert ROWS // 8 < len(caught.value.ids) < ROWS // 2


@kinds
@pytest.mark.parametrize(
    ("statement", "old", "new", "says"),
    [
        pytest.param(
            "lookup_register",
            "as found force",
            "as found ignore",
            "PRIMARY for lookup_register: .*found: (index|ALL)",
            id="primary-key-ignored",
        ),
        pytest.param(
            "lookup_register",
            "on found.id = t.id",
            "on found.id + 0 = t.id",
            "PRIMARY for lookup_register: .*found: (index|ALL)",
            id="primary-key-scanned",
        ),
        pytest.param(
            "lookup_key_register",
            "found.epoch = t.epoch",
            "found.epoch + 0 = t.epoch",
            "register_key for lookup_key_register: .*found: index",
            id="key-scanned",
        ),
        pytest.param(
            "lookup_key_register",
            "found.session = t.session",
            "found.session + 0 = t.session",
            "register_key for lookup_key_register: .*found: ref, register_key",
            id="key-searched-by-its-first-column",
        ),
        pytest.param(
            "lookup_key_register",
            "found.id is null",
            "found.payload is null",
            "register_key for lookup_key_register: .*found: eq_ref, register_key",
            id="key-and-table-searched",
        ),
        pytest.param(
            "lookup_key_register",
            "as t force index (primary)",
            "as t force index (register_key)",
            "register_key for lookup_key_register: t: index, register_key",
            id="searched-for-what-the-key-has",
        ),
        pytest.param(
            "count_key_register",
            "force index (register_key)",
            "force index (primary)",
            "register_key for count_key_register: register: ALL",
            id="table-counted",
        ),
    ],
)
def test_another_plan_is_refused(
    filled: Engine,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    old: str,
    new: str,
    says: str,
) -> None:
    def changed(family: str, name: str) -> str:
        text = files.read_sql(family, name)
        if name != statement:
            return text
        assert old in text
        return text.replace(old, new)

    monkeypatch.setattr(mysql_link, "read_sql", changed)
    with pytest.raises(EngineError, match=f"does not use {says}"):
        list(batches(filled, REGISTER))
