"""What a node is told that is rebuilt for the writer that took over."""

from __future__ import annotations

from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql import replication as mysql_replication
from dbcheck.engines.postgresql import replication
from dbcheck.engines.postgresql.replication import rename_standbys
from dbcheck.model.replication import SourceLogin
from dbcheck.server_log import Product
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("awaited", "renamed", "expected"),
    [
        ("ANY 1 (db2, db3)", {"db2": "db1"}, 'ANY 1 ("db1", db3)'),
        ('FIRST 1 ("DB-2", db22)', {"db-2": "db-1"}, 'FIRST 1 ("db-1", db22)'),
        ("DB2", {"db2": "db1"}, '"db1"'),
        ("*", {"db2": "db1"}, "*"),
        ("any 1 (db2)", {}, "any 1 (db2)"),
        ("", {"db2": "db1"}, ""),
    ],
)
def test_the_new_writer_awaits_the_old_one_in_its_own_place(
    awaited: str, renamed: dict[str, str], expected: str
) -> None:
    assert rename_standbys(awaited, renamed) == expected


class Link:
    """A link that answers from a table, and notes what it was asked to run."""

    def __init__(self, answers: dict[str, list[tuple[Any, ...]]]) -> None:
        self._answers = answers
        self.ran: list[tuple[str, Any]] = []

    def rows(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        self.ran.append((statement, parameters))
        return self._answers.get(statement, [])

    def row(self, statement: str, parameters: Any = None) -> tuple[Any, ...]:
        return self.rows(statement, parameters)[0]

    def set_global(self, settings: dict[str, object], *, persist: bool) -> None:
        self.ran.append(("persist" if persist else "global", settings))


@pytest.mark.parametrize(
    ("version", "conninfo", "why"),
    [
        (120_022, "host=db1", "before 13"),
        (170_002, "host=db1 no_such_option=1", "cannot read"),
        (170_002, "host=db1 password=-secret-", "holds a password"),
    ],
)
def test_a_standby_that_cannot_be_pointed_is_left_alone(
    version: int, conninfo: str, why: str
) -> None:
    link: Any = Link({"server": [("", version, True, "on")], "conninfo": [(conninfo,)]})
    with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming=why) as raised:
        replication.follow(link, SourceLogin("db2", 5432))
    assert "-secret-" not in f"{raised.value!r} {raised.value.hint}"
    assert {statement for statement, _ in link.ran} <= {"server", "conninfo"}


def test_what_else_a_standby_was_told_stays() -> None:
    old = "host=db1 hostaddr=192.0.2.1 port=1 user=r sslmode=require"
    answers: dict[str, list[tuple[Any, ...]]] = {
        "server": [("", 170_002, True, "on")],
        "conninfo": [(old,)],
        "receiver": [("streaming", "db2", 5432)],
    }
    link: Any = Link(answers)
    replication.follow(link, SourceLogin("db2", 5432, password="-secret-"))
    (told,) = (p["conninfo"] for name, p in link.ran if name == "set_conninfo")
    assert sorted(told.split()) == [
        "host=db2",
        "port=5432",
        "sslmode=require",
        "user=r",
    ]


NEW, OLD = "rpl_semi_sync_source_", "rpl_semi_sync_master_"


@pytest.mark.parametrize(("here", "there"), [(NEW, NEW), (OLD, NEW), (NEW, OLD)])
def test_a_source_gets_the_settings_of_another_by_its_own_names(
    monkeypatch: pytest.MonkeyPatch, here: str, there: str
) -> None:
    monkeypatch.setattr(mysql_replication, "read_product", lambda _: Product.MYSQL)
    replicas = {NEW: "replica", OLD: "slave"}
    names = ("enabled", "timeout", "wait_point")
    known = [(f"{here}{name}", "-") for name in names]
    known.append((f"{here}wait_no_{replicas[here]}", "-"))
    link: Any = Link({"globals": known})
    settings = {
        f"{there}enabled": "ON",
        f"{there}timeout": "4294967295",
        f"{there}wait_no_{replicas[there]}": "ON",
        "sync_binlog": "1",
    }
    mysql_replication.lead(link, settings)
    ((scope, told),) = (step for step in link.ran if step[0] != "globals")
    assert scope == "persist"
    assert told == {
        f"{here}timeout": 4294967295,
        f"{here}wait_no_{replicas[here]}": "ON",
        f"{here}enabled": "ON",
    }
    assert list(told)[-1] == f"{here}enabled"


def test_a_source_without_the_plugin_is_refused() -> None:
    link: Any = Link({"globals": [("sync_binlog", "1")]})
    settings = {f"{NEW}enabled": "ON", f"{NEW}timeout": "1"}
    with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming=f"{NEW}enabled"):
        mysql_replication.lead(link, settings)
    mysql_replication.lead(link, {f"{NEW}enabled": "OFF"})
    assert {statement for statement, _ in link.ran} == {"globals"}
