from __future__ import annotations

import zlib

import pytest

from dbcheck.rows.acks import Key, Row
from dbcheck.rows.schedule import EPOCH_MAX, Schedule, draw_epoch
from dbcheck.rows.survivors import DIFFERENT, INTACT, Inspector, Records, RowBatch
from tests.kit.definition import checksum, payload

SCHEDULE = Schedule(seed=7, epoch=9, payload_bytes=(10, 100, 5000))


def inspected(rows: list[Row], schedule: Schedule) -> tuple[Records, list[Row]]:
    batch = RowBatch.of(rows)
    records, different = Inspector(schedule).inspect(batch)
    return records, [batch.row(at) for at in different.tolist()]


def test_a_row_is_a_function_of_seed_and_key_alone() -> None:
    assert SCHEDULE.row(1, 2) == SCHEDULE.row(1, 2)
    others = [
        Schedule(8, 9, (10,)).row(1, 2),
        Schedule(7, 8, (10,)).row(1, 2),
        Schedule(7, 9, (10,)).row(2, 2),
        Schedule(7, 9, (10,)).row(1, 3),
        Schedule(7, 9, (10,)).row(1, 2),
    ]
    assert len({row.payload for row in others}) == len(others)


@pytest.mark.parametrize("part", [0, 1, 4])
def test_a_row_has_the_payload_and_the_checksum_of_its_key(part: int) -> None:
    """Also right after a row of another seed or epoch, whose key stream is kept."""
    key = Key(9, 3, 4)
    for other in (SCHEDULE, Schedule(8, 9, (10,)), Schedule(7, 8, (10,))):
        other.row(1, 1)
        *_, content, check = SCHEDULE.values(3, 4, part)
        assert content == payload(7, key, part, len(content))
        assert check == checksum(key, part, content)


def test_every_size_is_drawn_about_equally() -> None:
    sizes = [len(SCHEDULE.row(1, seq).payload) for seq in range(1, 3001)]
    for size in SCHEDULE.payload_bytes:
        assert 800 < sizes.count(size) < 1200


def test_a_seed_decides_the_sizes_whatever_the_epoch() -> None:
    """So a run that is repeated with its seed sends rows of the same sizes."""
    again = Schedule(7, 4711, SCHEDULE.payload_bytes)
    other = Schedule(8, 9, SCHEDULE.payload_bytes)

    def sizes(schedule: Schedule) -> list[int]:
        return [len(schedule.row(1, seq).payload) for seq in range(1, 200)]

    assert sizes(again) == sizes(SCHEDULE) != sizes(other)
    # The bytes are others: what a drive kept of the first run is not the second's.
    assert again.row(1, 1).payload != SCHEDULE.row(1, 1).payload


def test_a_seed_decides_epochs_that_are_never_used_twice() -> None:
    used: set[int] = set()
    for _ in range(20):
        used.add(draw_epoch(7, control=False, used=used))
        used.add(draw_epoch(7, control=True, used=used))
    assert len(used) == 40
    assert all(1 <= epoch <= EPOCH_MAX for epoch in used)
    first = draw_epoch(7, control=False, used=())
    assert first == draw_epoch(7, control=False, used=())
    assert first in used
    assert first != draw_epoch(8, control=False, used=())


def test_a_payload_cannot_be_compressed() -> None:
    whole = b"".join(payload(7, Key(9, 1, seq), 0, 1000) for seq in range(100))
    assert len(zlib.compress(whole, 9)) > len(whole)


def test_the_checksum_covers_key_and_content() -> None:
    content = payload(7, Key(9, 1, 2), 0, 10)
    sums = {
        checksum(Key(9, 1, 2), 0, content),
        checksum(Key(9, 1, 3), 0, content),
        checksum(Key(9, 1, 2), 1, content),
        checksum(Key(9, 1, 2), 0, content[:-1] + b"x"),
    }
    assert len(sums) == 4


def test_the_rows_that_were_sent_are_intact() -> None:
    rows = [SCHEDULE.row(1, seq)._replace(row_id=seq) for seq in (1, 2, 3)]
    records, different = inspected(rows, SCHEDULE)
    assert not different
    assert records["content"].tolist() == [INTACT] * 3
    assert records["row_id"].tolist() == [1, 2, 3]
    assert set(records["epoch"].tolist()) == {9}


def test_any_change_of_a_row_is_seen() -> None:
    row = SCHEDULE.row(1, 1)
    flipped = bytes([row.payload[0] ^ 1]) + row.payload[1:]
    changed = [
        row._replace(payload=flipped),
        row._replace(payload=row.payload[:-1]),
        row._replace(checksum=row.checksum ^ 1),
        row._replace(seq=2),
        row._replace(session=2),
        row._replace(part=1),
        row._replace(epoch=8),
        row._replace(epoch=-8),
        row._replace(epoch=8, part=-1),
        row._replace(session=-1),
        row._replace(seq=0),
    ]
    records, different = inspected([row, *changed], SCHEDULE)
    assert records["content"].tolist() == [INTACT] + [DIFFERENT] * len(changed)
    assert different == changed


def test_every_byte_is_compared_also_where_the_checksum_fits() -> None:
    """As of an older version of a row that a storage hands out again."""
    row = SCHEDULE.row(3, 4)
    older = row.payload[:-1] + bytes([row.payload[-1] ^ 1])
    fits = checksum(Key(9, 3, 4), 0, older)
    changed = row._replace(payload=older, checksum=fits)
    _, different = inspected([row, changed], SCHEDULE)
    assert different == [changed]


def test_a_row_of_an_earlier_cycle_is_judged_by_its_checksum() -> None:
    earlier = Schedule(seed=1, epoch=3, payload_bytes=(50,)).row(1, 1)
    _, different = inspected([earlier], SCHEDULE)
    assert not different


def test_a_classic_row_has_no_content_to_differ() -> None:
    classic = Schedule(7, 9, ())
    records, different = inspected([classic.row(0, 0)], classic)
    assert not different
    assert records["content"].tolist() == [INTACT]


def test_no_rows_are_no_records() -> None:
    records, different = inspected([], SCHEDULE)
    assert (len(records), different) == (0, [])
