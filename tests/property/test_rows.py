"""Rows read in bulk are the rows that were sent, and damage is no row."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import mysql.connector
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.engines.link import ProtocolViolation
from dbcheck.engines.mysql.rows import Layout, RowReader
from dbcheck.engines.postgresql.rows import CopyParser
from dbcheck.rows.acks import Row
from tests.kit.tables import (
    COPY_HEADER,
    COPY_TRAILER,
    MYSQL_END,
    MYSQL_TYPES,
    binary,
    copied,
    copy_of,
    packets,
    result_of,
)


def _whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


SIZES = st.sampled_from([0, 1, 128, 250, 251, 252, 65535, 65536, 1 << 20])
ROWS = st.builds(
    Row,
    *(_whole(bits) for bits in (64, 64, 32, 64, 16)),
    st.binary(max_size=20) | SIZES.map(bytes),
    _whole(64),
)


def read_copy(messages: list[bytes], cut: Callable[[int], int]) -> list[Row]:
    parser, rows, at = CopyParser(), list[Row](), 0
    while at < len(messages):
        some = messages[at : at + max(1, cut(len(messages)))]
        rows += parser.parse(some) or []
        at += len(some)
    assert parser.parse([]) is None
    return rows


def reader_of(stream: bytes, cut: Callable[[int], int]) -> RowReader:
    left = memoryview(stream)

    def read(into: memoryview) -> int:
        nonlocal left
        count = min(len(left), len(into), max(1, cut(len(into))))
        into[:count], left = left[:count], left[count:]
        return count

    return RowReader(Layout(MYSQL_TYPES), read)


def read_result(stream: bytes, cut: Callable[[int], int]) -> list[Row]:
    return [row for batch in reader_of(stream, cut).batches() for row in batch]


@given(st.lists(ROWS, max_size=12), st.integers(1, 12))
def test_a_copy_gives_the_rows_that_were_sent(rows: list[Row], step: int) -> None:
    assert read_copy(copy_of(rows), lambda _: step) == rows
    apart = [COPY_HEADER, *map(copied, rows), COPY_TRAILER]
    assert read_copy(apart, lambda _: step) == rows


@given(st.lists(ROWS, max_size=12), st.integers(1, 1 << 21))
def test_a_result_gives_the_rows_that_were_sent(rows: list[Row], step: int) -> None:
    assert read_result(result_of(rows), lambda _: max(step, 4000)) == rows
    ok = b"\xfe\0\0\2\0\0\0"  # the end where CLIENT_DEPRECATE_EOF was agreed upon
    assert read_result(result_of(rows, ok), lambda size: size) == rows


@given(st.lists(ROWS.filter(lambda row: len(row.payload) < 300), max_size=5))
def test_a_result_in_single_bytes_gives_the_rows(rows: list[Row]) -> None:
    assert read_result(result_of(rows), lambda _: 1) == rows


@pytest.mark.parametrize("more", [-1, 0, 1, 0xFFFFFF, 0xFFFFFF + 1])
def test_a_row_in_several_packets_is_one(more: int) -> None:
    small = Row(1, 2, 3, 4, 5, b"x", 6)
    size = 0xFFFFFF - len(binary(small._replace(payload=bytes(65536)))) + 65536 + more
    rows = [small, small._replace(payload=bytes(size)), small]
    assert read_result(result_of(rows), lambda size: size) == rows


@given(st.lists(ROWS, min_size=1, max_size=4), st.data())
def test_a_torn_stream_is_never_whole(rows: list[Row], data: st.DataObject) -> None:
    stream = result_of(rows)
    torn = stream[: data.draw(st.integers(0, len(stream) - 1))]
    with pytest.raises(
        ProtocolViolation, match="the connection ended in the middle of the rows"
    ):
        read_result(torn, lambda size: size)
    messages = copy_of(rows)
    with pytest.raises(ProtocolViolation, match="COPY"):
        read_copy(messages[: data.draw(st.integers(1, len(messages) - 1))], lambda _: 3)


@given(ROWS.filter(lambda row: len(row.payload) < 300), st.data())
def test_damage_is_refused_or_changes_one_row(row: Row, data: st.DataObject) -> None:
    """Never does it make rows appear or vanish."""
    at = data.draw(st.integers(0, len(copied(row)) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    message = bytearray(copied(row))
    message[at] ^= bit
    with contextlib.suppress(ProtocolViolation):
        (found,) = read_copy([COPY_HEADER, bytes(message), COPY_TRAILER], len_of)
        assert found != row
    body = bytearray(binary(row))
    body[min(at, len(body) - 1)] ^= bit
    stream = packets(bytes(body), 0) + packets(MYSQL_END, 1)
    with contextlib.suppress(ProtocolViolation):
        (found,) = read_result(stream, len_of)
        assert found != row


def len_of(size: int) -> int:
    return size


@pytest.mark.parametrize("checksum", [-8, 0, 8])
def test_a_checksum_is_not_taken_for_the_length_before_it(checksum: int) -> None:
    """As a length of 8 bytes, -8 would lead from behind the checksum back to it."""
    body = bytearray(binary(Row(1, 2, 3, 4, 5, b"", checksum)))
    body[-9] = 0xFE  # instead of a length of 0
    stream = packets(bytes(body), 0) + packets(MYSQL_END, 1)
    with pytest.raises(ProtocolViolation, match="not a row of the table"):
        read_result(stream, len_of)


@pytest.mark.parametrize(
    "types",
    [
        pytest.param(MYSQL_TYPES[:-1], id="a column too few"),
        pytest.param((*MYSQL_TYPES, 8), id="a column too many"),
        pytest.param((8, 8, 3, 8, 2, 8, 8), id="a payload that is a number"),
        pytest.param((8, 8, 3, 8, 2, 252, 5), id="a checksum that is a float"),
    ],
)
def test_other_columns_are_refused(types: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolViolation, match="types"):
        Layout(types)


def test_an_error_amid_the_rows_is_the_servers() -> None:
    error = b"\xff\x7a\x04#42S02no such table"
    rows = [Row(1, 2, 3, 4, 5, b"x", 6)]
    reader = reader_of(result_of(rows, error), len_of).batches()
    assert list(next(reader)) == rows
    with pytest.raises(mysql.connector.Error, match="1146 .*no such table"):
        next(reader)
