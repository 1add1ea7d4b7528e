from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.model.moments import (
    INTO_S,
    RAMP_UP_S,
    SPREAD_MAX_S,
    WITHOUT_TASKS,
    Activity,
    AtTheCut,
    Met,
    PlannedCut,
    add_lag_to_hold,
    find_activity_at_cut,
    find_lag_range,
    plan_cut,
)
from dbcheck.rows.tasks import TaskKind

STEADY_S = (3.0, 6.0)


def test_each_four_cuts_meet_each_activity() -> None:
    drawn = [plan_cut(5, number, STEADY_S) for number in range(1, 801)]
    for first in range(0, 800, 4):
        assert {one.activity for one in drawn[first : first + 4]} == set(WITHOUT_TASKS)
    fours = {
        tuple(one.activity for one in drawn[first : first + 4])
        for first in range(0, 800, 4)
    }
    assert len(fours) == 24  # in every order there is


def test_cuts_aim_at_one_kind_of_task_after_the_other() -> None:
    kinds = (TaskKind.DROP, TaskKind.FILL, TaskKind.TRUNCATE)
    activities = tuple(Activity)
    drawn = [plan_cut(5, n, STEADY_S, activities, kinds) for n in range(1, 61)]
    aimed = [one for one in drawn if one.activity is Activity.HOUSEKEEPING]
    assert [one.task for one in aimed] == [*kinds] * 4
    assert all(0 <= one.into_s <= 0.02 for one in aimed)
    assert {one.task for one in drawn if one not in aimed} == {None}


def test_a_moment_is_within_its_activity() -> None:
    ranges = {
        Activity.RAMP_UP: RAMP_UP_S,
        Activity.STEADY: STEADY_S,
        Activity.CHECKPOINT: STEADY_S,
        Activity.HOLD: STEADY_S,
    }
    for number in range(1, 301):
        drawn = plan_cut(5, number, STEADY_S)
        earliest, latest = ranges[drawn.activity]
        assert earliest <= drawn.after_s <= latest
        least_s, most_s = INTO_S.get(drawn.activity, (0, 0))
        assert least_s <= drawn.into_s <= most_s


def test_the_seed_and_the_number_decide() -> None:
    assert plan_cut(5, 7, STEADY_S) == plan_cut(5, 7, STEADY_S)
    assert len({plan_cut(seed, 7, STEADY_S).after_s for seed in range(50)}) == 50
    assert len({plan_cut(5, number, STEADY_S).after_s for number in range(1, 51)}) == 50


def test_a_server_without_checkpoints_meets_the_others() -> None:
    activities = (Activity.RAMP_UP, Activity.STEADY)
    drawn = [
        plan_cut(5, number, STEADY_S, activities).activity for number in range(1, 101)
    ]
    assert drawn.count(Activity.STEADY) == drawn.count(Activity.RAMP_UP) == 50


BEGAN_US, WENT_US = 1_000_000, 6_000_000
QUIET_US = [(5_900_000, 9_000_000)]
RAMP_UP, STEADY = Activity.RAMP_UP, Activity.STEADY
CHECKPOINT, HOUSEKEEPING = Activity.CHECKPOINT, Activity.HOUSEKEEPING


