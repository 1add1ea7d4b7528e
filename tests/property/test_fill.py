"""The rows of a fill are rows of its schedule, and their keys fit in every table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbcheck.rows.fill import PARTS, Block, Fill
from dbcheck.rows.schedule import RowValues, Schedule

SEEDS = st.integers(0, 2**63 - 1)
EPOCHS = st.integers(1, 2**62)
SIZES = st.lists(st.integers(1, 70) | st.just(9000), min_size=1, max_size=4)
SCHEDULES = st.builds(Schedule, SEEDS, EPOCHS, SIZES.map(tuple))
ROWS = 300
BEGINS = st.integers(0, 10**8) | st.integers(PARTS - ROWS, PARTS + ROWS)


def rows_of(block: Block) -> list[RowValues]:
    """Return the rows of *block* as the schedule would."""
    names = ("epoch", "session", "seq", "part", "checksum")
    columns = (block.columns[name].tolist() for name in names)
    payloads = [line.tobytes() for line in block.payloads]
    rows = zip(*columns, payloads, strict=True)
    return [(*key, payload, check) for *key, check, payload in rows]


@given(SCHEDULES, BEGINS)
def test_each_row_is_the_schedules(schedule: Schedule, begin: int) -> None:
    numbers = range(begin, begin + ROWS)
    blocks = Fill(schedule, begin + ROWS).blocks(numbers)
    found = [row for block in blocks for row in rows_of(block)]
    expected = [schedule.values(n // PARTS, n % PARTS + 1, n % PARTS) for n in numbers]
    assert sorted(found) == sorted(expected)
    assert len({(session, seq) for _, session, seq, *_ in found}) == ROWS
    assert len({(session, part) for _, session, _, part, *_ in found}) == ROWS


@given(
    SEEDS, EPOCHS, st.sampled_from([(), (1,), (128, 8192), (1 << 20,)]), st.integers()
)
def test_the_transactions_hold_each_row_once(
    seed: int, epoch: int, sizes: tuple[int, ...], drawn: int
) -> None:
    rows = drawn % 500_000
    numbers = list(Fill(Schedule(seed, epoch, sizes), rows).transactions())
    assert sum(map(len, numbers)) == rows
    ends = [0, *(one.stop for one in numbers)]
    assert ends[:-1] == [one.start for one in numbers]
    mean = sum(sizes) / max(1, len(sizes))
    assert all(len(one) * mean <= 65 << 20 for one in numbers)
