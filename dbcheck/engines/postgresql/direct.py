"""Hands a session's connection to code in C, which commits over it; see load._rounds.

It calls the libpq that psycopg has loaded, on psycopg's connection.  psycopg documents
the address of that connection (PGconn.pgconn_ptr).
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psycopg.pq
from psycopg.pq import DiagnosticField
from psycopg.pq.abc import PGconn

from dbcheck.ports.connection import Taken
from dbcheck.rows.batches import Batch
from dbcheck.rows.table import Column, Kind

# In the order of Calls in load/_rounds.c.
NAMES = (
    "PQconsumeInput",
    "PQisBusy",
    "PQgetResult",
    "PQclear",
    "PQresultStatus",
    "PQcmdStatus",
    "PQresultErrorMessage",
    "PQresultErrorField",
    "PQntuples",
    "PQnfields",
    "PQgetisnull",
    "PQgetlength",
    "PQgetvalue",
    "PQtransactionStatus",
    "PQsendQueryPrepared",
    "PQflush",
)

_TYPES = {Kind.BIGINT: ">i8", Kind.INTEGER: ">i4", Kind.SMALLINT: ">i2"}
_ROW_COLUMNS = {"epoch", "session", "seq", "part", "payload", "checksum"}


@functools.cache
def find_calls() -> bytes | None:
    """Return the addresses of NAMES in the libpq that psycopg uses.

    None if they cannot be found, as where psycopg itself is not compiled.
    """
    module = sys.modules[psycopg.pq.PGconn.__module__]
    path = Path(module.__file__ or "")
    if path.suffix != ".so":
        return None
    try:
        # Names are looked for in the module and in what it was linked with (dlsym(3)).
        library = ctypes.CDLL(str(path))
        found = [ctypes.cast(getattr(library, name), ctypes.c_void_p) for name in NAMES]
    except (OSError, AttributeError):
        return None
    addresses = [each.value or 0 for each in found]
    return np.array(addresses, np.uintp).tobytes() if all(addresses) else None


def find_address(pgconn: PGconn) -> int | None:
    """Return the address of a connection; None where psycopg does not tell it."""
    address: int | None = getattr(pgconn, "pgconn_ptr", None)
    return address


class RowPacker:
    """Packs the values of one statement's rows, as PostgreSQL takes them in binary."""

    def __init__(self, parameters: Sequence[Column]) -> None:
        """parameters: columns of a row of rows.batches."""
        self._columns = [(c.name, c.kind) for c in parameters]
        self._record = np.dtype(
            [(c.name, _TYPES[c.kind]) for c in parameters if c.kind in _TYPES]
        )

    @staticmethod
    def can_pack(parameters: Sequence[Column]) -> bool:
        """Return True if each of *parameters* is a value of a Batch."""
        return {column.name for column in parameters} == _ROW_COLUMNS

    def pack(self, batch: Batch) -> tuple[bytes, bytes]:
        """Return where each value is, and the values; see load._rounds."""
        count, record = len(batch), self._record
        records = np.zeros(count, record)
        records["epoch"], records["session"] = batch.epoch, batch.session
        records["seq"] = batch.first_seq + np.arange(count)
        records["checksum"] = batch.checksums
        starts = record.itemsize * np.arange(count)
        table = np.empty((count, len(self._columns), 2), np.int64)
        for place, (name, kind) in enumerate(self._columns):
            if kind is Kind.BYTES:
                table[:, place, 0] = records.nbytes + batch.places
                table[:, place, 1] = batch.sizes
                continue
            table[:, place, 0] = starts
            table[:, place, 1] = record[name].itemsize
            starts = starts + record[name].itemsize
        return table.tobytes(), records.tobytes() + batch.content


class TakenResult:
    """A result that code in C took; of psycopg's PGresult what a session asks for."""

    def __init__(self, taken: Taken) -> None:
        self.status, self.command_status, self._value, self._message, fields = taken
        self._fields = fields

    def get_value(self, row: int, column: int) -> bytes | None:
        """Return the first value of the first row, None if there is none."""
        return self._value if (row, column) == (0, 0) else None

    def error_field(self, code: int) -> bytes | None:
        """Return a field of the server's message."""
        return self._fields.get(code)

    @property
    def error_message(self) -> bytes:
        """The server's message, with its severity."""
        return self._message

    def get_error_message(self, encoding: str = "utf-8") -> str:
        """Return the same as psycopg shows it, without its severity."""
        severity = self._fields.get(DiagnosticField.SEVERITY, b"")
        text = self._message.removeprefix(severity + b":").decode(encoding, "replace")
        return text.strip() or "no error details available"
