"""Where real servers say that they keep what an ack depends on."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from dbcheck.config.files import read_sql
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER
from tests.kit.lab_access import connect
from tests.kit.servers import engine_of

INSIDE = {
    "postgresql": {
        "data",
        "WAL",
        "commit status",
        "multixacts",
        "global",
        "database",
        "table",
        "index",
    },
    "mariadb": {"data", "redo log", "undo", "system tablespace", "database"},
    "myrocks": {
        *("data", "InnoDB redo log", "undo", "system tablespace", "database"),
        *("RocksDB", "RocksDB log"),
    },
    "mysql": {
        "data",
        "redo log",
        "undo",
        "doublewrite",
        "system tablespace",
        "database",
    },
}


def execute(server: DatabaseServer, *statements: str) -> None:
    with contextlib.closing(connect(server.url, server.password)) as connection:
        for statement in statements:
            connection.cursor().execute(statement)


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder that any server may write to."""
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_server_names_places_that_are_there(
    server: DatabaseServer, engine: Engine
) -> None:
    for _ in range(2):
        places = {place.name: Path(place.path) for place in engine.places((LEDGER,))}
        assert places.keys() - {"binary log"} == INSIDE[server.name]
        assert places["data"] == server.data
        for path in places.values():
            assert path.is_dir()
            assert path.is_relative_to(server.data)
        engine.prepare((LEDGER,))


def test_a_tablespace_of_postgresql_is_named_before_and_after_the_table_is_made(
    postgresql_server: DatabaseServer, elsewhere: Path
) -> None:
    engine = engine_of(postgresql_server)
    engine.drop()
    if os.geteuid() == 0:
        owner = postgresql_server.data.stat()
        os.chown(elsewhere, owner.st_uid, owner.st_gid)
    create = f"create tablespace apart location '{elsewhere}'"
    execute(
        postgresql_server, create, "alter role dbcheck set default_tablespace = apart"
    )
    try:
        for folder in (str(elsewhere), f"{elsewhere}/PG_*/*[0-9]"):
            places = {p.name: p.path for p in engine.places((LEDGER,))}
            assert fnmatch(places["table"], folder)
            assert places["index"] == places["table"]
            assert Path(places["table"]).is_dir()
            assert fnmatch(places["database"], f"{postgresql_server.data}/base/*[0-9]")
            engine.prepare((LEDGER,))
            execute(postgresql_server, "alter role dbcheck reset default_tablespace")
        drop = "alter table dbcheck.ledger drop constraint ledger_pkey"
        add = "add primary key (id) using index tablespace pg_default"
        execute(postgresql_server, f"{drop}, {add}")
        places = {p.name: p.path for p in engine.places((LEDGER,))}
        assert fnmatch(places["table"], folder)
        assert places["index"] == places["database"]
    finally:
        engine.drop()
        execute(
            postgresql_server,
            "alter role dbcheck reset default_tablespace",
            "drop tablespace apart",
        )


def test_a_table_of_mariadb_that_lies_elsewhere(
    mariadb_server: DatabaseServer, elsewhere: Path
) -> None:
    engine = engine_of(mariadb_server)
    engine.drop()
    statement = read_sql("mysql", "create_ledger").rstrip("; \n")
    execute(mariadb_server, f"{statement} data directory = '{elsewhere}'")
    try:
        places = {p.name: Path(p.path) for p in engine.places((LEDGER,))}
        assert places["table"] == elsewhere / "dbcheck"
        assert (places["table"] / "ledger.ibd").is_file()
    finally:
        engine.drop()
