"""Acks of machines whose clocks differ, dated by the witness's."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dbcheck.model.witness import Anchor, WitnessTime, find_anchor
from dbcheck.rows.acks import ACK_DTYPE, TIME_UNIT_US, AckArray

HOURS_US = 5 * 3_600_000_000
WALL_US = 1_700_000_000_000_000


def frames_of(*frames: list[int]) -> tuple[AckArray, np.ndarray]:
    """Return the acks of frames that hold acks of those moments, and their counts."""
    rows = [(1, 1, 1, at) for frame in frames for at in frame]
    return np.array(rows, ACK_DTYPE), np.array([len(one) for one in frames])


def dated(received_us: list[int], *frames: list[int]) -> list[int]:
    acks, counts = frames_of(*frames)
    WitnessTime().date(acks, counts, np.array(received_us))
    found: list[int] = acks["acked_us"].tolist()
    return found


def test_the_newest_ack_of_a_frame_came_when_the_witness_received_it() -> None:
    assert dated([WALL_US], [1_000, 4_000]) == [
        WALL_US - 3_000 + TIME_UNIT_US,
        WALL_US + TIME_UNIT_US,
    ]


def test_a_frame_that_was_late_dates_no_ack_later_than_one_that_was_not() -> None:
    """The second one took 900 ms more, as where the witness lagged."""
    before, late = dated([WALL_US, WALL_US + 1_900_000], [5_000], [1_005_000])
    assert late - before == pytest.approx(1_000_000, abs=1_100)  # and their drift


@pytest.mark.parametrize("ahead_us", [HOURS_US, -HOURS_US + 10**11])
@pytest.mark.parametrize("ppm", [-500, 0, 500])
@pytest.mark.parametrize("parts", [1, 7])
def test_no_ack_looks_earlier_than_it_came(ahead_us: int, ppm: int, parts: int) -> None:
    """Whatever that machine's clock says, and however long each frame took."""
    draw = random.Random(ppm + parts)
    acks: list[list[int]] = []
    true_us: list[int] = []
    received: list[int] = []
    now_us = 0
    for _ in range(700):
        came = [now_us + draw.randrange(20_000) for _ in range(draw.randint(1, 9))]
        came.sort()
        true_us += came
        there = [ahead_us + at + at * ppm // 10**6 for at in came]
        acks.append([-(-at // TIME_UNIT_US) * TIME_UNIT_US for at in there])
        received.append(WALL_US + came[-1] + draw.randrange(3_000, 400_000))
        now_us += draw.randrange(25_000, 500_000)
    times, found = WitnessTime(), []
    for part in np.array_split(np.arange(len(acks)), parts):
        batch, counts = frames_of(*(acks[at] for at in part))
        times.date(batch, counts, np.array([received[at] for at in part]))
        found += (batch["acked_us"] - WALL_US).tolist()
    late_us = np.array(found) - np.array(true_us)
    assert late_us.min() >= 0
    # No more than the slowest frame took, as a frame's own receipt bounds it.
    assert late_us.max() <= 400_000 + TIME_UNIT_US
    assert np.median(late_us[len(late_us) // 2 :]) < 20_000


def event(
    name: str, sent_us: object, received_us: int
) -> tuple[dict[str, object], int]:
    return {"event": name, "clock_us": sent_us}, received_us


BEGUN = event("clock", 1_000_000, WALL_US)
CUT = event("cut asked", 61_000_000, WALL_US + 60_004_000)
NOTED = {"clock": 1_010_000, "cut asked": 61_009_000}


def test_the_note_that_came_last_anchors_the_witness_s_clock() -> None:
    assert find_anchor([BEGUN, CUT], NOTED) == Anchor(
        61_000_000 - WALL_US - 60_004_000, 61_009_000 - WALL_US - 60_004_000
    )


@pytest.mark.parametrize("by_us", [-3_600_000_000, -90_000, 90_000, 3_600_000_000])
def test_a_witness_whose_clock_was_set_shows_it(by_us: int) -> None:
    moved = CUT[0], CUT[1] + by_us
    found = find_anchor([BEGUN, moved], NOTED)
    assert found is not None
    assert found.was_set.startswith("the witness's clock was set by ")


@pytest.mark.parametrize("drift_us", [-59_000, 59_000])
def test_clocks_that_only_drift_were_not_set(drift_us: int) -> None:
    found = find_anchor([BEGUN, (CUT[0], CUT[1] + drift_us)], NOTED)
    assert found is not None
    assert found.was_set == ""


def test_a_note_that_was_never_confirmed_shows_nothing() -> None:
    late = CUT[0], CUT[1] + 30_000_000  # the witness took half a minute
    found = find_anchor([BEGUN, late], {"clock": NOTED["clock"]})
    assert found == Anchor(1_000_000 - WALL_US, 1_010_000 - WALL_US)


def test_without_the_client_s_record_the_notes_are_all_there_is() -> None:
    assert find_anchor([BEGUN, CUT], {}) == Anchor(
        61_000_000 - WALL_US - 60_004_000, 61_000_000 - WALL_US - 60_004_000
    )


@pytest.mark.parametrize("sent_us", [None, "5", 1.5])
def test_what_a_witness_made_up_anchors_nothing(sent_us: object) -> None:
    assert find_anchor([event("clock", sent_us, WALL_US)], NOTED) is None
    assert find_anchor([({}, WALL_US)], NOTED) is None
