"""Who else uses a server, by the account that dbcheck has and by a lesser one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.cut import OtherUsers
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import CLASSIC, LEDGER
from tests.kit.accounts import Least, statements
from tests.kit.lab_access import connect
from tests.kit.waiting import wait_until


@pytest.fixture
def least(own_server: DatabaseServer) -> Iterator[Least]:
    """A fresh server with the least account, and nobody connected to it."""
    own_server.start()
    found = Least(own_server)
    with contextlib.closing(found.connection):
        for statement in statements(own_server.name):
            found.run(statement)
        yield found


def found_by(engine: Engine, connections: int) -> OtherUsers:
    """Return what is found once so many others are connected; some are yet leaving."""
    found: list[OtherUsers] = []

    def are_there() -> bool:
        found.append(engine.other_users())
        return found[-1].connections == connections

    wait_until(are_there, f"{connections} others")
    return found[-1]


def right_to_see_databases(least: Least) -> str:
    """Return the statement that gives it."""
    listed = statements(least.server.name, optional=True)
    (show,) = (statement for statement in listed if "show" in statement)
    return show


def test_nobody_is_accused_on_a_server_of_dbchecks_own(engine: Engine) -> None:
    engine.prepare((LEDGER,))
    engine.prepare((CLASSIC,))
    found = found_by(engine, 0)
    assert found.databases == ()


def test_another_client_and_another_table_are_seen(
    engine: Engine, server: DatabaseServer
) -> None:
    found_by(engine, 0)
    with contextlib.closing(connect(server.url, server.password)) as other:
        cursor = other.cursor()
        cursor.execute("create table somebodys (n int)")
        try:
            found = found_by(engine, 1)
            assert len(found.databases) == 1
        finally:
            cursor.execute("drop table somebodys")
            cursor.close()


@pytest.mark.wide_with("mysql")
def test_the_least_account_sees_them_or_says_that_it_does_not(least: Least) -> None:
    least.execute("create database shop")
    engine = least.engine()
    found = found_by(engine, 1)  # the administrator
    if least.server.name != "postgresql":
        assert found.databases == ()
        assert "databases" in found.unreadable
        least.run(right_to_see_databases(least))
        found = engine.other_users()
    assert "shop" in found.databases
    assert not found.unreadable


def test_the_folder_of_a_filesystem_is_no_database(least: Least) -> None:
    """Ext4 has lost+found in its root, which is the data directory of many servers."""
    (least.server.data / "lost+found").mkdir(mode=0o700)
    if least.server.name != "postgresql":
        least.run(right_to_see_databases(least))
    least.execute("create database shop")
    assert least.engine().other_users().databases == ("shop",)
