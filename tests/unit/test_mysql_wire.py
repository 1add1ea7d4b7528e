from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.core.history import Row
from dbcheck.engines.mysql.wire import (
    Nonsense,
    Ok,
    Refusal,
    answer,
    execute,
    execute_head,
)

ROW = Row(0, 2**62, 65535, 2**32 - 1, 0, b"\0'\xff", 2**32 - 1)


def packet(body: bytes, number: int = 1) -> bytes:
    return len(body).to_bytes(3, "little") + bytes((number,)) + body


def ok(rows: bytes = b"\1", row_id: bytes = b"\7", status: int = 2) -> bytes:
    return packet(b"\0" + rows + row_id + struct.pack("<HH", status, 0))


OK = ok()
ERROR = packet(b"\xff" + struct.pack("<H", 1213) + b"#40001" + b"Deadlock")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(OK, Ok(1, 7, False), id="committed"),
        pytest.param(ok(status=3), Ok(1, 7, True), id="a transaction is open"),
        pytest.param(ok(rows=b"\0"), Ok(0, 7, False), id="no row"),
        pytest.param(ok(row_id=b"\xfc\1\2"), Ok(1, 513, False), id="id of 2 bytes"),
        pytest.param(ok(row_id=b"\xfd\0\0\1"), Ok(1, 65536, False), id="id of 3"),
        pytest.param(
            ok(row_id=b"\xfe" + (2**62).to_bytes(8, "little")),
            Ok(1, 2**62, False),
            id="id of 8",
        ),
        pytest.param(ERROR, Refusal(1213, "Deadlock"), id="error"),
        pytest.param(
            packet(b"\xff\x87\x07Killed", 0), Refusal(1927, "Killed"), id="farewell"
        ),
        pytest.param(
            packet(b"\xff\x15\x04#08004caf\xe9"), Refusal(1045, "caf�"), id="no UTF-8"
        ),
    ],
)
def test_an_answer_is_read(data: bytes, said: Ok | Refusal) -> None:
    assert answer(data) == said


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(packet(b""), id="empty"),
        pytest.param(packet(b"\0\1\7", 1), id="an OK cut short"),
        pytest.param(packet(b"\0\1\xfe\7\0\0\0\0"), id="an id cut short"),
        pytest.param(packet(b"\0\1\xfb\2\0\0\0"), id="an id that is NULL"),
        pytest.param(packet(b"\xfe\0\0\2\0"), id="EOF"),
        pytest.param(packet(b"\2"), id="a result set"),
        pytest.param(packet(b"\xff\1"), id="an error cut short"),
        pytest.param(ok()[:3] + b"\0" + ok()[4:], id="OK to another packet"),
        pytest.param(OK + OK, id="two answers"),
        pytest.param(OK + b"\0", id="more than an answer"),
        pytest.param(b"\xff\xff\xff\1", id="far too long"),
    ],
)
def test_what_is_no_answer_is_none(data: bytes) -> None:
    with pytest.raises(Nonsense):
        answer(data)


@pytest.mark.parametrize("whole", [OK, ERROR])
def test_a_part_of_an_answer_is_not_one_yet(whole: bytes) -> None:
    assert [answer(whole[:length]) for length in range(len(whole))] == [None] * len(
        whole
    )


@given(st.binary(max_size=40) | st.binary(max_size=40).map(packet))
def test_no_bytes_do_anything_else(data: bytes) -> None:
    with contextlib.suppress(Nonsense):
        assert answer(data) is None or isinstance(answer(data), Ok | Refusal)


@given(st.integers(0, len(OK) - 1), st.integers(0, 255))
def test_one_wrong_byte_never_opens_or_closes_a_transaction(
    place: int, value: int
) -> None:
    """Only the status byte itself may do so."""
    open_still = ok(status=3)
    changed = open_still[:place] + bytes((value,)) + open_still[place + 1 :]
    with contextlib.suppress(Nonsense):
        said = answer(changed)
        if isinstance(said, Ok) and place != len(OK) - 4:
            assert said.is_open or place in (5, 6)


@pytest.mark.parametrize("has_attributes", [False, True])
def test_an_execution_holds_the_values(has_attributes: bool) -> None:
    head = execute_head(9, has_key=True, has_attributes=has_attributes)
    sent = execute(head, ROW)
    assert int.from_bytes(sent[:3], "little") == len(sent) - 4
    assert sent[3:5] == b"\0\x17"
    assert sent[5:9] == (9).to_bytes(4, "little")
    values = struct.pack("<qiqhB", *ROW[1:5], 3) + ROW.payload
    assert sent.endswith(values + struct.pack("<q", ROW.checksum))
    assert (b"\x06\0\1\x08\0\0\x03" in sent) == has_attributes


@pytest.mark.parametrize("size", [0, 250, 251, 65535, 65536, 131072])
def test_a_payload_of_any_size_is_sent_whole(size: int) -> None:
    head = execute_head(1, has_key=True, has_attributes=False)
    sent = execute(head, ROW._replace(payload=bytes(size)))
    rest = sent[4 + len(head) + 22 : -8]
    width = {0xFC: 2, 0xFD: 3}.get(rest[0], 0)
    length = int.from_bytes(rest[1 : 1 + width], "little") if width else rest[0]
    assert (length, len(rest)) == (size, 1 + width + size)


def test_a_statement_without_values_is_sent_so() -> None:
    head = execute_head(1, has_key=False, has_attributes=True)
    assert execute(head, None) == b"\x0a\0\0\0\x17\1\0\0\0\0\1\0\0\0"


def test_a_value_out_of_range_is_refused() -> None:
    head = execute_head(1, has_key=True, has_attributes=False)
    with pytest.raises(struct.error):
        execute(head, ROW._replace(part=2**15))
