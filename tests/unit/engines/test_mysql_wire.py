from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.engines.link import ProtocolViolation
from dbcheck.engines.mysql.session import _is_committed
from dbcheck.engines.mysql.wire import (
    Execution,
    Ok,
    Refusal,
    Template,
    parse_answers,
    parse_row_and_answers,
    parse_text_rows,
    query_packets,
)
from dbcheck.rows.acks import Row
from dbcheck.rows.table import LEDGER

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
    assert parse_answers(data, 1) == (said if isinstance(said, Refusal) else [said])


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
    with pytest.raises(ProtocolViolation, match="repl(y|ies)"):
        parse_answers(data, 1)


@pytest.mark.parametrize("whole", [OK, ERROR])
def test_a_part_of_an_answer_is_not_one_yet(whole: bytes) -> None:
    assert [parse_answers(whole[:length], 1) for length in range(len(whole))] == [
        None
    ] * len(whole)


@given(st.binary(max_size=40) | st.binary(max_size=40).map(packet))
def test_no_bytes_do_anything_else(data: bytes) -> None:
    with contextlib.suppress(ProtocolViolation):
        found = parse_answers(data, 1)
        assert found is None or isinstance(found, list | Refusal)


@given(st.integers(0, len(OK) - 1), st.integers(0, 255))
def test_one_wrong_byte_never_opens_or_closes_a_transaction(
    place: int, value: int
) -> None:
    """Only the status byte itself may do so."""
    open_still = ok(status=3)
    changed = open_still[:place] + bytes((value,)) + open_still[place + 1 :]
    with contextlib.suppress(ProtocolViolation):
        said = parse_answers(changed, 1)
        if isinstance(said, list) and place != len(OK) - 4:
            assert said[0].is_open or place in (5, 6)


MORE = 8 | 3  # more replies follow, and a transaction is open


def several(*numbers: tuple[int, int]) -> bytes:
    """Return one OK after the other, each with its sequence number and status."""
    return b"".join(packet(ok(status=status)[4:], number) for number, status in numbers)


def test_the_answers_to_several_statements_are_read_together() -> None:
    data = several((1, MORE), (2, MORE), (3, 2))
    assert parse_answers(data, 3) == [Ok(1, 7, True), Ok(1, 7, True), Ok(1, 7, False)]
    for length in range(len(data)):
        assert parse_answers(data[:length], 3) is None


@pytest.mark.parametrize(
    ("data", "count"),
    [
        pytest.param(several((1, MORE), (2, MORE)), 2, id="it goes on after the last"),
        pytest.param(several((1, 2), (2, 2)), 2, id="it ends after the first"),
        pytest.param(several((1, MORE), (3, 2)), 2, id="one is left out"),
        pytest.param(several((1, MORE), (1, 2)), 2, id="one is sent twice"),
        pytest.param(several((1, MORE), (2, 2)) + OK, 2, id="one too many"),
    ],
)
def test_other_answers_than_to_those_statements_are_refused(
    data: bytes, count: int
) -> None:
    with pytest.raises(ProtocolViolation, match="repl(y|ies)"):
        parse_answers(data, count)


def test_the_first_refusal_is_the_last_answer() -> None:
    data = several((1, MORE)) + packet(ERROR[4:], 2)
    assert parse_answers(data, 4) == Refusal(1213, "Deadlock")
    with pytest.raises(ProtocolViolation, match="more replies"):
        parse_answers(data + several((3, 2)), 4)


def execution(*, has_attributes: bool = False) -> Execution:
    return Execution(9, LEDGER.columns[1:], has_attributes=has_attributes)


@pytest.mark.parametrize("has_attributes", [False, True])
def test_an_execution_holds_the_values(has_attributes: bool) -> None:
    sent = execution(has_attributes=has_attributes).packet(ROW[1:])
    assert int.from_bytes(sent[:3], "little") == len(sent) - 4
    assert sent[3:5] == b"\0\x17"
    assert sent[5:9] == (9).to_bytes(4, "little")
    values = struct.pack("<qiqhB", *ROW[1:5], 3) + ROW.payload
    assert sent.endswith(values + struct.pack("<q", ROW.checksum))
    assert (b"\x06\0\1\x08\0\0\x03" in sent) == has_attributes


@pytest.mark.parametrize("size", [0, 250, 251, 65535, 65536, 131072])
def test_a_payload_of_any_size_is_sent_whole(size: int) -> None:
    head = len(execution().packet(ROW._replace(payload=b"")[1:])) - 22 - 1 - 8
    sent = execution().packet(ROW._replace(payload=bytes(size))[1:])
    rest = sent[head + 22 : -8]
    width = {0xFC: 2, 0xFD: 3}.get(rest[0], 0)
    length = int.from_bytes(rest[1 : 1 + width], "little") if width else rest[0]
    assert (length, len(rest)) == (size, 1 + width + size)


def test_a_statement_without_values_is_sent_so() -> None:
    bare = Execution(1, (), has_attributes=True)
    assert bare.packet(()) == b"\x0a\0\0\0\x17\1\0\0\0\0\1\0\0\0"


def test_a_value_out_of_range_is_refused() -> None:
    with pytest.raises(struct.error, match="short format requires"):
        execution().packet(ROW._replace(part=2**15)[1:])


@pytest.mark.parametrize(
    ("content", "written"),
    [(b"\0'\\\xff%d?", b"x'00275cff25643f'"), (b"", b"x''")],
)
def test_values_need_no_quoting_whatever_the_sql_mode(
    content: bytes, written: bytes
) -> None:
    columns = [column for column in LEDGER.columns if column.name in ("seq", "payload")]
    template = Template(b"select '100%%', ?, ?", columns)
    assert template.filled((-5, content)) == b"select '100%%', -5, " + written


