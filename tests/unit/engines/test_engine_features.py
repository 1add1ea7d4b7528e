"""The optional features of each product, and what a cycle gets where one is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import NoCanary, UsageError
from dbcheck.config.workload_file import load
from dbcheck.cycle.preflight.before_load import require_server
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.engines.registry import ENGINES
from dbcheck.model.cluster import Weakens
from dbcheck.ports.engine import Engine
from dbcheck.ports.feature import Feature
from dbcheck.rows.loss import ConditionCheck
from dbcheck.rows.table import LEDGER, Definition
from dbcheck.server_log import Product
from tests.kit.bare_engine import BareEngine
from tests.kit.refusals import refused

PLAIN: Any = BareEngine(
    target="plain://db1", check=lambda *_: None, require_rights=lambda *_, **__: None
)

# What each product lacks, and why; it has all else.  With MyRocks a product has the
# same features as with InnoDB: its canary stays in InnoDB, and what differs has a
# statement for each (engines/mysql/places.py).
LACKED: Mapping[str, Mapping[Feature, str]] = {
    "PostgreSQL": {
        Feature.SERVER_CONTROL: "a control sets synchronous_commit in its own sessions",
        Feature.LOG_OVER_SQL: "its log is a file, which no table shows",
        Feature.NAMES_IN_LOG: "its log names the files of tables by number",
        Feature.COUNTED_DECISIONS: "it has no counter of how they ended",
        Feature.DATA_MARK: "its data directory holds the system identifier",
        Feature.CLONING: "no statement copies data into a running server",
        Feature.UNREPLICATED_ROWS: "what its log has reaches each standby in the end",
        Feature.GROUP_MEMBER: "a standby is refused, and subscriptions are by table",
        Feature.GROUP_BOOTSTRAP: "it has no group without a primary",
    },
    "MySQL": {
        Feature.POINT: "mysqlbinlog stops at no GTID, and its sets may have gaps",
        Feature.CHECKPOINT: "no statement waits for a checkpoint of InnoDB",
        Feature.DATA_MARK: "auto.cnf in the data directory holds server_uuid",
    },
    "MariaDB": {
        Feature.CHECKPOINT: "no statement waits for a checkpoint of InnoDB",
        Feature.LOG_OVER_SQL: "it has no performance_schema.error_log",
        Feature.CLONING: "mariadb-backup copies data, and no statement does",
        Feature.GROUP_BOOTSTRAP: "a Galera cluster is formed by how a node is started",
    },
}
CLASSES: Mapping[str, type[Engine]] = {
    "PostgreSQL": PostgresqlEngine,
    "MySQL": MysqlEngine,
    "MariaDB": MysqlEngine,
}


def overridden(engine: type[Engine], feature: Feature) -> list[str]:
    return [
        name
        for name in feature.value
        if getattr(engine, name) is not getattr(Engine, name)
    ]


def test_every_engine_has_its_products() -> None:
    paths = {f"{one.__module__}:{one.__qualname__}" for one in CLASSES.values()}
    assert paths == set(ENGINES.values())
    assert CLASSES.keys() == LACKED.keys() == set(Product)


@pytest.mark.parametrize("engine", sorted(set(CLASSES.values()), key=str))
def test_an_engine_overrides_what_its_products_are_said_to_have(
    engine: type[Engine],
) -> None:
    """A feature that is silently at its default would show as "not observable"."""
    lacked = [set(LACKED[name]) for name, one in CLASSES.items() if one is engine]
    found = {feature for feature in Feature if overridden(engine, feature)}
    assert found == set(Feature).difference(set(Feature).intersection(*lacked))
    assert all(why for name in LACKED for why in LACKED[name].values())


@pytest.mark.parametrize("engine", sorted(set(CLASSES.values()), key=str))
@pytest.mark.parametrize("feature", Feature)
def test_the_methods_of_a_feature_are_overridden_together(
    engine: type[Engine], feature: Feature
) -> None:
    """Else a control would weaken a server that nothing restores."""
    assert overridden(engine, feature) in ([], list(feature.value))


def test_every_method_with_a_default_belongs_to_one_feature() -> None:
    optional = {
        name
        for name in vars(Engine)
        if not name.startswith("_") and name not in Engine.__abstractmethods__
    }
    named = [name for feature in Feature for name in feature.value]
    assert sorted(named) == sorted(optional - {"has", "require"})


def test_an_engine_says_what_it_has() -> None:
    postgresql = PostgresqlEngine("postgresql://db1/d")
    mysql = MysqlEngine("mysql://db1/d")
    assert (postgresql.has(Feature.CHECKPOINT), mysql.has(Feature.CHECKPOINT)) == (
        True,
        False,
    )
    assert not postgresql.has(Feature.SERVER_CONTROL)
    assert mysql.has(Feature.SERVER_CONTROL)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: PLAIN.canary(1), None),
        (lambda: PLAIN.logged(0), None),
        (lambda: PLAIN.names_in_log((LEDGER,)), ()),
        (lambda: PLAIN.table_identity(LEDGER), ""),
        (lambda: PLAIN.table_definition(LEDGER), Definition()),
        (lambda: PLAIN.deleted(LEDGER), None),
        (lambda: PLAIN.decisions(), None),
        (lambda: PLAIN.refill((LEDGER,), 0), None),
        (
            lambda: PLAIN.broken_conditions("conditions_orders", 1),
            ConditionCheck(not_done="this kind of server cannot be asked for them"),
        ),
        (lambda: PLAIN.check_tables((LEDGER,)), None),
        (lambda: PLAIN.other_settings(), ()),
        (lambda: PLAIN.mark_data(), ""),
        (lambda: PLAIN.restore_durability(), None),
    ],
)
def test_what_an_engine_cannot_show_is_unknown(
    ask: Callable[[], object], answer: object
) -> None:
    assert ask() == answer


def test_a_missing_checkpoint_is_explained() -> None:
    assert "no statement that requests a checkpoint" in PLAIN.checkpoint()


def test_a_missing_canary_is_explained() -> None:
    with refused(
        ErrorId.CANARY_NOT_POSSIBLE, NoCanary, naming="this kind of server has none"
    ):
        PLAIN.plant_canary(1)


def test_a_control_is_refused_where_none_can_run() -> None:
    require_server(PLAIN, load("insert"))
    with refused(
        ErrorId.CONTROL_NOT_SUPPORTED,
        UsageError,
        naming="no control can run on plain://db1",
    ):
        require_server(PLAIN, load("insert"), Weakens.FLUSH)


@pytest.mark.parametrize(
    ("feature", "id"),
    [
        (Feature.FILL, ErrorId.FILLING_NOT_SUPPORTED),
        (Feature.TWO_PHASE, ErrorId.TWO_PHASE_NOT_SUPPORTED),
    ],
)
def test_what_a_user_asks_for_is_refused_where_it_is_not_known(
    feature: Feature, id: ErrorId
) -> None:
    with refused(id, UsageError, naming="plain://db1"):
        PLAIN.require(feature)
