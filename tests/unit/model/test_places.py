"""Where a server keeps what an ack depends on, from its settings, and what is said."""

from __future__ import annotations

import pytest

from dbcheck.audit.mysql import ROCKSDB, TABLES
from dbcheck.engines.mysql import places as mysql_places
from dbcheck.engines.postgresql import places as postgresql_places
from dbcheck.judge.item import Status
from dbcheck.judge.watched import places as places_item
from dbcheck.model.places import (
    Place,
    list_moved_places,
    list_places_outside_data,
    number_places,
)
from tests.kit.cases import case

MARIADB = {
    "datadir": "/d/",
    "innodb_log_group_home_dir": "./",
    "innodb_undo_directory": "./",
    "innodb_doublewrite": "ON",
    "innodb_data_home_dir": "",
    "innodb_data_file_path": "ibdata1:12M:autoextend",
    "log_bin": "OFF",
    "log_bin_basename": "",
}
MYSQL = MARIADB | {"innodb_redo_log_capacity": "1", "innodb_doublewrite_dir": ""}


def innodb(
    given: dict[str, str],
    statement: str = "",
    database: str = "dbcheck",
    undo_files: list[str] | None = None,
    base: dict[str, str] = MARIADB,
) -> dict[str, str]:
    found = mysql_places.places(
        base | given, database, statement=statement, undo_files=undo_files
    )
    assert len({place.name for place in found}) == len(found)
    return {place.name: place.path for place in found}


def test_all_of_mariadb_is_in_its_data_directory_by_default() -> None:
    assert innodb({}) == {
        "data": "/d",
        "redo log": "/d",
        "undo": "/d",
        "system tablespace": "/d",
        "database": "/d/dbcheck",
    }


def test_myrocks_has_a_folder_of_its_own_and_maybe_one_for_its_log() -> None:
    given = {TABLES: ROCKSDB, "rocksdb_datadir": "./#rocksdb", "rocksdb_wal_dir": ""}
    found = innodb(given)
    assert found["RocksDB"] == found["RocksDB log"] == "/d/#rocksdb"
    assert "redo log" not in found  # its commits leave that alone
    assert found["InnoDB redo log"] == "/d"
    assert innodb({**given, "rocksdb_wal_dir": "/wal"})["RocksDB log"] == "/wal"


def test_mysql_has_a_folder_for_its_redo_log() -> None:
    assert innodb({}, base=MYSQL)["redo log"] == "/d/#innodb_redo"
    apart = innodb({"innodb_log_group_home_dir": "/r"}, base=MYSQL)
    assert apart["redo log"] == "/r/#innodb_redo"


@pytest.mark.parametrize(
    ("given", "name", "path"),
    [
        ({"innodb_log_group_home_dir": "/r/"}, "redo log", "/r"),
        ({"innodb_log_group_home_dir": "../r"}, "redo log", "/r"),
        ({"innodb_undo_directory": "/u"}, "undo", "/u"),
        ({"innodb_directories": "/u2; /u3"}, "undo 3", "/u3"),
        ({"innodb_doublewrite_dir": "/w"}, "doublewrite", "/w"),
        (
            {"innodb_doublewrite_dir": "", "innodb_data_home_dir": "/h"},
            "doublewrite",
            "/h",
        ),
        ({"innodb_data_home_dir": "/h"}, "system tablespace", "/h"),
        (
            {"innodb_data_file_path": "a:10M;/b/c:1G:autoextend:max:2G"},
            "system tablespace 2",
            "/b",
        ),
        ({"log_bin": "ON", "log_bin_basename": "/l/bin"}, "binary log", "/l"),
        ({"log_bin": "1", "log_bin_basename": "/d/bin"}, "binary log", "/d"),
    ],
)
def test_settings_of_innodb_put_things_elsewhere(
    given: dict[str, str], name: str, path: str
) -> None:
    assert innodb(given)[name] == path


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"log_bin_basename": "/l/bin"}, "binary log"),
        ({"innodb_doublewrite": "OFF", "innodb_doublewrite_dir": "/w"}, "doublewrite"),
    ],
)
def test_what_is_switched_off_is_in_no_place(given: dict[str, str], name: str) -> None:
    assert name not in innodb(given)


def test_undo_tablespaces_that_the_server_names() -> None:
    found = innodb({"innodb_directories": "/x"}, undo_files=["./undo_001", "/u/a.ibu"])
    assert (found["undo"], found["undo 2"]) == ("/d", "/u")
    assert "/x" not in found.values()


def test_a_database_has_a_folder_of_its_own_name() -> None:
    assert innodb({}, database="my-db")["database"] == "/d/my@002ddb"
    lower = innodb({"lower_case_table_names": "1"}, database="Db")
    assert lower["database"] == "/d/db"
    assert "database" not in innodb({}, database="")


