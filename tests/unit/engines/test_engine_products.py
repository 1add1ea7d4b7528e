"""Which servers are refused for what they are."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, OtherProduct
from dbcheck.engines.mysql.check import parse_product
from dbcheck.engines.mysql.grants import quote_account
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.engines.postgresql.product import (
    require_at_login,
    require_own_storage,
    require_postgresql,
    require_version,
)
from dbcheck.engines.tables import require_ours
from dbcheck.rows.table import CLASSIC, LEDGER
from tests.kit.recorded_servers import RecordedLink
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("version", "comment", "expected"),
    [
        ("8.0.0", "MySQL Community Server", ("MySQL", (8, 0, 0))),
        ("9.7.4-2", "(Debian)", ("MySQL", (9, 7, 4))),
        ("8.4.2-2", "Percona Server (GPL)", ("MySQL", (8, 4, 2))),
        ("10.5.0-MariaDB", "", ("MariaDB", (10, 5, 0))),
        ("10.11.14-MariaDB-deb12u2", "Debian 12", ("MariaDB", (10, 11, 14))),
    ],
)
def test_mysql_products(
    version: str, comment: str, expected: tuple[str, tuple[int, ...]]
) -> None:
    assert parse_product(version, comment) == expected


OLD, OTHER = ErrorId.SERVER_VERSION_NOT_SUPPORTED, ErrorId.SERVER_NOT_SUPPORTED


@pytest.mark.parametrize(
    ("version", "comment", "id", "named"),
    [
        ("5.7.44", "MySQL Community Server", OLD, "MySQL 5.7.44"),
        ("10.4.34-MariaDB", "", OLD, "MariaDB 10.4.34"),
        ("8.0.11-TiDB-v7.5.0", "TiDB Server (Apache License 2.0)", OTHER, "TiDB"),
        ("8.0.30-Vitess", "", OTHER, "8.0.30-Vitess"),
        ("5.7.32", "SingleStoreDB source distribution", OTHER, "SingleStoreDB"),
        ("new", "", OTHER, "new"),
    ],
)
def test_mysql_refuses_others(
    version: str, comment: str, id: ErrorId, named: str
) -> None:
    with refused(id, EngineError, naming=named) as caught:
        parse_product(version, comment)
    assert caught.value.hint


POSTGRESQL_15 = "PostgreSQL 15.20 (Debian 15.20-0+deb12u1) on x86_64-pc-linux-gnu"


def test_postgresql_is_accepted() -> None:
    require_at_login("db1", {"server_version": "15.20 (Debian 15.20-0+deb12u1)"}.get)
    require_postgresql("db1", POSTGRESQL_15)
    require_version(15_00_20)
    require_own_storage("db1", {"fsync": "on", "max_wal_size": "1024"})


def test_an_old_postgresql_is_refused() -> None:
    with refused(
        ErrorId.SERVER_VERSION_NOT_SUPPORTED, EngineError, naming="PostgreSQL 12"
    ) as caught:
        require_version(12_00_22)
    assert caught.value.hint == "Use PostgreSQL 13 or newer."


COCKROACHDB = "CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27)"
YUGABYTEDB = "PostgreSQL 15.12-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu, compiled by"


@pytest.mark.parametrize(
    ("version", "product"),
    [
        (COCKROACHDB, "CockroachDB 23.1.11"),
        ("CockroachDB", "CockroachDB"),
        (YUGABYTEDB, "YugabyteDB 2025.1.0.0"),
        ("PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64", "YugabyteDB 2.20.1.0"),
        ("PostgreSQL 14.4 (Greenplum Database 7.0.0) on x86_64", "Greenplum"),
        ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.12103", "Redshift"),
        ("PostgreSQL 9.5.0-RisingWave-1.8.0", "RisingWave"),
        ("EnterpriseDB 15 on x86_64", "EnterpriseDB 15"),
    ],
)
def test_another_product_is_known_by_its_own_sentence(
    version: str, product: str
) -> None:
    named = f"db1 is {product}, not PostgreSQL"
    with refused(ErrorId.SERVER_NOT_SUPPORTED, OtherProduct, naming=named) as caught:
        require_postgresql("db1", version)
    assert caught.value.hint.startswith("Name a server of PostgreSQL, MySQL or")


@pytest.mark.parametrize(
    ("said", "product"),
    [
        ({"server_version": "13.0.0", "crdb_version": COCKROACHDB}, "CockroachDB 23.1"),
        ({"server_version": "15.12-YB-2025.1.0.0-b0"}, "YugabyteDB 2025.1"),
    ],
)
def test_another_product_is_known_at_the_login(
    said: dict[str, str], product: str
) -> None:
    named = (f"db1 is {product}", ", not PostgreSQL")
    with refused(ErrorId.SERVER_NOT_SUPPORTED, OtherProduct, naming=named):
        require_at_login("db1", said.get)


@pytest.mark.parametrize(
    ("version", "setting", "product"),
    [
        (YUGABYTEDB, "fsync", "YugabyteDB 2025.1.0.0"),
        (COCKROACHDB, "fsync", "CockroachDB 23.1.11"),
        (POSTGRESQL_15, "neon.timeline_id", "Neon, by its setting neon.timeline_id"),
        (POSTGRESQL_15, "polar_vfs", "PolarDB, by its setting polar_vfs"),
    ],
)
def test_an_audit_does_not_believe_what_another_product_says_of_fsync(
    version: str, setting: str, product: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what stands between hides what the server said at the login."""
    link = RecordedLink(
        {
            "facts": [("15.12", "150012", 10, "orders 5", 99, version, False)],
            "settings": [(setting, "on")],
        }
    )
    monkeypatch.setattr(PostgresqlEngine, "_open", lambda *_, **__: link)
    with refused(ErrorId.SERVER_NOT_SUPPORTED, OtherProduct, naming=product):
        PostgresqlEngine("postgresql://db@db1/orders").facts()


def test_accounts_are_quoted_for_a_grant() -> None:
    assert quote_account("odd@name@%") == "'odd@name'@'%'"


COLUMNS = [
    ("id", "bigint"),
    ("epoch", "bigint"),
    ("session", "integer"),
    ("seq", "bigint"),
    ("part", "smallint"),
    ("payload", "bytea"),
    ("checksum", "bigint"),
]


def test_our_own_tables_are_accepted() -> None:
    require_ours(LEDGER, "ledger", "dbcheck 1", COLUMNS)
    require_ours(CLASSIC, "fs", "dbcheck 1", COLUMNS[:1])


@pytest.mark.parametrize(
    ("comment", "columns"),
    [
        pytest.param("", COLUMNS, id="no mark"),
        pytest.param("dbcheck 2", COLUMNS, id="another format"),
        pytest.param("dbcheck 1", COLUMNS[:-1], id="a column is missing"),
        pytest.param("dbcheck 1", [("id", "integer"), *COLUMNS[1:]], id="small ids"),
    ],
)
def test_tables_of_others_are_refused(
    comment: str, columns: list[tuple[str, str]]
) -> None:
    with refused(ErrorId.TABLE_OF_OTHERS, EngineError, naming="ledger") as caught:
        require_ours(LEDGER, "ledger", comment, columns)
    assert "drop" in caught.value.hint
