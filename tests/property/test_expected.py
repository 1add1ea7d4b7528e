"""What is computed for many rows at once is what is computed for each."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.rows.acks import SEQ_MAX, SESSION_MAX, Key, Row
from dbcheck.rows.schedule import Schedule, compute_crc32_of_words
from dbcheck.rows.survivors import DIFFERENT, Inspector, RowBatch
from tests.kit.definition import checksum

SEEDS = st.integers(0, 2**63 - 1)
EPOCHS = st.integers(1, 2**62)
SCHEDULES = st.builds(
    Schedule,
    SEEDS,
    EPOCHS,
    st.lists(st.integers(1, 70) | st.just(9000), min_size=1, max_size=4).map(tuple),
)
NAMES = st.tuples(st.integers(0, SESSION_MAX), st.integers(1, SEQ_MAX))


@given(SEEDS, st.lists(st.tuples(NAMES, EPOCHS), min_size=1, max_size=20))
def test_checksums_of_columns(
    seed: int, keys: list[tuple[tuple[int, int], int]]
) -> None:
    rows = [(seed, epoch, session, seq, 0) for (session, seq), epoch in keys]
    columns = np.array(rows, np.int64).T
    expected = [zlib.crc32(struct.pack("<QQQQQ", *row)) for row in rows]
    assert compute_crc32_of_words(*columns).tolist() == expected
    assert compute_crc32_of_words(seed, *columns[1:4], 0).tolist() == expected


@given(SCHEDULES, st.lists(NAMES, max_size=30))
def test_what_was_sent_is_intact(
    schedule: Schedule, names: list[tuple[int, int]]
) -> None:
    batch = RowBatch.of(schedule.row(*name) for name in names)
    records, different = Inspector(schedule).inspect(batch)
    assert not different.size and not records["content"].any()


def intact(row: Row, schedule: Schedule) -> bool:
    """Judge one row by the definition, slowly."""
    if not (0 <= row.session <= SESSION_MAX and 1 <= row.seq <= SEQ_MAX):
        return False
    if row.epoch == schedule.epoch:
        return row[4:] == schedule.row(row.session, row.seq)[4:]
    if row.epoch < 1 or row.part < 0:
        return False
    key = Key(row.epoch, row.session, row.seq)
    return row.checksum == checksum(key, row.part, row.payload)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Schedule, list[Row]]:
    """Rows of several epochs, most with one thing changed."""
    schedule = draw(SCHEDULES)
    rows: list[Row] = []
    for session, seq in draw(st.lists(NAMES, max_size=20)):
        epoch = draw(st.sampled_from([schedule.epoch, 3, 2**62 - 1]))
        row = Schedule(schedule.seed, epoch, schedule.payload_bytes).row(session, seq)
        at = draw(st.integers(0, len(row.payload) - 1))
        flipped = bytearray(row.payload)
        flipped[at] ^= 1 << draw(st.integers(0, 7))
        other = draw(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1))
        changes: list[dict[str, object]] = [
            {},
            {"payload": bytes(flipped)},
            {"payload": row.payload[:-1]},
            {"payload": row.payload + b"\0"},
            {"payload": b""},
            {"checksum": row.checksum + 1},
            {"checksum": row.checksum - 2**32},
            {"checksum": other},
            {"epoch": other},
            {"seq": other},
            {"session": max(-(2**31), min(other, 2**31 - 1))},
            {"part": max(-(2**15), min(other, 2**15 - 1))},
        ]
        rows.append(row._replace(**draw(st.sampled_from(changes))))  # type: ignore[arg-type]
    return schedule, rows


@given(spoilt())
def test_many_rows_are_judged_like_each(found: tuple[Schedule, list[Row]]) -> None:
    schedule, rows = found
    batch = RowBatch.of(rows)
    assert list(batch) == rows
    records, different = Inspector(schedule).inspect(batch)
    expected = [at for at, row in enumerate(rows) if not intact(row, schedule)]
    assert different.tolist() == expected
    assert np.flatnonzero(records["content"] == DIFFERENT).tolist() == expected