@pytest.mark.parametrize(
    ("statement", "name", "path"),
    [
        ("create table `t` (...) ENGINE=InnoDB COMMENT='dbcheck 1'", "table", None),
        (
            "... ENGINE=InnoDB DATA DIRECTORY='/x/y/' COMMENT='z'",
            "table",
            "/x/y/dbcheck",
        ),
        ("... DATA DIRECTORY = '/it''s'", "table", "/it's/dbcheck"),
        ("... /*!50100 TABLESPACE `fast` */ ENGINE", "tablespace fast", ""),
        ("... TABLESPACE=`innodb_system`", "tablespace innodb_system", None),
    ],
)
def test_a_table_may_lie_elsewhere(statement: str, name: str, path: str | None) -> None:
    assert innodb({}, statement).get(name) == path


def test_of_postgresql_some_places_are_known_by_their_names_alone() -> None:
    found = postgresql_places.places(
        "/d",
        {
            "table": ("/fast", "pg_tblspc/7/PG_17_202406281/5/16390"),
            "index": ("/slow", ""),
            "database": ("", "base/5/1259"),
        },
    )
    assert {place.name: place.path for place in found} == {
        "data": "/d",
        "WAL": "/d/pg_wal",
        "commit status": "/d/pg_xact",
        "multixacts": "/d/pg_multixact",
        "global": "/d/global",
        "database": "/d/base/5",
        "table": "/fast/PG_17_202406281/5",
        "index": "/slow",
    }
    relations = {
        "table": ("/fast", ""),
        "index": ("", ""),
        "database": ("", "base/5/1"),
    }
    hidden = postgresql_places.places("", relations)
    assert [(place.name, place.path) for place in hidden] == [("table", "/fast")]
    in_place = {"table": ("pg_tblspc/5", "pg_tblspc/5/PG_17_2/6/9"), "index": ("", "")}
    inside = {p.name: p.path for p in postgresql_places.places("/d", in_place)}
    assert inside["table"] == "/d/pg_tblspc/5/PG_17_2/6"
    assert inside["index"] == "/d/base"


def test_without_its_host_what_is_outside_of_the_data_directory_is_named() -> None:
    inside = [Place("data", "/d"), Place("redo log", "/d/r"), Place("undo", "/d")]
    apart = [Place("binary log", "/dd/l"), Place("tablespace t", "")]
    assert list_places_outside_data([*inside, *apart]) == apart
    assert list_places_outside_data(apart) == apart
    item = places_item(case(places=(*inside, *apart)))
    assert item is not None
    assert (item.status, item.required) == (Status.NOT_OBSERVABLE, False)
    assert "binary log (/dd/l), tablespace t (unknown)" in item.reason
    assert places_item(case(places=tuple(inside))) is None


def test_the_places_of_several_tables_have_names_of_their_own() -> None:
    first = [Place("data", "/d"), Place("table", "/fast", ("a*",))]
    second = [Place("data", "/d"), Place("table", "/slow"), Place("table", "/fast")]
    found = [Place("data", "/d"), Place("table", "/fast", ("a*",))]
    assert number_places([*first, *second]) == (*found, Place("table 2", "/slow"))


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({"data": "/d", "table": "/d/base"}, {"table": "/d/base/5"}, []),
        ({"data": "/d", "table": "/d/base/5"}, {"table": "/mnt/PG_15/5"}, ["table"]),
        ({"data": "/d", "table": "/mnt/PG_15/5"}, {"table": "/d/base/5"}, ["table"]),
        ({"data": "/d"}, {"data": "/d", "database": "/d/dbcheck"}, []),
        ({"data": "/d"}, {"data": "/d", "tablespace fast": ""}, ["tablespace fast"]),
        ({"data": "/d", "tablespace fast": ""}, {"tablespace fast": ""}, []),
        ({"data": "/d"}, {"data": "/data2"}, ["data"]),
        ({"undo": "/d", "undo 2": "/a"}, {"undo": "/a", "undo 2": "/d"}, []),
        ({"undo": "/d", "undo 2": "/a"}, {"undo": "/d", "undo 2": "/b"}, ["undo 2"]),
        ({"undo": "/d", "undo 2": "/a"}, {"undo": "/a", "undo 2": "/a/x"}, []),
        ({"undo": "/d", "wal": "/a"}, {"undo": "/a", "wal": "/d"}, ["undo", "wal"]),
    ],
)
def test_places_that_are_not_where_they_were(
    before: dict[str, str], after: dict[str, str], names: list[str]
) -> None:
    """A table that was yet to be made was expected in its tablespace's folder."""
    found = list_moved_places(
        *([Place(n, p) for n, p in x.items()] for x in (before, after))
    )
    assert list(found) == names