@pytest.mark.parametrize(
    ("drawn", "seen", "activity"),
    [
        pytest.param(
            CHECKPOINT, {"checkpoint_us": (5_900_000, None)}, CHECKPOINT, id="in it"
        ),
        pytest.param(
            CHECKPOINT, {"checkpoint_us": (1, WENT_US)}, CHECKPOINT, id="long"
        ),
        pytest.param(
            CHECKPOINT, {"checkpoint_us": (5_800_000, 5_990_000)}, STEADY, id="over"
        ),
        pytest.param(
            CHECKPOINT, {"checkpoint_us": (6_000_001, None)}, STEADY, id="too late"
        ),
        pytest.param(CHECKPOINT, {}, None, id="an old record"),
        pytest.param(CHECKPOINT, {"refused": "a superuser"}, STEADY, id="refused"),
        pytest.param(RAMP_UP, {"began_us": 4_000_000}, RAMP_UP, id="ramp-up"),
        pytest.param(RAMP_UP, {"began_us": 3_999_999}, STEADY, id="a slow switch"),
        pytest.param(STEADY, {}, STEADY, id="steady"),
        pytest.param(HOUSEKEEPING, {}, HOUSEKEEPING, id="during its task"),
        pytest.param(HOUSEKEEPING, {"refused": "no drop"}, STEADY, id="no task"),
        pytest.param(Activity.HOLD, {"quiet_us": QUIET_US}, Activity.HOLD, id="held"),
        pytest.param(Activity.HOLD, {"quiet_us": []}, STEADY, id="not held"),
        pytest.param(Activity.HOLD, {}, None, id="held or not"),
        pytest.param(RAMP_UP, {"went_us": None}, None, id="ramp-up, not dated"),
        pytest.param(STEADY, {"went_us": None}, None, id="steady, not dated"),
    ],
)
def test_the_moment_at_which_the_power_went_decides(
    drawn: Activity, seen: Mapping[str, Any], activity: Activity | None
) -> None:
    facts = {"began_us": BEGAN_US, "went_us": WENT_US, **seen}
    found = find_activity_at_cut(PlannedCut(1, drawn, 0.9, 0.0), AtTheCut(**facts))
    assert found.activity is activity
    assert bool(found.missed) is (activity is not drawn)


HELD = PlannedCut(1, Activity.HOLD, 5.0, 0.1)


@pytest.mark.parametrize(
    ("latest_us", "activity"),
    [
        pytest.param(None, Activity.HOLD, id="the moment is known"),
        pytest.param(1_000_000, Activity.HOLD, id="reported before it was cut"),
        pytest.param(1_900_000, Activity.HOLD, id="reported while they were held"),
        pytest.param(2_100_000, None, id="reported once they had resumed"),
    ],
)
def test_a_hold_counts_only_if_the_power_had_gone_before_the_sessions_resumed(
    latest_us: int | None, activity: Activity | None
) -> None:
    seen = AtTheCut(0, 1_500_000, quiet_us=[(1_000_000, 2_000_000)])
    found = find_activity_at_cut(HELD, replace(seen, latest_us=latest_us))
    assert found.activity is activity
    assert bool(found.missed) is (activity is None)


@pytest.mark.parametrize(
    ("quiet_us", "is_held"),
    [
        pytest.param([(1_000_000, 2_000_000)], True, id="held"),
        pytest.param([(1, 2), (1_400_000, 1_600_000)], True, id="held again"),
        pytest.param([(1_000_000, 1_400_000)], False, id="resumed"),
        pytest.param([], False, id="commits in flight"),
        pytest.param([(1_600_000, 2_000_000)], False, id="they ended later"),
        pytest.param(None, False, id="nothing on record"),
    ],
)
def test_sessions_were_held_if_nothing_was_in_flight_at_the_cut(
    quiet_us: list[tuple[int, int]] | None, is_held: bool
) -> None:
    found = find_activity_at_cut(HELD, AtTheCut(0, 1_500_000, quiet_us=quiet_us)).missed
    assert (found == "") is is_held
    # Without a moment at which they went on, none is claimed.
    assert ("resumed" in found) is (quiet_us == [(1_000_000, 1_400_000)])


def test_a_hold_knows_when_the_power_goes() -> None:
    lag_s = find_lag_range([1.2, 1.4, 1.3])
    assert lag_s is not None and 1 < lag_s[0] < 1.2 and 1.4 < lag_s[1] < 1.6
    drawn = add_lag_to_hold(HELD, lag_s)
    assert (drawn.activity, drawn.lag_s, drawn.no_hold) == (Activity.HOLD, lag_s, "")


@pytest.mark.parametrize("lags_s", [[], [0.2, 0.2 + SPREAD_MAX_S]])
def test_a_switch_whose_moment_is_not_known_well_enough_draws_no_hold(
    lags_s: list[float],
) -> None:
    drawn = add_lag_to_hold(HELD, find_lag_range(lags_s))
    assert drawn.activity is Activity.STEADY and drawn.lag_s is None
    assert find_activity_at_cut(drawn, AtTheCut(1, 2)) == Met(
        Activity.STEADY, drawn.no_hold
    )
    assert drawn.no_hold
    # What the switch did long ago is no matter.
    again = add_lag_to_hold(HELD, find_lag_range([*lags_s, *[0.3] * 8]))
    assert again.activity is Activity.HOLD
