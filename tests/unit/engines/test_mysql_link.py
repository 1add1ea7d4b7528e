"""Which errors of MySQL and MariaDB blame the table, and which may not."""

from __future__ import annotations

import mysql.connector
import pytest

from dbcheck.base.errors import EngineError, TableLost, TableRefused
from dbcheck.engines.mysql.link import _table_or_engine_error

DAMAGED = [
    (1034, "Index for table 'ledger' is corrupt; try to repair it"),
    (1712, "Index ledger is corrupted"),
    (
        1877,
        "Table `dbcheck`.`ledger` is corrupted. Please drop the table and recreate.",
    ),
    (1030, 'Got error 5 "Input/output error" from storage engine InnoDB'),
    (1030, 'Got error 126 "Index file is crashed" from storage engine Aria'),
    (1016, "Can't open file: './dbcheck/ledger.ibd' (errno: 5 \"Input/output error\")"),
    (
        1017,
        "Can't find file: './dbcheck/ledger.frm' (errno: 140 \"Wrong create options\")",
    ),
]
REFUSED = [
    (1412, "Table definition has changed, please retry transaction"),
    (1812, "Tablespace is missing for table `dbcheck`.`ledger`."),
    (1814, "Tablespace has been discarded for table `ledger`"),
    (
        1030,
        'Got error 194 "Tablespace is missing for a table" from storage engine InnoDB',
    ),
    (1030, 'Got error 28 "No space left on device" from storage engine InnoDB'),
    (1030, "Got error 12 - 'Cannot allocate memory' from storage engine"),
    (1016, "Can't open file: './dbcheck/ledger.ibd' (errno: 24 - Too many open files)"),
    (1016, "Can't open file: './dbcheck/ledger.ibd' (errno: 13 \"Permission denied\")"),
    (
        1017,
        "Can't find file: './dbcheck/ledger.frm' (errno: 23 \"Too many open files\")",
    ),
    (1017, "Can't find file: './dbcheck/ledger.frm' (errno: 2 \"No such file\")"),
]


@pytest.mark.parametrize(("number", "words"), DAMAGED)
def test_an_error_that_names_damage_blames_the_table(number: int, words: str) -> None:
    found = _table_or_engine_error(mysql.connector.Error(words, number), words)
    assert isinstance(found, TableLost)
    assert not found.missing


@pytest.mark.parametrize(("number", "words"), REFUSED)
def test_a_file_that_is_not_opened_is_no_damage(number: int, words: str) -> None:
    assert isinstance(
        _table_or_engine_error(mysql.connector.Error(words, number), words),
        TableRefused,
    )


def test_a_table_that_is_not_there_is_missing() -> None:
    found = _table_or_engine_error(
        mysql.connector.Error("Table 'ledger' doesn't exist", 1146), ""
    )
    assert isinstance(found, TableLost)
    assert found.missing
    assert (
        type(_table_or_engine_error(mysql.connector.Error("Lock wait", 1205), ""))
        is EngineError
    )