def test_a_statement_without_values_is_filled_as_it_is() -> None:
    assert Template(b"select 1", ()).filled(()) == b"select 1"


@pytest.mark.parametrize("size", [1, 0xFFFFFE, 0xFFFFFF, 0x2000000])
@pytest.mark.parametrize("has_attributes", [False, True])
def test_a_query_of_any_length_is_sent_whole(size: int, has_attributes: bool) -> None:
    sent, at, body, numbers = (
        query_packets(bytes(size), has_attributes=has_attributes),
        0,
        b"",
        [],
    )
    while at < len(sent):
        length = int.from_bytes(sent[at : at + 3], "little")
        numbers.append(sent[at + 3])
        body += sent[at + 4 : at + 4 + length]
        at += 4 + length
    assert numbers == list(range(len(numbers)))
    assert length < 0xFFFFFF  # only then it is the last one
    assert body == b"\x03" + (b"\0\1" if has_attributes else b"") + bytes(size)


def test_an_id_that_no_row_can_have_is_nonsense() -> None:
    packet = b"\0\x01\xfe" + b"\xff" * 8 + b"\x02\0\0\0"
    with pytest.raises(
        ProtocolViolation, match="impossible row id 18446744073709551615"
    ):
        parse_answers(len(packet).to_bytes(3, "little") + b"\x01" + packet, 1)


OPENED, CHANGED, ENDED = Ok(0, 0, True), Ok(1, 7, True), Ok(0, 0, False)


@pytest.mark.parametrize(
    ("found", "is_committed"),
    [
        pytest.param([Ok(1, 7, False)], True, id="one row"),
        pytest.param([Ok(1, 7, True)], False, id="one row, not committed"),
        pytest.param([Ok(2, 7, False)], False, id="two rows"),
        pytest.param([OPENED, CHANGED, CHANGED, ENDED], True, id="a transaction"),
        pytest.param([ENDED, CHANGED, CHANGED, ENDED], False, id="not opened"),
        pytest.param([OPENED, OPENED, CHANGED, ENDED], False, id="a row not changed"),
        pytest.param(
            [OPENED, Ok(1, 7, False), CHANGED, ENDED], False, id="ended too early"
        ),
        pytest.param([OPENED, CHANGED, CHANGED, OPENED], False, id="still open"),
    ],
)
def test_only_what_is_ended_and_whole_is_committed(
    found: list[Ok], is_committed: bool
) -> None:
    whole = [(0, True), (1, True), (1, True), (0, False)]
    expected = [(1, False)] if len(found) == 1 else whole
    assert _is_committed(found, expected) is is_committed


def result(columns: int, *rows: tuple[bytes | None, ...]) -> bytes:
    """Return the packets of a text resultset; all its numbers are below 251."""
    eof = packet(b"\xfe\0\0\2\0")
    described = b"".join(packet(b"\3def" + b"\0" * 20) for _ in range(columns))
    lines = b"".join(
        packet(
            b"".join(
                b"\xfb" if value is None else bytes((len(value),)) + value
                for value in row
            )
        )
        for row in rows
    )
    return packet(bytes((columns,))) + described + eof + lines + eof


TWO = result(2, (b"a", None), (b"", b"b")) + result(1)


def test_the_rows_of_several_queries_are_read() -> None:
    assert parse_text_rows(TWO, 2) == [[("a", None), ("", "b")], []]
    assert parse_text_rows(result(1, (b"x",)) + ERROR, 2) == Refusal(1213, "Deadlock")


def test_rows_that_are_not_all_there_are_waited_for() -> None:
    assert all(parse_text_rows(TWO[:end], 2) is None for end in range(len(TWO)))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(TWO + OK, id="more than the rows"),
        pytest.param(TWO + b"\1", id="the beginning of more"),
        pytest.param(result(2, (b"a",)) + result(1), id="a value is missing"),
        pytest.param(result(1, (b"a", b"b")) + result(1), id="one value too many"),
        pytest.param(packet(b"") + TWO, id="an empty packet"),
    ],
)
def test_rows_that_no_server_sends_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="row|packet"):
        parse_text_rows(data, 2)


@given(st.binary(max_size=60))
def test_no_answer_to_queries_is_anything_but_refused(data: bytes) -> None:
    with contextlib.suppress(ProtocolViolation):
        assert not parse_text_rows(data, 1) or isinstance(
            parse_text_rows(data, 1), Refusal | list
        )


ONE = result(2, (b"ON", None))
BEHIND = ONE + packet(OK[4:], 7)


def test_answers_behind_a_row_are_read_with_it() -> None:
    assert parse_row_and_answers(BEHIND, 2, 1) == (("ON", None), parse_answers(OK, 1))
    assert all(
        parse_row_and_answers(BEHIND[:n], 2, 1) is None for n in range(len(BEHIND))
    )


@pytest.mark.parametrize("before", [b"", ONE], ids=["of the query", "behind it"])
def test_a_refusal_ends_the_answers_behind_a_row(before: bytes) -> None:
    assert parse_row_and_answers(before + ERROR, 2, 2) == Refusal(1213, "Deadlock")


@pytest.mark.parametrize("data", [result(1), result(1, (b"a",), (b"b",))])
def test_a_query_before_a_transaction_has_one_row(data: bytes) -> None:
    ended = packet(OK[4:], 5 if b"a" not in data else 7)
    with pytest.raises(ProtocolViolation, match="unexpected reply"):
        parse_row_and_answers(data + ended, 1, 1)


@pytest.mark.parametrize("columns", [1, 3])
def test_a_query_before_a_transaction_answers_what_it_was_asked(columns: int) -> None:
    with pytest.raises(ProtocolViolation, match="unexpected reply"):
        parse_row_and_answers(BEHIND, columns, 1)
