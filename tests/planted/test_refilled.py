"""A server that is tested alone, and that others give back what it lost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import mysql.connector
import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.outcome import Outcome
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.verdict import Verdict
from tests.kit.lab_access import connect
from tests.kit.lone_member import bootstrap_of, settings_of
from tests.kit.refusals import refused
from tests.kit.servers import NewServer, engine_of
from tests.kit.waiting import wait_until
from tests.planted.fault import engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

REPLICA = {
    "mysql": (
        "change replication source to source_host = '127.0.0.1', source_port = 9",
        *("start replica", "stop replica", "reset replica all"),
    ),
    "mariadb": (
        "change master to master_host = '127.0.0.1', master_port = 9",
        *("start slave", "stop slave", "reset slave all"),
    ),
}
BEGIN = "begin the group"
STOP = "stop group_replication"
# The last row of a session may be one that was never acknowledged.
LOSE = "delete from dbcheck.ledger where session = 1 order by seq desc limit 5"
UNCOUNTED = "truncate performance_schema.table_io_waits_summary_by_table"


@pytest.fixture
def member(own_site: Site) -> Iterator[Site]:
    """A member of a group that it does not join by itself."""
    settings = dict(own_site.server.settings)
    own_site.server.settings |= settings_of(own_site.server)
    own_site.changed = True
    try:
        own_site.put_back()
        yield own_site
    finally:
        own_site.server.settings = settings
        own_site.changed = True


def after_its_start(site: Site, *statements: str) -> Outcome:
    """Run these on the server once it is back, before its rows are read."""

    def restore() -> None:
        site.server.start()
        for statement in statements:
            of_group = bootstrap_of(site.server)
            for each in of_group if statement == BEGIN else (statement,):
                site.execute(each)
        site.changed = True

    return site.cycle(restore=restore)


def status(outcome: Outcome) -> Status | None:
    found = item_of(outcome)
    return found.status if found is not None else None


def item_of(outcome: Outcome) -> Item | None:
    items = {item.id: item for item in outcome.judgement.items}
    return items.get(ItemId.NOT_REFILLED)


@pytest.mark.wide
@engines("own_site", "mysql")
@pytest.mark.parametrize(
    ("then", "verdict", "shown"),
    [
        pytest.param((), Verdict.PASS, None, id="not started"),
        pytest.param((BEGIN,), Verdict.INCONCLUSIVE, Status.ABSENT, id="started"),
        pytest.param(
            (BEGIN, STOP),
            Verdict.INCONCLUSIVE,
            Status.ABSENT,
            id="stopped again",
        ),
        pytest.param(
            (BEGIN, LOSE, UNCOUNTED),
            Verdict.FAIL,
            Status.ABSENT,
            id="lost all the same",
        ),
        pytest.param(
            (BEGIN, LOSE),
            Verdict.INCONCLUSIVE,
            Status.CONTRADICTED,
            id="deleted, perhaps by the group",
        ),
    ],
)
def test_a_member_that_joins_its_group_before_it_is_read_does_not_pass(
    member: Site, then: tuple[str, ...], verdict: Verdict, shown: Status | None
) -> None:
    outcome = after_its_start(member, *then)
    assert outcome.verdict is verdict, outcome.judgement
    assert status(outcome) is shown
    assert outcome.after.unanswered == ""  # final: a restart would hide that it joined


@pytest.mark.wide_with("mysql")
@engines("own_site", *REPLICA)
def test_a_server_that_was_a_replica_for_a_time_does_not_pass(site: Site) -> None:
    outcome = after_its_start(site, *REPLICA[site.name])
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status(outcome) is Status.ABSENT


@engines("own_site", "postgresql")
def test_a_subscription_that_writes_into_the_tables_takes_the_pass(site: Site) -> None:
    site.changed = True
    site.execute("create database peer")
    url = make_url(site.server.url).set(database="peer")
    to = url.render_as_string(hide_password=False)
    with contextlib.closing(connect(to, site.server.password)) as link:
        cursor = link.cursor()
        for statement in (
            "create schema dbcheck",
            "create table dbcheck.ledger (id bigint primary key)",
            "create publication peer for all tables",
        ):
            cursor.execute(statement)
    there = f"host={url.host} port={url.port} user={url.username} dbname=peer"
    outcome = after_its_start(
        site,
        "create subscription peer connection"
        f" '{there} password={site.server.password}' publication peer"
        " with (create_slot = false, slot_name = none, enabled = false)",
    )
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    item = item_of(outcome)
    assert item is not None and item.status is Status.ABSENT
    assert "dbcheck.ledger" in item.reason
    with refused(
        ErrorId.SERVER_IS_REPLICA, EngineError, naming="peer into dbcheck.ledger"
    ) as at:
        site.cycle()
    assert at.value.id is ErrorId.SERVER_IS_REPLICA
    site.execute("drop subscription peer")
    assert site.cycle().verdict is Verdict.PASS


@contextlib.contextmanager
def least_account(server: Any) -> Iterator[tuple[MysqlEngine, Any]]:
    """Give the engine of an account without rights, and a cursor that grants some."""
    url = make_url(server.url).set(username="least")
    with contextlib.closing(connect(server.url, server.password)) as link:
        cursor = link.cursor()
        cursor.execute(f"create user least@'%' identified by '{server.password}'")
        yield MysqlEngine(url.render_as_string(), server.password), cursor


@pytest.mark.wide
def test_a_clone_is_unknown_only_where_the_account_may_not_see_it(
    new_server: NewServer,
) -> None:
    server = new_server("mysql")
    server.start()
    found = []
    with least_account(server) as (engine, cursor):
        for statement in (
            "grant replication client on *.* to least@'%'",
            "install plugin clone soname 'mysql_clone.so'",
            "grant select on performance_schema.clone_status to least@'%'",
            "uninstall plugin clone",
        ):
            cursor.execute(statement)
            found.append(engine.refill((), 0))
    without, denied, seen, gone = found
    assert denied is not None and denied.unknown
    assert without is seen is gone is None


@pytest.mark.wide
@pytest.mark.parametrize(
    ("kind", "privilege"),
    [("mysql", "replication client"), ("mariadb", "slave monitor")],
)
def test_a_replica_is_unknown_only_where_the_account_may_not_see_it(
    new_server: NewServer, kind: str, privilege: str
) -> None:
    server = new_server(kind)
    server.start()
    found = []
    with least_account(server) as (engine, cursor):
        cursor.execute("grant all on dbcheck.* to least@'%'")
        found.append(engine.refill((), 0))
        cursor.execute(f"grant {privilege} on *.* to least@'%'")
        found.append(engine.refill((), 0))
    denied, seen = found
    assert denied is not None and denied.unknown and not denied.cloned
    assert "REPLICATION CLIENT" in denied.advice
    assert seen is None


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_a_replica_that_was_promoted_says_that_it_follows_nobody(
    new_server: NewServer, kind: str
) -> None:
    server = new_server(kind)
    server.start()
    engine = engine_of(server)
    source, replica = ("master", "slave") if kind == "mariadb" else ("", "replica")
    change = f"change {source} to {source}_host = '127.0.0.1', {source}_port = 1"
    if kind == "mysql":
        change = "change replication source to source_host = '127.0.0.1'"
    with contextlib.closing(connect(server.url, server.password)) as link:
        cursor = link.cursor()
        cursor.execute("set global server_id = 7")
        cursor.execute(change)
        cursor.execute(f"start {replica}")
        follows = engine.refill((), 0)
        cursor.execute(f"stop {replica}")
        cursor.execute(f"reset {replica} all")
        ended = engine.refill((), 0)
    assert follows is not None and follows.replaces and not follows.ended
    assert ended is not None and ended.ended and not ended.replaces


@pytest.mark.wide
def test_data_that_were_cloned_since_are_seen_after_any_restart(
    new_server: NewServer,
) -> None:
    servers = new_server("mysql"), new_server("mysql")
    donor, server = servers
    for each in servers:
        each.settings["plugin_load_add"] = "mysql_clone.so"
        each.start()
    engine = engine_of(server)
    assert isinstance(engine, MysqlEngine)
    since_us = engine.facts().clock_us
    assert engine.refill((), since_us) is None
    url = make_url(donor.url)
    with contextlib.closing(connect(server.url, server.password)) as link:
        cursor = link.cursor()
        cursor.execute(f"set global clone_valid_donor_list = '127.0.0.1:{url.port}'")
        with contextlib.suppress(mysql.connector.Error):  # nothing starts it again
            cursor.execute(
                f"clone instance from '{url.username}'@'127.0.0.1':{url.port}"
                f" identified by '{donor.password}'"
            )
    wait_until(lambda: engine.ready() is not None, "its end")
    for _ in range(2):
        server.stop()
        server.start()
    found = engine.refill((), since_us)
    assert found is not None
    assert found.replaces
    assert engine.refill((), engine.facts().clock_us) is None
    server.stop()
    server.settings["performance_schema"] = "OFF"
    server.start()
    hidden = engine.refill((), since_us)
    assert hidden is not None and hidden.unknown
