"""When the sessions are held before a cut, in a time that is only counted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import cast

import pytest

from dbcheck.cycle.hold import Hold
from dbcheck.load.load import Load
from dbcheck.model.moments import Activity, AtTheCut, PlannedCut, find_activity_at_cut

BEGAN_US, TICK_US, STEP_US, SNAPSHOT_US = 10_000_000, 5_000, 10_000, 50_000
SESSIONS, CUTS = 4, 40
YOUNG_S, QUIET_S = 1.0, 0.1
REPORTS_LAG_US = 230_000


@dataclass
class Played:
    """Sessions whose commits take a time between two, in milliseconds."""

    commit_ms: tuple[int, int]
    draw: random.Random
    began_us: int = 0
    held: bool = False
    last_us: int = 0
    sent_us: dict[int, int] = field(default_factory=dict)
    due_us: dict[int, int] = field(default_factory=dict)
    shown: tuple[int, int, int] = (0, 1, 0)  # when; in flight; the newest sent

    def hold(self, *, held: bool) -> None:
        self.held = held

    def tick(self, clock_us: int) -> None:
        for session in [one for one, due in self.due_us.items() if due <= clock_us]:
            del self.due_us[session]
            self.last_us = clock_us
        for session in range(SESSIONS):
            if not self.held and session not in self.due_us:
                self.sent_us[session] = clock_us
                took_us = 1000 * self.draw.randint(*self.commit_ms)
                self.due_us[session] = clock_us + took_us
        if clock_us - self.shown[0] >= SNAPSHOT_US:
            sent = [self.sent_us[one] for one in self.due_us]
            self.shown = (clock_us, len(sent), max(sent, default=0))

    def idle_us(self) -> int | None:
        return None if self.shown[1] else self.shown[0]

    def newest_sent_us(self) -> int:
        return self.shown[2]

    def last_ack_us(self) -> int:
        return self.last_us


def played(
    seed: int, commit_ms: tuple[int, int], lag_s: tuple[float, float]
) -> tuple[float, str]:
    """Return how old the last ack was at the cut, and why it was not in a hold."""
    draw = random.Random(seed)
    moment = PlannedCut(1, Activity.HOLD, 1.0, draw.uniform(0.05, 0.2), lag_s=lag_s)
    load = Played(commit_ms, draw)
    clock_us = asked_us = BEGAN_US

    def reported_us() -> int:
        return clock_us - REPORTS_LAG_US

    commits_us = (500 * sum(commit_ms), 1000 * commit_ms[1])
    hold = Hold(cast(Load, load), moment, reported_us, BEGAN_US, commits_us)
    went_us: int | None = None
    while went_us is None or clock_us < went_us:
        clock_us += TICK_US
        load.tick(clock_us)
        if clock_us % STEP_US == 0:
            hold.step(clock_us)
        if went_us is None and clock_us % SNAPSHOT_US == 0 and hold.may_ask(clock_us):
            asked_us = clock_us
            hold.note_asked(asked_us)
            went_us = asked_us + int(draw.uniform(*lag_s) * 1e6)
    hold.end(clock_us)
    why = find_activity_at_cut(moment, AtTheCut(0, went_us, quiet_us=hold.quiet)).missed
    return (clock_us - load.last_us) / 1e6, why


@pytest.mark.parametrize("lag_s", [(0.0, 0.1), (0.3, 0.6), (1.2, 1.6), (9.0, 9.2)])
@pytest.mark.parametrize("commit_ms", [(1, 3), (90, 220), (400, 1100)])
def test_the_power_goes_while_nothing_is_in_flight_and_the_last_ack_is_young(
    commit_ms: tuple[int, int], lag_s: tuple[float, float]
) -> None:
    found = [played(seed, commit_ms, lag_s) for seed in range(CUTS)]
    ages_s = [age_s for age_s, why in found if not why and QUIET_S <= age_s < YOUNG_S]
    assert len(ages_s) >= 0.95 * CUTS, found


def test_a_power_that_goes_later_than_ever_finds_young_acks() -> None:
    """A switch may take longer than it did before."""
    for seed in range(CUTS):
        moment = PlannedCut(1, Activity.HOLD, 1.0, 0.1, lag_s=(0.0, 0.1))
        load = Played((20, 60), random.Random(seed))
        hold = Hold(cast(Load, load), moment, lambda: None, BEGAN_US, (40_000, 60_000))
        for clock_us in range(BEGAN_US, BEGAN_US + 4_000_000, TICK_US):
            load.tick(clock_us)
            if clock_us % STEP_US == 0:
                hold.step(clock_us)
            if clock_us == BEGAN_US + 500_000:
                hold.note_asked(clock_us)
            if clock_us > BEGAN_US + 200_000:
                assert clock_us - load.last_us < YOUNG_S * 1e6


def test_sessions_that_get_no_answer_as_the_power_went_are_let_go_all_the_same() -> (
    None
):
    """Those that have nothing in flight notice only then that the server is gone."""
    moment = PlannedCut(1, Activity.HOLD, 1.0, 0.1, lag_s=(1.2, 1.4))
    load = Played((20, 60), random.Random(1))
    hold = Hold(cast(Load, load), moment, lambda: None, BEGAN_US, (40_000, 60_000))
    hold.note_asked(BEGAN_US)
    held = []
    for clock_us in range(BEGAN_US, BEGAN_US + 4_000_000, TICK_US):
        load.tick(clock_us)
        if load.held and load.due_us:  # the power goes as the first session waits
            load.due_us = dict.fromkeys(load.due_us, BEGAN_US + 60_000_000)
        if clock_us % STEP_US == 0:
            hold.step(clock_us)
        held.append(load.held)
    assert True in held and not held[-1]
