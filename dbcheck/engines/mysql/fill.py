"""Fills a table by prepared INSERTs of many rows each.

Blocks of rows become the values of COM_STMT_EXECUTE in numpy: no object is made for a
row, and nothing is written as text.  LOAD DATA LOCAL would need local_infile, which is
off by default on MySQL, and lets a server ask for any file (MySQL 8.4 manual, 8.1.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from dbcheck.config.files import read_sql
from dbcheck.engines.mysql.link import FAMILY, MysqlLink
from dbcheck.engines.mysql.wire import (
    encode_length,
    execution_head,
    first_packet,
    query_packets,
)
from dbcheck.rows.fill import Block, Fill
from dbcheck.rows.table import KEYED, Column, Kind, TableSpec

# Rows of a statement; fewer of large ones, so that a packet stays below what a server
# accepts (max_allowed_packet, by default: MySQL 64 MiB, MariaDB 16 MiB).
_ROWS = 256
_PACKET_BYTES = 1 << 20
_LENGTH = "length"
_IDS = 1 << 13  # rows of a statement that have an id alone
_INTEGERS = {Kind.BIGINT: "<i8", Kind.INTEGER: "<i4", Kind.SMALLINT: "<i2"}
_SENT_COLUMNS = KEYED[1:]  # the server chooses the id


def fill(link: MysqlLink, table: TableSpec, rows: Fill) -> Iterator[int]:
    """Insert *rows*; yield how many each transaction inserted once it is committed."""
    name = f"fill_{table.name}"
    statements = _Statements(link, name, max(rows.schedule.payload_bytes, default=0))
    for numbers in rows.transactions():
        if table.has_key:
            statements.prepare(len(numbers))
            packets = statements.packets(rows.blocks(numbers))
        else:
            packets = statements.id_packets(len(numbers))
        link.insert_all(name, packets, len(numbers))
        yield len(numbers)


class _Statements:
    """The INSERTs of many rows."""

    def __init__(self, link: MysqlLink, name: str, size_max: int) -> None:
        """Insert by sql/mysql/NAME.sql, which ends with the values of one row.

        size_max: bytes of the largest payload.
        """
        self._link, self._name = link, name
        self._text = read_sql(FAMILY, name)
        limit = int(dict(link.rows("variables"))["max_allowed_packet"])
        packet = min(_PACKET_BYTES, limit // 2)  # the rest: the other columns
        self._rows = max(1, min(_ROWS, packet // max(1, size_max)))
        self._heads: dict[int, bytes] = {}
        self._has_attributes = link.connection.has_query_attributes

    def prepare(self, rows: int) -> None:
        """Prepare what *rows* rows need; not while an answer is awaited."""
        for lines in {min(rows, self._rows), rows % self._rows} - {0}:
            if lines in self._heads:
                continue
            self._heads[lines] = execution_head(
                self._link.prepared(self._name, self._insert_text(lines)),
                _SENT_COLUMNS * lines,
                has_attributes=self._has_attributes,
            )

    def packets(self, blocks: Iterable[Block]) -> Iterator[bytes]:
        """Yield the packets that insert *blocks*."""
        parts: list[bytes] = []
        left = self._rows
        for block in blocks:
            lines = _encode_block(block)
            while lines.size:
                parts.append(lines[:left].tobytes())
                taken = min(left, lines.size)
                lines, left = lines[taken:], left - taken
                if not left:
                    yield self._packet(self._rows, parts)
                    parts, left = [], self._rows
        if parts:
            yield self._packet(self._rows - left, parts)

    def id_packets(self, rows: int) -> Iterator[bytes]:
        """Yield the packets that insert this number of rows with an id alone."""
        for begin in range(0, rows, _IDS):
            text = self._insert_text(min(_IDS, rows - begin))
            yield query_packets(text, has_attributes=self._has_attributes)

    def _insert_text(self, rows: int) -> bytes:
        """Return the text of the statement that inserts this number of rows."""
        values = self._text[self._text.rindex("(") :]
        return ",".join([self._text, *[values] * (rows - 1)]).encode()

    def _packet(self, rows: int, parts: list[bytes]) -> bytes:
        return first_packet(b"".join((self._heads[rows], *parts)))


def _encode_block(block: Block) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return the rows as binary values: each payload stands behind its length."""
    payload_bytes = block.payloads.shape[1]
    prefix = encode_length(payload_bytes)
    layout: list[tuple[str, str]] = []
    for column in _SENT_COLUMNS:
        if column.kind is Kind.BYTES:
            layout.append((_LENGTH, f"V{len(prefix)}"))
        layout.append((column.name, _field_type(column, payload_bytes)))
    rows = np.empty(len(block), np.dtype(layout))
    rows[_LENGTH] = np.void(prefix)
    for column in _SENT_COLUMNS:
        if column.kind is Kind.BYTES:
            rows[column.name] = block.payloads.view(f"V{payload_bytes}").ravel()
        else:
            rows[column.name] = block.columns[column.name]
    return rows


def _field_type(column: Column, payload_bytes: int) -> str:
    """Return numpy's type of the values of *column*."""
    return f"V{payload_bytes}" if column.kind is Kind.BYTES else _INTEGERS[column.kind]
