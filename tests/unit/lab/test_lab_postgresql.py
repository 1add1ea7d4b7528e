"""Which PostgreSQL a lab runs, and the size of its WAL segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.lab import programs
from dbcheck.lab.servers.postgresql import PostgresqlServer
from tests.kit.refusals import refused


def _program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    path.chmod(0o755)
    return path


def test_a_named_postgres_is_taken_with_the_initdb_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in PostgresqlServer.needs:
        _program(tmp_path / "bin" / name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    own = _program(tmp_path / "own/postgres")
    monkeypatch.setenv(programs.POSTGRES_VARIABLE, str(own))
    assert PostgresqlServer.find("postgres") == own
    with refused(ErrorId.PROGRAM_VARIABLE_WRONG, UsageError, naming="initdb"):
        PostgresqlServer.find("initdb")  # another version's would not fit
    beside = _program(tmp_path / "own/initdb")
    assert PostgresqlServer.find("initdb") == beside
    debug = _program(tmp_path / "own/postgres-debug")
    monkeypatch.setenv(programs.POSTGRES_VARIABLE, str(debug))
    assert PostgresqlServer.find("postgres") == debug
    monkeypatch.delenv(programs.POSTGRES_VARIABLE)
    assert PostgresqlServer.find("postgres") not in (None, own)


@pytest.mark.parametrize("named", ["/nowhere/postgres", "bin/postgres", ".", "/"])
def test_a_name_that_is_not_a_program_is_refused(
    named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A relative one is refused too: the lab's processes have another folder."""
    _program(tmp_path / "bin/postgres")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(programs.POSTGRES_VARIABLE, named)
    with refused(ErrorId.PROGRAM_VARIABLE_WRONG, UsageError, naming=named):
        PostgresqlServer.missing()


@pytest.mark.parametrize("size", ["1", "3MB", "128MB", "1mb", "0MB", "16 MB"])
def test_a_size_that_a_lab_cannot_have_is_refused(size: str) -> None:
    with refused(
        ErrorId.SETTING_INVALID, UsageError, naming=("wal_segment_size", size)
    ):
        PostgresqlServer.check_settings({"wal_segment_size": size})


@pytest.mark.parametrize("name", ["wal-segment-size", "WAL_SEGMENT_SIZE"])
def test_the_name_of_the_setting_is_known_however_it_is_written(name: str) -> None:
    with refused(ErrorId.SETTING_INVALID, UsageError, naming="is not a size"):
        PostgresqlServer.check_settings({name: "3MB"})


def test_sizes_that_initdb_takes_pass() -> None:
    for size in ("1MB", "16MB", "64MB"):
        PostgresqlServer.check_settings({"wal_segment_size": size})
