"""What a cycle reports where an engine lacks an optional ability."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.errors import NoCanary, UsageError
from dbcheck.config.workload_file import load
from dbcheck.cycle import observable
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.ports import abilities
from dbcheck.rows.table import LEDGER

PLAIN: Any = SimpleNamespace(target="plain://db1", check=lambda *_: None)


class Wrapper:
    """Hands on what it does not define."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: observable.canary(PLAIN, 1), None),
        (lambda: observable.logged(PLAIN, 0), None),
        (lambda: observable.names_in_log(PLAIN, (LEDGER,)), ()),
        (lambda: observable.table_identity(PLAIN, LEDGER), ""),
        (lambda: observable.deleted(PLAIN, LEDGER), None),
        (lambda: observable.refill(PLAIN, (LEDGER,), 0), None),
        (lambda: observable.check_tables(PLAIN, (LEDGER,)), None),
        (lambda: observable.data_mark(PLAIN)(), ""),
        (lambda: observable.restore_durability(PLAIN), None),
    ],
)
def test_what_an_engine_cannot_show_is_unknown(
    ask: Callable[[], object], answer: object
) -> None:
    assert ask() == answer


def test_a_missing_checkpoint_is_explained() -> None:
    assert "no statement that requests a checkpoint" in observable.checkpoint(PLAIN)


def test_a_missing_canary_is_explained() -> None:
    with pytest.raises(NoCanary, match="this kind of server has none"):
        observable.plant_canary(PLAIN, 1)


def test_a_control_is_refused_where_none_can_run() -> None:
    observable.check(PLAIN, load("insert"), weak=False)
    with pytest.raises(UsageError, match="no control can run on plain://db1"):
        observable.check(PLAIN, load("insert"), weak=True)


def test_tables_are_filled_only_where_that_is_known() -> None:
    with pytest.raises(UsageError, match="cannot fill the tables on plain://db1"):
        observable.require_fill(PLAIN)


@pytest.mark.parametrize("wrap", [lambda engine: engine, Wrapper])
def test_our_engines_have_no_stubs(wrap: Callable[[object], Any]) -> None:
    postgresql = wrap(PostgresqlEngine("postgresql://db1/d"))
    mysql = wrap(MysqlEngine("mysql://db1/d"))
    only_postgresql = (abilities.makes_checkpoints,)
    only_mysql = (
        abilities.weakens_server,
        abilities.shows_log,
        abilities.knows_names_in_log,
        abilities.marks_data,
    )
    both = (
        abilities.has_crash_canary,
        abilities.weakens_sessions,
        abilities.identifies_tables,
        abilities.counts_deletes,
        abilities.checks_tables,
        abilities.fills,
    )
    for has in only_postgresql + only_mysql + both:
        found = has(postgresql), has(mysql)
        assert found == (has not in only_mysql, has not in only_postgresql), has


def test_half_an_ability_is_a_defect_of_the_engine() -> None:
    """Else a control would weaken a server that nothing restores."""
    half: Any = SimpleNamespace(check_weakening=lambda: None)
    with pytest.raises(TypeError, match="lacks restore_durability"):
        abilities.weakens_server(half)
