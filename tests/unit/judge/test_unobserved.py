"""Time that a client did not observe: noted by each clock alone, and judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import find_cut_us
from dbcheck.judge.item import Item, Status
from dbcheck.judge.load_and_witness import (
    judge_load_at_the_cut,
    judge_witness_at_the_cut,
)
from dbcheck.model.cut import Cut, Gone
from dbcheck.model.records import LoadRecord
from dbcheck.model.unobserved import (
    GAPS_MAX,
    SHORT_US,
    Clocks,
    Gap,
    GapClock,
    Observed,
    OtherClock,
    Rounds,
)
from dbcheck.model.witness import LogFacts
from tests.kit.cases import case, item, loaded

S = 1_000_000
READ_US = 100 * S  # when the last ack was read
STILL_US = 14 * S
STOPPED = Gap(READ_US - STILL_US, READ_US, STILL_US, GapClock.MONOTONIC)
# Of these the monotonic clock shows next to nothing.
HIDDEN = [
    Gap(READ_US - 1000, READ_US, STILL_US, clock)
    for clock in (GapClock.BOOT, GapClock.WALL, GapClock.WITNESS)
]
SLOW = Cut(READ_US - 20 * S, None, {})  # asked long before it cut
LAB = Cut(READ_US - S, READ_US - 500)  # within each of the gaps


def silent(*gaps: Gap, cut: Cut = SLOW, read_us: int = READ_US) -> LoadRecord:
    """Return the record of a load that ended in silence after its last ack."""
    return loaded(
        cut=cut,
        gone=Gone.SILENT,
        gone_us=read_us,
        last_ack_us=read_us,
        host_lived=False,
        observed=(Observed(read_us, gaps),),
    )


def witnessed(load: LoadRecord) -> Case:
    """Return the case of *load* whose acks the witness holds all."""
    facts = LogFacts(1, 1, 0, load.last_ack_us, ())
    return replace(case(load=load), logs=(facts,))


def items(load: LoadRecord) -> tuple[Item, Item]:
    one = witnessed(load)
    return item(judge_load_at_the_cut, one), item(judge_witness_at_the_cut, one)


@pytest.mark.parametrize("gap", [STOPPED, *HIDDEN], ids=lambda gap: gap.clock.value)
@pytest.mark.parametrize(
    "cut", [SLOW, Cut(None, None, {"off_s": 15.0})], ids=["switch", "by hand"]
)
def test_what_was_read_after_a_gap_has_no_known_age(gap: Gap, cut: Cut) -> None:
    load = silent(gap, cut=cut)
    assert [one.status for one in items(load)] == [Status.NOT_OBSERVABLE] * 2
    assert find_cut_us(case(load=load)) is None


@pytest.mark.parametrize("gap", [STOPPED, *HIDDEN], ids=lambda gap: gap.clock.value)
def test_a_moment_that_a_lab_knows_is_compared_with_the_earliest_age(gap: Gap) -> None:
    load = silent(gap, cut=LAB)
    assert find_cut_us(case(load=load)) == LAB.exact_us
    assert [one.status for one in items(load)] == [Status.ABSENT] * 2


@pytest.mark.parametrize(
    "harmless",
    [
        pytest.param((), id="none"),
        pytest.param((replace(STOPPED, answered_us=READ_US),), id="acks came after it"),
        pytest.param(
            (replace(STOPPED, from_us=READ_US - S // 2, lasted_us=S // 2),), id="short"
        ),
        pytest.param(
            (
                Gap(
                    READ_US + S, READ_US + 9 * S, 8 * S, GapClock.MONOTONIC, in_flight=3
                ),
            ),
            id="in a silence that was seen before",
        ),
    ],
)
def test_other_gaps_leave_the_age_known(harmless: tuple[Gap, ...]) -> None:
    assert [one.status for one in items(silent(*harmless))] == [Status.PRESENT] * 2


def test_a_gap_in_which_nothing_was_in_flight_hides_when_the_silence_began() -> None:
    idle = Gap(READ_US + S // 10, READ_US + 9 * S, 9 * S, GapClock.MONOTONIC)
    assert items(silent(idle))[0].status is Status.NOT_OBSERVABLE


def test_older_records_say_nothing_of_gaps_and_are_judged_as_before() -> None:
    load = replace(silent(), observed=None)
    assert [one.status for one in items(load)] == [Status.PRESENT] * 2


def test_of_several_processes_the_one_counts_that_saw_the_end() -> None:
    watching = Observed(READ_US - S // 10, ())
    load = replace(
        silent(STOPPED), observed=(Observed(), Observed(READ_US, (STOPPED,)), watching)
    )
    assert judge_load_at_the_cut(case(load=load)).status is Status.PRESENT


def test_an_ack_from_long_after_a_known_cut_contradicts_it() -> None:
    late = Cut(READ_US - 9 * S, READ_US - 8 * S)
    assert [one.status for one in items(silent(cut=late))] == [Status.CONTRADICTED] * 2
    close = Cut(READ_US - S, READ_US - 3000)  # a reply that was on its way
    assert items(silent(cut=close))[0].status is Status.PRESENT


# ------------------------------------------------------------------- how gaps are seen


@pytest.mark.parametrize(
    ("now", "clock"),
    [
        ((9 * S, 9 * S, 9 * S), GapClock.MONOTONIC),
        ((10, 9 * S, 10), GapClock.BOOT),
        ((10, 10, 9 * S), GapClock.WALL),
        ((50_000, 50_000, 50_000), None),
        ((10, 10, -9 * S), None),  # set back
    ],
)
def test_each_clock_of_the_client_shows_a_gap(
    now: Clocks, clock: GapClock | None
) -> None:
    gap = Rounds((0, 0, 0)).passed(now)
    assert (gap.clock if gap else None) is clock
    if gap is not None:
        assert (gap.from_us, gap.to_us, gap.lasted_us) == (0, now[0], 9 * S)


def test_only_an_ack_to_what_was_sent_after_a_gap_ends_it() -> None:
    rounds = Rounds((0, 0, 0))
    rounds.add(STOPPED)
    rounds.answered(STOPPED.to_us - 1, READ_US + 1)
    assert rounds.is_open
    rounds.answered(STOPPED.to_us, READ_US + 2)
    assert not rounds.is_open
    assert rounds.gaps == [replace(STOPPED, answered_us=READ_US + 2)]


HICCUP = Gap(READ_US - S, READ_US - 8 * S // 10, S // 5, GapClock.MONOTONIC)


def test_a_short_gap_is_over_once_all_that_came_in_it_was_read() -> None:
    """Commits that take longer than the gap were sent before it, and say no more."""
    rounds = Rounds((0, 0, 0))
    for gap in (HICCUP, replace(HICCUP, lasted_us=SHORT_US)):
        rounds.add(gap)
    rounds.answered(0, HICCUP.to_us)
    assert [gap.answered_us for gap in rounds.gaps] == [None, None]
    rounds.emptied(HICCUP.to_us + 1)
    rounds.answered(0, READ_US)
    assert [gap.answered_us for gap in rounds.gaps] == [READ_US, None]


def test_of_too_many_gaps_those_go_that_are_over() -> None:
    """However short the last is beside those before it, the cut may be in it."""
    rounds = Rounds((0, 0, 0))
    for number in range(2 * GAPS_MAX):
        rounds.add(Gap(number * S, number * S + 10, 2 * STILL_US, GapClock.BOOT))
        rounds.answered(number * S + 20, number * S + 30)
    rounds.add(STOPPED)
    assert len(rounds.gaps) == GAPS_MAX
    assert STOPPED in rounds.gaps


def test_of_too_many_gaps_without_an_ack_none_is_forgotten() -> None:
    rounds = Rounds((0, 0, 0))
    for number in range(2 * GAPS_MAX):
        rounds.add(Gap(number * S, (number + 1) * S, S, GapClock.MONOTONIC, 3))
    assert len(rounds.gaps) == GAPS_MAX
    seen = Observed(READ_US, tuple(rounds.gaps))
    assert seen.came_us(READ_US) == 0
    assert seen.unseen_us(READ_US) == 2 * GAPS_MAX * S


def test_the_witness_s_clock_shows_a_client_whose_clocks_all_stood_still() -> None:
    ahead, clock = 5 * S, OtherClock()
    for number in range(2, 5):
        # Delays of the network, also long ones, are no gap.
        assert clock.heard(ahead + number * S, number * S + number % 2 * S // 2) is None
    gap = clock.heard(ahead + 5 * S + STILL_US, 5 * S)
    assert gap is not None
    assert gap.clock is GapClock.WITNESS
    assert abs(gap.hidden_us - STILL_US) < 50_000
    assert gap.from_us <= 5 * S == gap.to_us
    assert clock.heard(ahead + 6 * S + STILL_US, 6 * S) is None
