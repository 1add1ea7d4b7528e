"""The rights of the account follow from what each workload's plan does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.points import PointKind
from dbcheck.cli.grants import (
    NAME,
    Server,
    describe_server,
    draw_statements,
    list_statements,
)
from dbcheck.config.files import list_workload_names
from dbcheck.config.target import RestoreSettings
from dbcheck.config.workload_file import load
from dbcheck.engines.mysql.rights import TASKS
from dbcheck.inventory.entry import Entry
from dbcheck.rows.operation import Verb, list_verbs_by_table
from dbcheck.rows.plans.registry import plan_of, usage_of
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import SIDES
from dbcheck.rows.tasks import TaskKind
from dbcheck.runner.campaign_plan import WORKLOAD
from dbcheck.server_log import Product
from tests.kit.accounts import granted
from tests.kit.refusals import refused

ROWS = (Verb.INSERT, Verb.UPDATE, Verb.DELETE)


@pytest.mark.parametrize("name", list_workload_names())
def test_a_usage_is_what_the_plan_of_the_workload_sends(name: str) -> None:
    workload = load(name)
    usage = usage_of(workload)
    plan = plan_of(workload, Schedule(1, 2, workload.payload_bytes))
    sent = list_verbs_by_table((*plan.statements, *plan.housekeeping_statements))
    on_rows = {
        table: {verb for verb in verbs if verb in ROWS} for table, verbs in sent.items()
    }
    assert {table: set(verbs) for table, verbs in usage.verbs.items()} == {
        table: verbs for table, verbs in on_rows.items() if verbs
    }
    assert usage.tasks == workload.housekeeping
    assert usage.prepares is (plan.prepares_in is not None)


def test_each_task_has_a_right_or_needs_none_beside_those_of_every_load() -> None:
    """CREATE, INSERT and DROP: TRUNCATE needs DROP; VACUUM there is none."""
    of_every_load = {
        *(TaskKind.CREATE, TaskKind.FILL, TaskKind.TRUNCATE),
        *(TaskKind.DROP, TaskKind.VACUUM),
    }
    assert TASKS.keys() | of_every_load == set(TaskKind)
    assert set(SIDES) <= usage_of(load("windows")).verbs.keys()


@pytest.mark.parametrize("product", list(Product))
def test_no_workload_needs_what_the_campaigns_lacks_but_two_phase(
    product: Product,
) -> None:
    """Who follows the guides copies the statements of mixed, and then runs insert."""

    def rights_of(name: str) -> set[str]:
        rights = granted(product.lower(), name).rights
        texts = [right.statement for right in rights if right.is_required]
        return {
            f"{word.strip()} on {place}"
            for text in texts
            for words, place in re.findall(r"grant (.+) on (\S+)", text)
            for word in words.split(",")
        }

    beyond = {
        name for name in list_workload_names() if rights_of(name) - rights_of(WORKLOAD)
    }
    assert beyond == ({"two-phase"} if product is Product.MYSQL else set())


@pytest.mark.parametrize("product", list(Product))
def test_what_can_be_left_out_has_a_reason(product: Product) -> None:
    result = list_statements(Server(product), load("windows"), control=True)
    required = [right.is_required for right in result.rights]
    assert required == sorted(required, reverse=True)
    assert not all(required)
    for right in result.rights:
        assert right.why.endswith(".")
        assert right.statement.endswith(";")


def test_a_restore_point_is_a_required_right_of_the_host_that_makes_one() -> None:
    url = "postgresql+psycopg2://dbcheck@db1/dbcheck"
    programs = RestoreSettings(("true",), url, until=PointKind.RESTORE_POINT)
    for settings, wanted in (
        (programs, True),
        (replace(programs, until=PointKind.LSN), False),
        (None, False),
    ):
        server = describe_server(Entry("db1", url, copied_by=settings), None)
        result = list_statements(
            server, load("insert"), control=False, required_only=True
        )
        named = [each for each in result.rights if "restore_point" in each.statement]
        assert bool(named) is wanted


def test_the_host_makes_the_data_directory_a_required_right() -> None:
    required = [
        {
            right.statement
            for right in list_statements(
                Server(Product.POSTGRESQL, asks_host=asks_host),
                load("insert"),
                control=False,
                required_only=True,
            ).rights
        }
        for asks_host in (False, True)
    ]
    assert required[1] - required[0] == {"grant pg_read_all_settings to dbcheck;"}


def drawn(product: Product, user: str, database: str) -> list[str]:
    server = Server(product, user, database)
    result = list_statements(server, load("insert"), control=False, required_only=True)
    return [line for line in draw_statements(result) if not line.startswith("--")]


@pytest.mark.parametrize(
    "name", ["user", "order", "current_user", "group", "Db", "a b"]
)
def test_a_keyword_is_quoted_as_a_name(name: str) -> None:
    on_postgresql = drawn(Product.POSTGRESQL, name, name)
    assert f'grant connect, create on database "{name}" to "{name}";' in on_postgresql
    on_mysql = drawn(Product.MYSQL, name, name)
    place = name.replace("_", r"\_")
    assert any(f"on `{place}`.* to `{name}`@'%';" in line for line in on_mysql)


@pytest.mark.parametrize("product", [Product.MYSQL, Product.MARIADB])
@pytest.mark.parametrize(("name", "place"), [("my_db", r"my\_db"), ("a%b", r"a\%b")])
def test_no_character_of_a_database_stands_for_another(
    product: Product, name: str, place: str
) -> None:
    (line,) = (text for text in drawn(product, "my_app", name) if "create," in text)
    assert f"on `{place}`.* to my_app@'%';" in line


@pytest.mark.parametrize("name", ["public", "none", "pg_monitor"])
def test_rights_are_never_given_to_everybody(name: str) -> None:
    with refused(ErrorId.TARGET_URL_INVALID, UsageError, naming=name):
        drawn(Product.POSTGRESQL, name, "shop")
    assert drawn(Product.MYSQL, name, "shop")


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("shop", "shop"),
        ("host=evil", "-reuse-previous=on \"dbname='host=evil'\""),
        ("a'\"=\\", '-reuse-previous=on "dbname=\'a\\\'""=\\\\\'"'),
        ("postgresql://h/d", "-reuse-previous=on \"dbname='postgresql://h/d'\""),
        ("-", "-reuse-previous=on \"dbname='-'\""),
    ],
)
def test_psql_connects_to_that_database_on_the_same_server(
    name: str, argument: str
) -> None:
    assert f"\\connect {argument}" in drawn(Product.POSTGRESQL, "app", name)


def test_without_a_database_the_statements_are_for_that_of_libpq() -> None:
    for url, database in (
        ("postgresql://app@db1", "app"),
        ("mysql://app@db1", NAME),
        ("postgresql://db1", NAME),
    ):
        assert describe_server(Entry("", url), None).database == database


@pytest.mark.parametrize("product", [Product.POSTGRESQL, Product.MARIADB])
def test_the_statements_say_who_makes_the_database(product: Product) -> None:
    result = list_statements(Server(product), load("insert"), control=False)
    said = " ".join(line.strip("- ") for line in draw_statements(result))
    by_hand = "create database" in " ".join(result.create)
    assert ("Account and database; leave out" in said) is by_hand
    assert ("dbcheck itself makes the database" in said) is not by_hand
    assert "no more" in said
