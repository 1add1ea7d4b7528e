"""Fills a table by COPY in the binary format (PostgreSQL 17 manual, COPY).

Blocks of rows become the bytes of COPY in numpy: no object is made for a row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.rows.fill import Block, Fill
from dbcheck.rows.table import KEYED, Column, Kind, TableSpec

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension
_TRAILER = struct.pack("!h", -1)
_INTEGERS = {Kind.BIGINT: ">i8", Kind.INTEGER: ">i4", Kind.SMALLINT: ">i2"}
_SENT_COLUMNS = KEYED[1:]  # the server chooses the id


def fill(link: PostgresqlLink, table: TableSpec, rows: Fill) -> Iterator[int]:
    """Insert *rows*; yield how many each transaction inserted once it is committed."""
    for numbers in rows.transactions():
        if table.has_key:
            pieces = _copy_stream(rows.blocks(numbers))
            link.copy_in(f"fill_{table.name}", pieces, len(numbers))
        else:
            link.insert_ids(f"fill_{table.name}", len(numbers))
        yield len(numbers)


def _copy_stream(blocks: Iterator[Block]) -> Iterator[bytes]:
    yield _HEADER
    for block in blocks:
        yield _encode_tuples(block)
    yield _TRAILER


def _encode_tuples(block: Block) -> bytes:
    """Return the rows in COPY's binary format.

    Before a row stands the number of its fields; before a field its length in bytes.
    """
    payload_bytes = block.payloads.shape[1]
    layout: list[tuple[str, str]] = [("", ">i2")]
    for column in _SENT_COLUMNS:
        layout += [
            (_length_field(column), ">i4"),
            (column.name, _field_type(column, payload_bytes)),
        ]
    rows = np.empty(len(block), np.dtype(layout))
    rows["f0"] = len(_SENT_COLUMNS)  # numpy's name of the first field, named ""
    for column in _SENT_COLUMNS:
        rows[_length_field(column)] = rows.dtype[column.name].itemsize
        if column.kind is Kind.BYTES:
            rows[column.name] = block.payloads.view(f"V{payload_bytes}").ravel()
        else:
            rows[column.name] = block.columns[column.name]
    return rows.tobytes()


def _length_field(column: Column) -> str:
    """Return the name of the field that holds the length of *column*."""
    return f"{column.name} length"


def _field_type(column: Column, payload_bytes: int) -> str:
    """Return numpy's type of the values of *column*."""
    return f"V{payload_bytes}" if column.kind is Kind.BYTES else _INTEGERS[column.kind]
