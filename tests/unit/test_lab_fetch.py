"""`dbcheck lab fetch mysql`: what it does where there is a server, and where not."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dbcheck.cli import lab_fetch
from dbcheck.errors import UsageError
from dbcheck.lab import programs


def fetch() -> str:
    """Run the command; raise what it raises."""
    done = CliRunner().invoke(lab_fetch.fetch, ["mysql"], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that a server was fetched into; the machine has no other server."""
    folders: list[Path] = []
    monkeypatch.delenv(programs.MYSQLD_VARIABLE, raising=False)
    monkeypatch.setattr(programs, "mysql_folder", lambda: Path("/caches/mysql"))
    monkeypatch.setattr(
        programs, "find_mysqld", lambda: folders[-1] / "mysqld" if folders else None
    )
    monkeypatch.setattr(lab_fetch, "fetch_into", folders.append)
    return folders


def test_a_server_is_fetched_once(fetched: list[Path]) -> None:
    first = fetch()
    assert "(60 MB) into /caches/mysql" in first
    assert first.endswith("mysql: /caches/mysql/mysqld\n")
    assert fetch() == "mysql: /caches/mysql/mysqld\n"
    assert fetched == [Path("/caches/mysql")]


def test_a_server_that_was_named_and_is_not_there_is_not_replaced(
    fetched: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.MYSQLD_VARIABLE, "/nowhere/mysqld")
    with pytest.raises(UsageError, match="DBCHECK_MYSQLD names /nowhere/mysqld"):
        fetch()
    assert not fetched
