"""Every statement in sql/: one per file, explained, and the two families alike."""

from __future__ import annotations

import re

import pytest

from dbcheck.core.table import TABLES, TableSpec
from dbcheck.files import folder, sql

FILES = [
    (family, entry.name.removesuffix(".sql"))
    for family in ("mysql", "postgresql")
    for entry in folder("sql").joinpath(family).iterdir()
    if entry.name.endswith(".sql")
]


@pytest.mark.parametrize(("family", "name"), FILES)
def test_a_file_holds_one_statement_and_says_what_for(family: str, name: str) -> None:
    text = folder("sql").joinpath(family, f"{name}.sql").read_text("utf-8")
    assert text.startswith("-- ")
    assert text.rstrip().endswith(";")
    assert ";" not in sql(family, name)
    assert max(map(len, text.splitlines())) <= 88


@pytest.mark.parametrize("family", ["mysql", "postgresql"])
@pytest.mark.parametrize(
    "verb", ["create", "insert", "epochs", "row", "survivors", "count"]
)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_both_families_have_every_verb(
    family: str, verb: str, table: TableSpec
) -> None:
    text = sql(family, f"{verb}_{table.name}")
    assert re.search(rf"\b{table.name}\b", text)


def test_the_classic_insert_is_word_for_word() -> None:
    assert sql("mysql", "insert_fs") == "INSERT INTO fs VALUES(0)"
