"""dbcheck grants: for a host of the inventory, for a URL, and for a product."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.root import root
from tests.kit.refusals import refused

INVENTORY = """
all:
  hosts:
    db1:
      dbcheck_target: postgresql://checker@db1/shop
      dbcheck_workload: two-phase
    db2:
      dbcheck_target: mysql://checker@db2/my-shop
      dbcheck_ask_host: false
  children:
    pair:
      vars:
        dbcheck_topology: semi-sync
        dbcheck_writer: a
        dbcheck_ask_host: false
        dbcheck_survives: writer
      hosts:
        a:
          dbcheck_target: mysql://checker@a/shop
        b:
          dbcheck_target: mysql://checker@b/shop
"""
Print = Callable[..., str]


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Print:
    """Run the command in a folder with an inventory; return what it prints."""
    monkeypatch.chdir(tmp_path)
    Path("inventory.yml").write_text(INVENTORY)

    def run(*words: str) -> str:
        done = CliRunner().invoke(root, ["grants", *words])
        if done.exception is not None:
            raise done.exception
        return done.stdout

    return run


def statements(printed_text: str) -> list[str]:
    lines = printed_text.splitlines()
    return [line for line in lines if line and not line.startswith("--")]


def test_a_host_gives_account_database_workload_and_whether_it_is_asked(
    printed: Print,
) -> None:
    text = printed("db1")
    assert "two-phase" in text.splitlines()[0]
    assert statements(text)[:4] == [
        "create role checker login password 'CHANGE-ME';",
        "create database shop;",
        "\\connect shop",
        "grant connect, create on database shop to checker;",
    ]
    required = statements(text.split("-- OPTIONAL")[0])
    assert "grant pg_read_all_settings to checker;" in required


def test_names_are_quoted_where_sql_wants_it(printed: Print) -> None:
    on_tables = "grant select, insert, update, delete, create, drop on `my-shop`.* to"
    assert f"{on_tables} checker@'%';" in statements(printed("db2"))
    odd = printed("--target", "postgresql://o%22hare@h/Shop", "--required")
    wanted = 'grant connect, create on database "Shop" to "o""hare";'
    assert statements(odd)[-1] == wanted


def test_the_scheme_says_the_product_unless_it_is_named(printed: Print) -> None:
    assert "replication client" in printed("db2")
    assert "--product mariadb" in printed("db2")
    for words in (("db2", "--product", "mariadb"), ("--target", "mariadb://h/d")):
        assert "grant slave monitor on *.*" in printed(*words)
        assert "replication client" not in printed(*words)
    with refused(ErrorId.OPTIONS_CONFLICT, UsageError, naming="PostgreSQL"):
        printed("db1", "--product", "mysql")


def test_a_cluster_has_more_rights_and_each_once(printed: Print) -> None:
    text = printed("pair", "--required")
    found = statements(text)
    assert "grant replication slave on *.* to checker@'%';" in found
    assert any("replication_slave_admin" in each for each in found)
    assert len(found) == len(set(found))


def test_without_any_server_nothing_is_guessed(printed: Print) -> None:
    with refused(ErrorId.TARGET_MISSING, UsageError, naming="--product"):
        printed()
    assert "to dbcheck@'%';" in printed("--product", "mariadb")


def test_a_control_adds_its_own_rights(printed: Print) -> None:
    more = set(statements(printed("db2", "--control")))
    assert more - set(statements(printed("db2"))) == {
        "grant system_variables_admin on *.* to checker@'%';"
    }


def test_json_tells_the_required_from_the_optional(printed: Print) -> None:
    found: Any = json.loads(printed("db2", "--json"))
    assert (found["product"], found["workload"]) == ("MySQL", "mixed")
    assert found["create"][0].count("CHANGE-ME") == 1
    required = [each["statement"] for each in found["rights"] if not each["without"]]
    assert statements(printed("db2", "--required")) == [*found["create"], *required]


def test_control_characters_of_a_name_reach_no_terminal(printed: Print) -> None:
    text = printed("--target", "mysql://a%0Aq%1B[2J@h/d", "--required")
    assert "\x1b" not in text
    assert len(statements(text)) == 3
