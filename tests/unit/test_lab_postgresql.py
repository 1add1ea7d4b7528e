"""Which PostgreSQL a lab runs, and the size of its WAL segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.errors import UsageError
from dbcheck.lab import programs
from dbcheck.lab.servers.postgresql import PostgresqlServer


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
    assert PostgresqlServer.find("initdb") is None  # another version's would not fit
    assert "DBCHECK_POSTGRES" in PostgresqlServer.missing()[0]
    beside = _program(tmp_path / "own/initdb")
    assert PostgresqlServer.find("initdb") == beside
    monkeypatch.delenv(programs.POSTGRES_VARIABLE)
    assert PostgresqlServer.find("postgres") not in (None, own)


@pytest.mark.parametrize("size", ["1", "3MB", "2048MB", "1mb", "0MB", "16 MB"])
def test_a_size_that_initdb_does_not_take_is_refused(size: str) -> None:
    with pytest.raises(UsageError, match=f"wal_segment_size={size} is not a size"):
        PostgresqlServer.check({"wal_segment_size": size})


def test_sizes_that_initdb_takes_pass() -> None:
    for size in ("1MB", "16MB", "1024MB"):
        PostgresqlServer.check({"wal_segment_size": size})
