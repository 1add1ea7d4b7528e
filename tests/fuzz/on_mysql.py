"""The packets of a MySQL server, as the load's sessions read them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dbcheck.core.history import ROW_ID_MAX
from dbcheck.engines.mysql.wire import Nonsense, Ok, answer
from tests.fuzz.target import Target


def packet(data: bytes) -> None:
    """A packet is waited for until it is whole, and then is an answer or nonsense."""
    with contextlib.suppress(Nonsense):
        found = answer(data)
        if found is None:
            assert len(data) < 4 + int.from_bytes(data[:3], "little")
            return
        with contextlib.suppress(Nonsense):
            assert all(answer(data[:end]) is None for end in range(len(data)))
        if isinstance(found, Ok):
            assert 0 <= found.row_id <= ROW_ID_MAX


def packets() -> Iterator[bytes]:
    yield b"\x07\0\0\x01\0\x01\x05\x02\0\0\0"
    yield b"\x0f\0\0\x01\0\x01\xfe" + bytes(7) + b"\x80\x02\0\0\0"
    yield b"\x0d\0\0\x01\xff\x7a\x04#42S02gone"


TARGETS = (Target("mysql-answer", packet, packets),)
