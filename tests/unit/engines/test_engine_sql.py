"""Every statement in sql/: one per file, explained, and the two families alike."""

from __future__ import annotations

import re

import pytest

from dbcheck.config.files import find_data_folder, read_sql
from dbcheck.rows.table import SIDES, TABLES, TableSpec

EVERY = ("create", "row", "survivors", "count", "drop")
OF_SIDES = ("batch", "truncate", "index", "rewrite")
FILES = [
    (family, entry.name.removesuffix(".sql"))
    for family in ("mysql", "postgresql")
    for entry in find_data_folder("sql").joinpath(family).iterdir()
    if entry.name.endswith(".sql")
]


@pytest.mark.parametrize(("family", "name"), FILES)
def test_a_file_holds_one_statement_and_says_what_for(family: str, name: str) -> None:
    text = find_data_folder("sql").joinpath(family, f"{name}.sql").read_text("utf-8")
    assert text.startswith("-- ")
    assert text.rstrip().endswith(";")
    assert ";" not in read_sql(family, name)
    assert max(map(len, text.splitlines())) <= 88


@pytest.mark.parametrize("family", ["mysql", "postgresql"])
@pytest.mark.parametrize(
    ("table", "verb"),
    [
        pytest.param(table, verb, id=f"{table.name}-{verb}")
        for table in TABLES
        for verb in (*EVERY, *(OF_SIDES if table in SIDES else ("insert", "epochs")))
    ],
)
def test_both_families_have_every_verb(
    family: str, table: TableSpec, verb: str
) -> None:
    text = read_sql(family, f"{verb}_{table.name}")
    assert re.search(rf"\b{table.name}\b", text)


def test_the_classic_insert_is_word_for_word() -> None:
    assert read_sql("mysql", "insert_fs") == "INSERT INTO fs VALUES(0)"
