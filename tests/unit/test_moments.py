from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.model.moments import (
    INTO_S,
    RAMP_UP_S,
    SPREAD_MAX_S,
    WITHOUT_CHORES,
    AtTheCut,
    Met,
    Moment,
    Stratum,
    add_lag_to_hold,
    draw_moment,
    find_lag_range,
    find_stratum_of_cut,
)
from dbcheck.rows.chores import ChoreKind

STEADY_S = (3.0, 6.0)


def test_each_four_cuts_meet_each_stratum() -> None:
    drawn = [draw_moment(5, number, STEADY_S) for number in range(1, 801)]
    for first in range(0, 800, 4):
        assert {one.stratum for one in drawn[first : first + 4]} == set(WITHOUT_CHORES)
    fours = {
        tuple(one.stratum for one in drawn[first : first + 4])
        for first in range(0, 800, 4)
    }
    assert len(fours) == 24  # in every order there is


def test_cuts_aim_at_one_kind_of_chore_after_the_other() -> None:
    kinds = (ChoreKind.DROP, ChoreKind.FILL, ChoreKind.TRUNCATE)
    strata = tuple(Stratum)
    drawn = [draw_moment(5, n, STEADY_S, strata, kinds) for n in range(1, 61)]
    aimed = [one for one in drawn if one.stratum is Stratum.HOUSEKEEPING]
    assert [one.chore for one in aimed] == [*kinds] * 4
    assert all(0 <= one.into_s <= 0.02 for one in aimed)
    assert {one.chore for one in drawn if one not in aimed} == {None}


def test_a_moment_is_within_its_stratum() -> None:
    ranges = {
        Stratum.RAMP_UP: RAMP_UP_S,
        Stratum.STEADY: STEADY_S,
        Stratum.CHECKPOINT: STEADY_S,
        Stratum.HOLD: STEADY_S,
    }
    for number in range(1, 301):
        drawn = draw_moment(5, number, STEADY_S)
        earliest, latest = ranges[drawn.stratum]
        assert earliest <= drawn.after_s <= latest
        least_s, most_s = INTO_S.get(drawn.stratum, (0, 0))
        assert least_s <= drawn.into_s <= most_s


def test_the_seed_and_the_number_decide() -> None:
    assert draw_moment(5, 7, STEADY_S) == draw_moment(5, 7, STEADY_S)
    assert len({draw_moment(seed, 7, STEADY_S).after_s for seed in range(50)}) == 50
    assert (
        len({draw_moment(5, number, STEADY_S).after_s for number in range(1, 51)}) == 50
    )


def test_a_server_without_checkpoints_meets_the_others() -> None:
    strata = (Stratum.RAMP_UP, Stratum.STEADY)
    drawn = [
        draw_moment(5, number, STEADY_S, strata).stratum for number in range(1, 101)
    ]
    assert drawn.count(Stratum.STEADY) == drawn.count(Stratum.RAMP_UP) == 50


BEGAN_US, WENT_US = 1_000_000, 6_000_000
QUIET_US = [(5_900_000, 9_000_000)]
RAMP_UP, STEADY = Stratum.RAMP_UP, Stratum.STEADY
CHECKPOINT, HOUSEKEEPING = Stratum.CHECKPOINT, Stratum.HOUSEKEEPING


@pytest.mark.parametrize(
    ("drawn", "seen", "stratum"),
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
        pytest.param(HOUSEKEEPING, {}, HOUSEKEEPING, id="during its chore"),
        pytest.param(HOUSEKEEPING, {"refused": "no drop"}, STEADY, id="no chore"),
        pytest.param(Stratum.HOLD, {"quiet_us": QUIET_US}, Stratum.HOLD, id="held"),
        pytest.param(Stratum.HOLD, {"quiet_us": []}, STEADY, id="not held"),
        pytest.param(Stratum.HOLD, {}, None, id="held or not"),
        pytest.param(RAMP_UP, {"went_us": None}, None, id="ramp-up, not dated"),
        pytest.param(STEADY, {"went_us": None}, None, id="steady, not dated"),
    ],
)
def test_the_moment_at_which_the_power_went_decides(
    drawn: Stratum, seen: Mapping[str, Any], stratum: Stratum | None
) -> None:
    facts = {"began_us": BEGAN_US, "went_us": WENT_US, **seen}
    found = find_stratum_of_cut(Moment(1, drawn, 0.9, 0.0), AtTheCut(**facts))
    assert found.stratum is stratum
    assert bool(found.missed) is (stratum is not drawn)


HELD = Moment(1, Stratum.HOLD, 5.0, 0.1)


@pytest.mark.parametrize(
    ("latest_us", "stratum"),
    [
        pytest.param(None, Stratum.HOLD, id="the moment is known"),
        pytest.param(1_000_000, Stratum.HOLD, id="reported before it was cut"),
        pytest.param(1_900_000, Stratum.HOLD, id="reported while they were held"),
        pytest.param(2_100_000, None, id="reported once they had resumed"),
    ],
)
def test_a_hold_counts_only_if_the_power_had_gone_before_the_sessions_resumed(
    latest_us: int | None, stratum: Stratum | None
) -> None:
    seen = AtTheCut(0, 1_500_000, quiet_us=[(1_000_000, 2_000_000)])
    found = find_stratum_of_cut(HELD, replace(seen, latest_us=latest_us))
    assert found.stratum is stratum
    assert bool(found.missed) is (stratum is None)


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
    found = find_stratum_of_cut(HELD, AtTheCut(0, 1_500_000, quiet_us=quiet_us)).missed
    assert (found == "") is is_held
    # Without a moment at which they went on, none is claimed.
    assert ("resumed" in found) is (quiet_us == [(1_000_000, 1_400_000)])


def test_a_hold_knows_when_the_power_goes() -> None:
    lag_s = find_lag_range([1.2, 1.4, 1.3])
    assert lag_s is not None and 1 < lag_s[0] < 1.2 and 1.4 < lag_s[1] < 1.6
    drawn = add_lag_to_hold(HELD, lag_s)
    assert (drawn.stratum, drawn.lag_s, drawn.no_hold) == (Stratum.HOLD, lag_s, "")


@pytest.mark.parametrize("lags_s", [[], [0.2, 0.2 + SPREAD_MAX_S]])
def test_a_switch_whose_moment_is_not_known_well_enough_draws_no_hold(
    lags_s: list[float],
) -> None:
    drawn = add_lag_to_hold(HELD, find_lag_range(lags_s))
    assert drawn.stratum is Stratum.STEADY and drawn.lag_s is None
    assert find_stratum_of_cut(drawn, AtTheCut(1, 2)) == Met(
        Stratum.STEADY, drawn.no_hold
    )
    assert drawn.no_hold
    # What the switch did long ago is no matter.
    again = add_lag_to_hold(HELD, find_lag_range([*lags_s, *[0.3] * 8]))
    assert again.stratum is Stratum.HOLD
