"""A login that fails says what to correct: the password, the port or the database."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.link import UNREACHABLE_HINT, WRONG_PASSWORD_HINT
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.ports.connection import LoginRefused
from tests.kit.refusals import refused
from tests.kit.servers import NewServer


def advice(url: str, password: str | None, id: ErrorId) -> str:
    with refused(id, EngineError, naming="cannot connect to") as caught:
        open_engine(url, password).facts()
    return caught.value.hint


def test_a_wrong_password_is_not_advised_on_as_a_server_that_is_down(
    server: DatabaseServer,
) -> None:
    found = advice(server.url, "wrong", ErrorId.PASSWORD_REFUSED)
    assert found == WRONG_PASSWORD_HINT
    assert "If the account does not exist yet: dbcheck grants prints" in found


def test_one_who_waits_for_the_server_is_told_that_it_refuses_the_login(
    server: DatabaseServer,
) -> None:
    refusing = open_engine(server.url, "wrong").ready()
    assert isinstance(refusing, LoginRefused)
    assert WRONG_PASSWORD_HINT in refusing
    away = str(make_url(server.url).set(port=1))
    assert not isinstance(open_engine(away, server.password).ready(), LoginRefused)


@pytest.mark.parametrize(
    ("rule", "said", "advice"),
    [
        ("reject", "pg_hba.conf rejects", "its pg_hba.conf"),
        ("trust", 'role "nobody" does not exist', "dbcheck grants"),
    ],
)
def test_so_is_one_whose_account_no_rule_lets_in(
    new_server: NewServer, rule: str, said: str, advice: str
) -> None:
    server = new_server("postgresql")
    hba = server.data / "pg_hba.conf"
    hba.write_text(f"host all nobody all {rule}\n{hba.read_text()}")
    server.stop()
    server.start()
    refusing = open_engine(str(make_url(server.url).set(username="nobody"))).ready()
    assert isinstance(refusing, LoginRefused)
    assert refusing.error.id is ErrorId.LOGIN_REFUSED
    assert said in refusing
    assert advice in refusing


def test_a_port_at_which_nothing_answers_is_not_advised_on_as_a_password(
    server: DatabaseServer,
) -> None:
    url = str(make_url(server.url).set(port=1))
    found = advice(url, server.password, ErrorId.CONNECTION_FAILED)
    assert found == UNREACHABLE_HINT


def test_a_database_that_is_not_there_is_advised_on_as_such(
    postgresql_server: DatabaseServer,
) -> None:
    url = str(make_url(postgresql_server.url).set(database="none_of_that_name"))
    found = advice(url, postgresql_server.password, ErrorId.DATABASE_UNKNOWN)
    assert "may be mistyped" in found
    assert "dbcheck grants" in found
