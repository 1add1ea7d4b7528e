"""The privileges that SHOW GRANTS amounts to."""

from __future__ import annotations

import pytest

from dbcheck.engines.mysql.grants import (
    find_missing_privileges,
    parse_privileges,
    quote_account,
)
from dbcheck.engines.mysql.rights import Privileges, quote_database

NEEDED = ("SELECT", "INSERT", "CREATE", "DROP")
TO = " TO `dbcheck`@`%`"


@pytest.mark.parametrize(
    ("statements", "lacking"),
    [
        pytest.param([], list(NEEDED), id="nothing"),
        pytest.param(["GRANT USAGE ON *.*" + TO], list(NEEDED), id="usage"),
        pytest.param(["GRANT ALL PRIVILEGES ON *.*" + TO], [], id="everything"),
        pytest.param(["GRANT ALL PRIVILEGES ON `dbcheck`.*" + TO], [], id="all here"),
        pytest.param(
            ["GRANT SELECT, INSERT, CREATE, DROP ON `dbcheck`.*" + TO], [], id="exact"
        ),
        pytest.param(
            ["GRANT SELECT, INSERT, CREATE, DROP ON `other`.*" + TO],
            list(NEEDED),
            id="another database",
        ),
        pytest.param(
            [
                "GRANT SELECT ON *.*" + TO,
                "GRANT CREATE, DROP ON `dbcheck`.*" + TO,
                "GRANT INSERT ON `dbcheck`.`ledger`" + TO,
            ],
            [],
            id="from three levels",
        ),
        pytest.param(
            ["GRANT SELECT, INSERT, CREATE, DROP ON `dbcheck`.`fs`" + TO],
            list(NEEDED),
            id="another table",
        ),
        pytest.param(
            ["GRANT SELECT (`id`, `seq`), INSERT, CREATE ON `dbcheck`.`ledger`" + TO],
            ["SELECT", "DROP"],
            id="on columns alone",
        ),
        pytest.param(
            [
                "GRANT SELECT, INSERT, CREATE, DROP ON *.*" + TO,
                "REVOKE DROP ON `dbcheck`.* FROM `dbcheck`@`%`",
            ],
            ["DROP"],
            id="partly revoked",
        ),
        pytest.param(
            ["GRANT `writers`@`%`" + TO, "GRANT USAGE ON *.*" + TO],
            list(NEEDED),
            id="a role that is not active",
        ),
        pytest.param(
            [
                "GRANT ALL PRIVILEGES ON *.*"
                + TO
                + " IDENTIFIED BY PASSWORD '*00' WITH GRANT OPTION"
            ],
            [],
            id="as MariaDB ends it",
        ),
    ],
)
def test_missing(statements: list[str], lacking: list[str]) -> None:
    assert find_missing_privileges(statements, "dbcheck", "ledger", NEEDED) == lacking


@pytest.mark.parametrize(
    ("pattern", "database", "covered"),
    [
        (r"db\_check", "db_check", True),
        (r"db\_check", "dbXcheck", False),
        ("db_check", "dbXcheck", True),
        ("db%", "dbcheck", True),
        ("db%", "orders", False),
        ("d``b", "d`b", True),
        ("d.b", "dxb", False),
    ],
)
def test_database_patterns(pattern: str, database: str, covered: bool) -> None:
    found = parse_privileges([f"GRANT SELECT ON `{pattern}`.*{TO}"], database, "ledger")
    assert found == ({"SELECT"} if covered else frozenset())


@pytest.mark.parametrize("name", ["my_shop", "a%b", "d`b", r"back\slash", "with blank"])
def test_a_grant_is_on_one_database_alone(name: str) -> None:
    statement = Privileges(("SELECT",)).grant("x", quote_database(name))
    shown = statement.replace("grant select on", "GRANT SELECT ON").replace(
        " to x;", TO
    )
    assert parse_privileges([shown], name, "ledger") == {"SELECT"}
    for other in (name.replace("_", "X"), name.replace("%", "orders"), f"{name}2"):
        if other != name:
            assert not parse_privileges([shown], other, "ledger")


def test_no_character_of_an_account_ends_its_quotes() -> None:
    assert quote_account("o'hare@10.0.0.%") == "`o'hare`@'10.0.0.%'"
    assert quote_account("a\\'`b@%") == "`a\\'``b`@'%'"
