"""The packets of a MySQL server, as the load's sessions read them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dbcheck.engines.link import ProtocolViolation
from dbcheck.engines.mysql.wire import Refusal, parse_answers
from dbcheck.rows.acks import ROW_ID_MAX
from tests.fuzz.target import Target

COUNTS = (1, 3)  # of one statement alone, and between the ends of a transaction
_OPEN = b"\x0b\0\0\0"  # autocommit, a transaction is open, more answers follow


def packet(data: bytes) -> None:
    """Answers are waited for until they are whole; then they are that, or nonsense."""
    for count in COUNTS:
        with contextlib.suppress(ProtocolViolation):
            require_answers(data, count)


def require_answers(data: bytes, count: int) -> None:
    found, whole = parse_answers(data, count), whole_packets(data)
    if found is None:
        assert whole < count
        return
    assert all(parse_answers(data[:end], count) is None for end in range(len(data)))
    if isinstance(found, Refusal):
        assert 1 <= whole <= count
        return
    assert len(found) == whole == count
    assert all(0 <= one.row_id <= ROW_ID_MAX for one in found)


def whole_packets(data: bytes) -> int:
    """Return how many packets *data* begins with."""
    number = 0
    while len(data) >= (end := 4 + int.from_bytes(data[:3], "little")):
        number, data = number + 1, data[end:]
    return number


def packets() -> Iterator[bytes]:
    yield b"\x07\0\0\x01\0\x01\x05\x02\0\0\0"
    yield b"\x0f\0\0\x01\0\x01\xfe" + bytes(7) + b"\x80\x02\0\0\0"
    yield b"\x0d\0\0\x01\xff\x7a\x04#42S02gone"
    begun = b"\x07\0\0\x01\0\0\0" + _OPEN
    inserted = b"\x07\0\0\x02\0\x01\x05" + _OPEN
    yield begun + inserted + b"\x07\0\0\x03\0\0\0\x02\0\0\0"
    yield begun + b"\x0d\0\0\x02\xff\x7a\x04#42S02gone"


TARGETS = (Target("mysql-answer", packet, packets),)
