"""A login that fails says what to correct: the password, the port or the database."""

from __future__ import annotations

from sqlalchemy import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.link import UNREACHABLE_HINT, WRONG_PASSWORD_HINT
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from tests.kit.refusals import refused


def advice(url: str, password: str | None, id: ErrorId) -> str:
    with refused(id, EngineError, naming="cannot connect to") as caught:
        open_engine(url, password).facts()
    return caught.value.hint


def test_a_wrong_password_is_not_advised_on_as_a_server_that_is_down(
    server: DatabaseServer,
) -> None:
    found = advice(server.url, "wrong", ErrorId.PASSWORD_REFUSED)
    assert found == WRONG_PASSWORD_HINT
    assert "If there is no such account yet, dbcheck grants prints" in found


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
