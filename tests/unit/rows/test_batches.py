"""Batches equal the schedule, row for row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.rows.acks import LOAD_SESSION_MAX, SEQ_MAX
from dbcheck.rows.batches import Batch, Batches
from dbcheck.rows.plans.plan import InsertPlan
from dbcheck.rows.schedule import EPOCH_MAX, Schedule


def rows_of(batch: Batch) -> list[tuple[int, int, int, int, bytes, int]]:
    places, sums = batch.places.tolist(), batch.checksums.tolist()
    found = zip(places, batch.sizes.tolist(), sums, strict=True)
    return [
        (
            *(batch.epoch, batch.session, batch.first_seq + number, 0),
            batch.content[place : place + size],
            checksum,
        )
        for number, (place, size, checksum) in enumerate(found)
    ]


@given(
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(1, EPOCH_MAX),
    sizes=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    session=st.integers(1, LOAD_SESSION_MAX),
    first=st.integers(1, SEQ_MAX - 40),
    count=st.integers(1, 40),
)
def test_a_batch_has_the_rows_of_its_operations(
    seed: int, epoch: int, sizes: list[int], session: int, first: int, count: int
) -> None:
    schedule = Schedule(seed, epoch, tuple(sizes))
    batch = Batches(schedule).make(session, first, count)
    assert len(batch) == count
    expected = [schedule.values(session, first + n) for n in range(count)]
    assert rows_of(batch) == expected


@pytest.mark.parametrize("sizes", [(70_000,), (1, 70_000, 200_000)])
def test_payloads_longer_than_what_is_made_at_once(sizes: tuple[int, ...]) -> None:
    schedule = Schedule(3, 4, sizes)
    batches = Batches(schedule)
    for first in (1, 9):  # the second overwrites nothing of the first
        batch = batches.make(2, first, 8)
        assert rows_of(batch) == [schedule.values(2, first + n) for n in range(8)]
    assert batches.bytes_per_row == sum(sizes) / len(sizes)


def test_a_plan_without_payloads_makes_no_batches() -> None:
    assert InsertPlan(Schedule(1, 2, ())).batches() is None
