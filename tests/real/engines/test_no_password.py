"""What is said where a server asks for a password that nobody gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from tests.kit.refusals import refused

SECRET = "hunter2"
VARIABLES = ("PGPASSWORD", "PGPASSFILE", "MYSQL_PWD", "DBCHECK_PASSWORD")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("mode", "line", "said"),
    [
        (None, "", "in {}"),
        (0o600, f"else:*:*:*:{SECRET}", "No line of {} is for this host"),
        (0o640, f"*:*:*:*:{SECRET}", "libpq ignores {}, since"),
        (0o604, f"*:*:*:*:{SECRET}", "run chmod 600 {}"),
    ],
)
def test_a_list_of_passwords_that_libpq_does_not_use_is_named(
    home: Path,
    postgresql_server: DatabaseServer,
    mode: int | None,
    line: str,
    said: str,
) -> None:
    path = home / ".pgpass"
    if mode is not None:
        path.write_text(f"{line}\n")
        path.chmod(mode)
    with refused(ErrorId.PASSWORD_REFUSED, EngineError) as caught:
        open_engine(postgresql_server.url).facts()
    assert said.format(path) in caught.value.hint
    assert "--password-command" in caught.value.hint
    assert SECRET not in str(caught.value) + caught.value.hint


def test_so_are_the_places_for_that_of_mariadb(
    home: Path, mariadb_server: DatabaseServer
) -> None:
    with refused(ErrorId.PASSWORD_REFUSED, EngineError) as caught:
        open_engine(mariadb_server.url).facts()
    for place in ("--password-command", "MYSQL_PWD", "~/.my.cnf"):
        assert place in caught.value.hint
