"""The shape of losses: by age, size and table, and out of order or not."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from dbcheck.rows.acks import ACK_DTYPE, HOUSEKEEPING_SESSION, AckArray
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.lossshape import LossShape, Share, Windows, find_shape_of_losses
from dbcheck.rows.schedule import Schedule, Sizes
from dbcheck.rows.table import ITEM, LEDGER
from dbcheck.rows.tasks import HousekeepingTasks, TaskKind

TAIL, HOLE = LossKind.MISSING_TAIL, LossKind.MISSING_HOLE
CUT_US = 60_000_000


def acks_at(**times_s: list[float]) -> AckArray:
    """Return acks in order of their times; s1=[0.5]: session 1 was acked at 0.5 s."""
    rows = [
        (int(name[1:]), seq, 10 * seq, int(at * 1e6))
        for name, times in times_s.items()
        for seq, at in enumerate(times, 1)
    ]
    return np.array(sorted(rows, key=lambda row: row[3]), ACK_DTYPE)


def missing(acks: AckArray, *names: tuple[int, int], kind: LossKind = TAIL) -> Losses:
    rows = {(int(a["session"]), int(a["seq"])): a for a in acks}
    found = [(name, rows[name]) for name in names]
    return Losses.of(
        Loss(kind, *name, int(a["row_id"]), int(a["acked_us"]), LEDGER.name)
        for name, a in found
    )


def shape(
    acks: AckArray, losses: Losses, cut_us: int | None = CUT_US, parts: int = 1
) -> LossShape:
    pieces = np.array_split(acks, parts)
    return find_shape_of_losses(losses, lambda: pieces, cut_us, None, (LEDGER, ITEM))


ACKS = acks_at(s1=[10, 50, 59.5, 59.95], s2=[20, 59.4, 59.98])


@pytest.mark.parametrize("parts", [1, 3, len(ACKS)])
def test_an_end_of_the_log_is_lost_in_order(parts: int) -> None:
    losses = missing(ACKS, (1, 3), (1, 4), (2, 2), (2, 3))
    found = shape(ACKS, losses, parts=parts)
    assert found.by_age == (
        Share(0.1, 2, 2),
        Share(1.0, 2, 2),
        Share(10.0, 1, 0),
        Share(60.0, 2, 0),
    )
    assert (found.missing, found.reordered, found.oldest_s) == (4, 0, 0.6)
    assert found.by_table == {"ledger": 4, "item": 0}
    assert found.by_size == ()


@pytest.mark.parametrize(
    ("late_us", "reordered"), [(0, 1), (9_000_000, 1), (9_500_000, 0), (None, 0)]
)
def test_acks_dated_late_are_out_of_order_only_beyond_that(
    late_us: int | None, reordered: int
) -> None:
    """(2, 3) was sent after 59.4 s, or so much earlier; (1, 2) was acked at 50 s."""
    losses = missing(ACKS, (1, 2))
    found = find_shape_of_losses(
        losses, lambda: [ACKS], CUT_US, None, (LEDGER, ITEM), late_us=late_us
    )
    assert found.reordered == reordered


@pytest.mark.parametrize("parts", [1, 3, len(ACKS)])
def test_a_commit_that_was_sent_after_a_lost_ack_and_survived(parts: int) -> None:
    """(2, 3) was sent after 59.4 s: so (1, 2), acked at 50 s, is out of order."""
    losses = missing(ACKS, (1, 2), (1, 3), (1, 4))
    assert shape(ACKS, losses, parts=parts).reordered == 1


def test_a_commit_that_may_have_been_sent_before_shows_nothing() -> None:
    """(2, 2) came later, but may have been sent before (1, 2) was acked."""
    acks = acks_at(s1=[1, 2], s2=[1.5, 2.5])
    assert shape(acks, missing(acks, (1, 2))).reordered == 0


def test_times_that_are_rounded_up_are_no_proof() -> None:
    acks = acks_at(s1=[1, 2], s2=[2.0001, 3])
    assert shape(acks, missing(acks, (1, 2))).reordered == 1
    acks = acks_at(s1=[1, 2], s2=[2.00009, 3])
    assert shape(acks, missing(acks, (1, 2))).reordered == 0


def test_a_hole_is_out_of_order_in_its_own_session() -> None:
    acks = acks_at(s1=[1, 2, 2.0001])
    assert shape(acks, missing(acks, (1, 2), kind=HOLE)).reordered == 1


def test_the_first_of_a_session_was_sent_at_no_known_time() -> None:
    acks = acks_at(s1=[1], s2=[5])
    assert shape(acks, missing(acks, (1, 1))).reordered == 0


def test_what_lost_something_else_is_no_survivor() -> None:
    acks = acks_at(s1=[1, 2], s2=[3, 4])
    torn = Loss(LossKind.TORN, 2, 2, 20, 4_000_000, ITEM.name)
    both = Losses.of([*missing(acks, (1, 2)), torn])
    assert shape(acks, both).reordered == 0
    assert shape(acks, missing(acks, (1, 2))).reordered == 1


def test_an_operation_counts_once_whatever_it_lost() -> None:
    acks = acks_at(s1=[59])
    torn = [Loss(LossKind.TORN, 1, 1, n, 59_000_000, ITEM.name) for n in range(4)]
    found = shape(acks, Losses.of(torn))
    assert found.by_age == (Share(1.0, 1, 1),)
    assert found.by_table == {"ledger": 0, "item": 4}
    assert found.missing == 0


def test_a_cut_that_nothing_dates_has_no_ages() -> None:
    found = shape(ACKS, missing(ACKS, (1, 4)), cut_us=None)
    assert (found.by_age, found.oldest_s) == ((), None)


def test_a_reply_that_was_read_after_the_cut_was_acked_at_the_cut() -> None:
    acks = acks_at(s1=[61])
    found = shape(acks, missing(acks, (1, 1)))
    assert (found.by_age, found.oldest_s) == ((Share(0.01, 1, 1),), 0)


def test_losses_of_no_operation_have_a_table_alone() -> None:
    stranger = Loss(LossKind.UNEXPECTED, -1, -1, 7, -1, ITEM.name)
    found = shape(ACKS, Losses.of([stranger]))
    assert found.by_table == {"ledger": 0, "item": 1}
    assert sum(share.lost for share in found.by_age) == 0


def test_sizes_are_those_of_the_schedule() -> None:
    schedule = Schedule(1, 2, (100, 5000))
    acks = acks_at(s1=[float(n) for n in range(1, 50)])
    is_large = [len(schedule.row(1, int(a["seq"])).payload) == 5000 for a in acks]
    large = [(1, seq) for seq, is_one in enumerate(is_large, 1) if is_one]
    losses = missing(acks, *large[:3])
    found = find_shape_of_losses(
        losses, lambda: [acks], CUT_US, Sizes(schedule), (LEDGER,)
    )
    small = len(acks) - len(large)
    assert found.by_size == (Share(512, small, 0), Share(16384, len(large), 3))


def test_many_losses_take_little_memory() -> None:
    rows = 50_000
    acks = np.zeros(rows, ACK_DTYPE)
    acks["session"], acks["seq"] = 1, np.arange(1, rows + 1)
    acks["acked_us"] = np.arange(rows) * 100
    losses = missing_all(acks)
    tracemalloc.start()
    found = shape(acks, losses, parts=20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.missing == rows
    assert peak < 100 * rows


def missing_all(acks: AckArray) -> Losses:
    return missing(acks, *((1, int(seq)) for seq in acks["seq"]))


@pytest.mark.parametrize("to_the_cut", [True, False])
@pytest.mark.parametrize("parts", [1, 4])
def test_each_operation_belongs_to_the_task_under_way_when_it_was_acked(
    parts: int, *, to_the_cut: bool
) -> None:
    """Tasks end at 10, 30 and 50 s; another may be under way at the cut."""
    tasks = HousekeepingTasks(7, (TaskKind.CREATE, TaskKind.CHECKPOINT, TaskKind.DROP))
    times = {f"s{HOUSEKEEPING_SESSION}": [10.0, 30.0, 50.0]}
    acks = acks_at(s1=[5, 20, 25, 55], s2=[10, 58], **times)
    losses = missing(acks, (1, 2), (1, 3), (2, 2), kind=HOLE)
    pieces = np.array_split(acks, parts)
    found = find_shape_of_losses(
        *(losses, lambda: pieces, CUT_US, None, (LEDGER,)),
        Windows(tasks, lambda: pieces, to_the_cut=to_the_cut),
    )
    expected: dict[TaskKind, list[int]] = {}
    of_each = [(3, 0), (3, 2), (1, 0), (2, 1)]  # acked, of those lost
    of_each = of_each if to_the_cut else of_each[:3]
    for number, (acked, lost) in enumerate(of_each, 1):
        counts = expected.setdefault(tasks.task(number).kind, [0, 0, 0, 0])
        for at, more in enumerate((1, int(lost > 0), acked, lost)):
            counts[at] += more
    shares = {
        share.task: [share.tasks, share.hit, share.acked, share.lost]
        for share in found.by_window
    }
    assert shares == expected
    assert list(shares) == [kind for kind in TaskKind if kind in shares]


def test_a_run_without_tasks_has_no_windows() -> None:
    assert shape(ACKS, missing(ACKS, (1, 4))).by_window == ()
