"""Which servers are refused for what they are."""

from __future__ import annotations

import pytest

from dbcheck.core.table import CLASSIC, LEDGER
from dbcheck.engines.mysql.check import product, quote_account
from dbcheck.engines.postgresql.check import require_product
from dbcheck.engines.tables import require_ours
from dbcheck.errors import EngineError


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
    assert product(version, comment) == expected


NEITHER = "neither MySQL nor MariaDB but"


@pytest.mark.parametrize(
    ("version", "comment", "refusal"),
    [
        ("5.7.44", "MySQL Community Server", "^MySQL 5.7.44 is not supported"),
        ("10.4.34-MariaDB", "", "^MariaDB 10.4.34 is not supported"),
        ("8.0.11-TiDB-v7.5.0", "TiDB Server (Apache License 2.0)", NEITHER),
        ("8.0.30-Vitess", "", NEITHER),
        ("5.7.32", "SingleStoreDB source distribution", NEITHER),
        ("new", "", NEITHER),
    ],
)
def test_mysql_refuses_others(version: str, comment: str, refusal: str) -> None:
    with pytest.raises(EngineError, match=refusal) as caught:
        product(version, comment)
    assert caught.value.hint


POSTGRESQL_15 = "PostgreSQL 15.20 (Debian 15.20-0+deb12u1) on x86_64-pc-linux-gnu"


def test_postgresql_is_accepted() -> None:
    require_product(POSTGRESQL_15, 15_00_20)


@pytest.mark.parametrize(
    ("version", "version_num", "refusal"),
    [
        ("PostgreSQL 12.22 on x86_64-pc-linux-gnu", 12_00_22, "12 is not supported"),
        ("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)", 13_00_00, "but Cockroach"),
        ("PostgreSQL 15.2-YB-2.25.1.0-b0 on x86_64-pc-linux-gnu", 15_00_02, "-YB-"),
        ("PostgreSQL 14.4 (Greenplum Database 7.0.0) on x86_64", 14_00_04, "Greenplum"),
        ("EnterpriseDB 15", 15_00_00, "but EnterpriseDB"),
    ],
)
def test_postgresql_refuses_others(
    version: str, version_num: int, refusal: str
) -> None:
    with pytest.raises(EngineError, match=refusal) as caught:
        require_product(version, version_num)
    assert caught.value.hint


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
    with pytest.raises(EngineError, match="ledger") as caught:
        require_ours(LEDGER, "ledger", comment, columns)
    assert "drop" in caught.value.hint
