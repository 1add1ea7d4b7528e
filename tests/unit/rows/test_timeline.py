"""The timeline of a load and the map of its keys, against counting one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from dbcheck.rows.acks import ACK_DTYPE, AckArray
from dbcheck.rows.keymap import CELLS_MAX, LANES_MAX, Fate, build_key_map
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.summary import AckStream
from dbcheck.rows.survivors import RECORD, Records
from dbcheck.rows.timeline import BINS_MAX, Timeline, build_timeline

S = 1_000_000
EPOCH = 77


def stream(acks: list[tuple[int, int, int, int]], at_once: int = 7) -> AckStream:
    def batches() -> Iterator[AckArray]:
        for begin in range(0, len(acks), at_once):
            yield np.array(acks[begin : begin + at_once], ACK_DTYPE)

    return batches


def load(
    drawn: random.Random, sessions: int, commits: int
) -> list[tuple[int, int, int, int]]:
    """Return acks of sessions whose commits take random times, in order of time."""
    acks = []
    for session in range(1, sessions + 1):
        at = 1 * S
        for seq in range(1, commits + 1):
            at += drawn.randint(200, 30_000)
            acks.append((session, seq, 10_000 * session + seq, at))
    return sorted(acks, key=lambda ack: ack[3])


def lost(acks: list[tuple[int, int, int, int]]) -> Losses:
    kind = LossKind.MISSING_TAIL
    return Losses.of(Loss(kind, s, n, i, at, "ledger") for s, n, i, at in acks)


@pytest.mark.parametrize("seed", range(12))
def test_every_ack_is_counted_in_its_moment(seed: int) -> None:
    drawn = random.Random(seed)
    acks = load(drawn, drawn.randint(1, 9), drawn.randint(1, 60))
    cut_us = acks[-1][3] + drawn.choice([0, 1, 999, 70_000])
    gone = [ack for ack in acks if drawn.random() < 0.2]
    found = build_timeline(stream(acks), lost(gone), 1 * S, cut_us, acks[-1][3])
    assert 1 <= len(found.moments) <= BINS_MAX
    assert sum(one.acked for one in found.moments) == len(acks)
    assert sum(one.lost for one in found.moments) == len(gone)
    assert found.moments[-1].to_s == 0
    for one in found.moments:
        inside = [a for a in acks if _is_in(one.from_s, one.to_s, cut_us - a[3])]
        assert one.acked == len(inside)
        assert one.lost == len(set(inside) & set(gone))


def _is_in(from_s: float, to_s: float, age_us: int) -> bool:
    return round(to_s * S) <= age_us < round(from_s * S)


def test_a_reply_read_after_the_cut_counts_in_the_last_moment() -> None:
    acks = [(1, n, n, 1 * S + n * 10_000) for n in range(1, 101)]
    found = build_timeline(stream(acks), lost([]), 1 * S, 2 * S - 5_000, acks[-1][3])
    assert sum(one.acked for one in found.moments) == 100
    assert found.moments[-1].acked == 1


def test_the_time_from_ack_to_ack_is_never_understated() -> None:
    acks = [(1, n, n, 1 * S + n * 10_000) for n in range(1, 101)]
    acks += [(2, n, n, 1 * S + n * 40_000) for n in range(1, 26)]
    acks.sort(key=lambda ack: ack[3])
    found = build_timeline(stream(acks), lost([]), 1 * S, 2 * S, acks[-1][3])
    known = [one for one in found.moments if one.p99_ms is not None]
    assert known
    assert all(one.p50_ms and 10 <= one.p50_ms < 48 for one in known)
    assert max(one.p99_ms or 0 for one in known) >= 40
    assert max(one.p99_ms or 0 for one in known) < 48


def ended(load_s: int, lost_s: float | None) -> Timeline:
    """Return the timeline of a load whose commits of its last *lost_s* were lost."""
    end_us = (1 + load_s) * S
    acks = [(1, n, n, 1 * S + n * 10_000) for n in range(1, load_s * 100 + 1)]
    gone = [] if lost_s is None else [a for a in acks if end_us - a[3] < lost_s * S]
    return build_timeline(stream(acks, 999), lost(gone), 1 * S, end_us, end_us)


def test_the_end_of_a_long_load_is_shown_closer() -> None:
    found = ended(60, None)
    assert found.oldest_lost_s is None
    assert (found.near[0].from_s, found.near[-1].to_s) == (2, 0)
    assert sum(one.acked for one in found.near) == 200
    assert all(one.acked == 5 for one in found.near[:-1])


def test_a_short_load_is_shown_once() -> None:
    assert ended(12, None).near == ()
    assert ended(2, 1.0).near == ()


def test_losses_are_shown_as_old_as_they_were() -> None:
    found = ended(60, 0.4)
    assert found.oldest_lost_s == pytest.approx(0.39)
    assert sum(one.lost for one in found.near) == 40
    # An ack that is exactly 0.4 s old is not lost; those beyond are all kept.
    assert max(one.from_s for one in found.near if one.lost) == pytest.approx(0.4)
    assert all(one.lost == 0 for one in found.near if one.to_s >= 0.4)
    assert 0.48 <= found.near[0].from_s <= 0.5


def test_losses_that_go_far_back_leave_the_last_seconds() -> None:
    found = ended(60, 55)
    assert found.oldest_lost_s == pytest.approx(54.99)
    assert found.near[0].from_s == 2
    assert sum(one.lost for one in found.near) == 200


def test_a_commit_lost_from_before_the_load_is_in_no_bin() -> None:
    acks = [(1, n, n, n * S) for n in range(1, 61)]
    found = build_timeline(stream(acks), lost(acks[:1]), 10 * S, 60 * S, 60 * S)
    assert found.oldest_lost_s == 59
    assert not any(one.lost for one in (*found.moments, *found.near))


def test_without_a_dated_cut_it_ends_with_the_last_ack() -> None:
    acks = load(random.Random(1), 3, 9)
    found = build_timeline(stream(acks), lost(acks[:2]), 1 * S, None, acks[-1][3])
    assert not found.to_the_cut
    assert found.oldest_lost_s is not None
    assert sum(one.acked for one in found.moments) == len(acks)


def rows(keys: list[tuple[int, int]], epoch: int = EPOCH) -> Records:
    return np.array([(9, epoch, s, n, 0, 0, 0) for s, n in keys], RECORD)


@pytest.mark.parametrize("seed", range(12))
def test_every_cell_of_the_map_is_what_became_of_its_commits(seed: int) -> None:
    drawn = random.Random(seed)
    acks = load(drawn, drawn.randint(1, 9), drawn.choice([3, 60, 900]))
    newest = Counter[int]()
    for session, seq, _, _ in acks:
        newest[session] = max(newest[session], seq)
    first_lost = drawn.randint(1, newest[1])
    gone = [a for a in acks if a[1] >= first_lost and drawn.random() < 0.7]
    more = [(s, n + 1) for s, n in newest.items() if drawn.random() < 0.5]
    there = [rows(more), rows([(1, 10**6)], EPOCH - 1)]
    found = build_key_map(stream(acks), lost(gone), [lambda: there], EPOCH)
    assert [lane.session for lane in found.lanes] == sorted(newest)
    keys = {(session, seq) for session, seq, _, _ in gone}
    for lane in found.lanes:
        assert len(lane.fates) <= CELLS_MAX + 1
        assert lane.lost == sum(s == lane.session for s, _ in keys)
        for place, letter in enumerate(lane.fates):
            first = lane.first + place * found.step
            cell = range(first, first + found.step)
            acked = [n for n in cell if n <= newest[lane.session]]
            bad = [n for n in acked if (lane.session, n) in keys]
            expected = Fate.KEPT if acked else Fate.RECOVERED
            if bad:
                expected = Fate.LOST if bad == acked else Fate.PARTLY_LOST
            assert Fate(letter) is expected
        end = lane.first + len(lane.fates) * found.step
        recovered = (lane.session, newest[lane.session] + 1) in more
        assert end > newest[lane.session] + recovered
    in_map = [lane for lane in found.lanes if lane.lost]
    for lane in in_map:  # the oldest loss of each is within the map
        assert min(n for s, n in keys if s == lane.session) >= lane.first


def test_of_many_sessions_those_that_lost_most_are_shown() -> None:
    acks = [(s, 1, s, 1 * S + s) for s in range(1, LANES_MAX + 31)]
    found = build_key_map(stream(acks), lost(acks[-5:]), [], EPOCH)
    assert len(found.lanes) == LANES_MAX
    assert found.left_out == 30
    assert {ack[0] for ack in acks[-5:]} <= {lane.session for lane in found.lanes}


def test_forged_rows_far_beyond_the_acks_make_no_long_map() -> None:
    acks = [(1, 1, 1, 1 * S)]
    far = [rows([(1, 2**39 - n) for n in range(5000)] + [(70_000, 3), (1, -4)])]
    found = build_key_map(stream(acks), lost([]), [lambda: far], EPOCH)
    assert len(found.lanes[0].fates) <= CELLS_MAX
