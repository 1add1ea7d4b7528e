"""The values and results that pass between a session and code in C."""

from __future__ import annotations

import struct

import numpy as np
from psycopg.errors import DiskFull, error_from_result
from psycopg.pq import DiagnosticField, ExecStatus

from dbcheck.engines.postgresql.direct import RowPacker, TakenResult
from dbcheck.rows.batches import Batches
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER

SCHEDULE = Schedule(7, 9, (1, 100))


def test_a_packed_row_is_what_postgresql_takes_in_binary() -> None:
    batch = Batches(SCHEDULE).make(3, 4, 20)
    table, data = RowPacker(INSERT.parameters).pack(batch)
    places = np.frombuffer(table, np.int64).reshape(20, 6, 2)
    for number, row in enumerate(places.tolist()):
        packed = [data[place : place + length] for place, length in row]
        epoch, session, seq, part, content, checksum = SCHEDULE.values(3, 4 + number)
        assert packed[4] == content
        del packed[4]
        numbers = struct.pack("!qiqhq", epoch, session, seq, part, checksum)
        assert [len(value) for value in packed] == [8, 4, 8, 2, 8]
        assert b"".join(packed) == numbers


def test_only_a_row_of_the_ledger_is_packed() -> None:
    assert RowPacker.can_pack(INSERT.parameters)
    assert not RowPacker.can_pack(LEDGER.columns)
    assert not RowPacker.can_pack(())


def test_a_result_that_was_taken_gives_the_same_error() -> None:
    fields: dict[int, bytes] = {
        DiagnosticField.SEVERITY: b"FEHLER",
        DiagnosticField.SEVERITY_NONLOCALIZED: b"ERROR",
        DiagnosticField.SQLSTATE: b"53100",
    }
    message = b"FEHLER:  kein Platz\nHINT:  Platz machen\n"
    taken = (int(ExecStatus.FATAL_ERROR), b"", None, message, fields)
    result = TakenResult(taken)
    assert result.status == ExecStatus.FATAL_ERROR
    assert result.get_value(0, 0) is None
    error = error_from_result(result)  # type: ignore[arg-type]
    assert isinstance(error, DiskFull)
    assert str(error) == "kein Platz\nHINT:  Platz machen"
    assert error.diag.severity_nonlocalized == "ERROR"
    assert error.sqlstate == "53100"


def test_a_result_that_was_taken_keeps_its_value() -> None:
    result = TakenResult((2, b"INSERT 0 1", b"\0\7", b"", {}))
    assert (result.command_status, result.get_value(0, 0)) == (b"INSERT 0 1", b"\0\7")
    assert result.get_value(0, 1) is None
    assert result.get_error_message() == "no error details available"
