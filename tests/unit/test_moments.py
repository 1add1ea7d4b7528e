from __future__ import annotations

import pytest

from dbcheck.core.chores import ChoreKind
from dbcheck.core.moments import (
    INTO_S,
    RAMP_UP_S,
    SPREAD_MAX_S,
    WITHOUT_CHORES,
    AtTheCut,
    Moment,
    Stratum,
    lag_range,
    missed,
    moment,
    with_hold,
)

STEADY_S = (3.0, 6.0)


def test_each_four_cuts_meet_each_stratum() -> None:
    drawn = [moment(5, number, STEADY_S) for number in range(1, 801)]
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
    drawn = [moment(5, n, STEADY_S, strata, kinds) for n in range(1, 61)]
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
        drawn = moment(5, number, STEADY_S)
        earliest, latest = ranges[drawn.stratum]
        assert earliest <= drawn.after_s <= latest
        least_s, most_s = INTO_S.get(drawn.stratum, (0, 0))
        assert least_s <= drawn.into_s <= most_s


def test_the_seed_and_the_number_decide() -> None:
    assert moment(5, 7, STEADY_S) == moment(5, 7, STEADY_S)
    assert len({moment(seed, 7, STEADY_S).after_s for seed in range(50)}) == 50
    assert len({moment(5, number, STEADY_S).after_s for number in range(1, 51)}) == 50


def test_a_server_without_checkpoints_meets_the_others() -> None:
    strata = (Stratum.RAMP_UP, Stratum.STEADY)
    drawn = [moment(5, number, STEADY_S, strata).stratum for number in range(1, 101)]
    assert drawn.count(Stratum.STEADY) == drawn.count(Stratum.RAMP_UP) == 50


@pytest.mark.parametrize(
    ("stratum", "late_s", "refused", "said"),
    [
        (Stratum.CHECKPOINT, 0.1, "", ""),
        (Stratum.CHECKPOINT, -0.1, "", ""),
        (Stratum.CHECKPOINT, 0.1, "must be superuser", "under way: must be superuser"),
        (Stratum.CHECKPOINT, 48.0, "", "the cut came 48.0 s late"),
        (Stratum.RAMP_UP, 0.9, "", ""),
        (Stratum.RAMP_UP, 1.1, "", "the cut came 1.1 s late"),
        (Stratum.RAMP_UP, None, "", "is not known"),
        (Stratum.STEADY, 70.0, "must be superuser", ""),
        (Stratum.STEADY, None, "", ""),
        (Stratum.HOUSEKEEPING, 0.1, "", ""),
        (Stratum.HOUSEKEEPING, 0.1, "no drop was under way", "no drop was under way"),
        (Stratum.HOLD, 0.01, "", ""),
        (Stratum.HOLD, 2.0, "", ""),  # the sessions were held all the time
    ],
)
def test_a_cut_that_missed_its_stratum_is_none_of_it(
    stratum: Stratum, late_s: float | None, refused: str, said: str
) -> None:
    due_us = 5_000_000
    went_us = None if late_s is None else due_us + int(late_s * 1e6)
    seen = AtTheCut(due_us, went_us, refused, quiet_us=[(due_us, due_us + 3_000_000)])
    found = missed(Moment(1, stratum, 5.0, 0.0), seen)
    assert said in found
    assert bool(found) is bool(said)


HELD = Moment(1, Stratum.HOLD, 5.0, 0.1)


@pytest.mark.parametrize(
    ("quiet_us", "met"),
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
    quiet_us: list[tuple[int, int]] | None, met: bool
) -> None:
    found = missed(HELD, AtTheCut(900_000, 1_500_000, quiet_us=quiet_us))
    assert (found == "") is met
    # Without a moment at which they went on, none is claimed.
    assert ("resumed" in found) is (quiet_us == [(1_000_000, 1_400_000)])


def test_a_hold_knows_when_the_power_goes() -> None:
    lag_s = lag_range([1.2, 1.4, 1.3])
    assert lag_s is not None and 1 < lag_s[0] < 1.2 and 1.4 < lag_s[1] < 1.6
    drawn = with_hold(HELD, lag_s)
    assert (drawn.stratum, drawn.lag_s, drawn.no_hold) == (Stratum.HOLD, lag_s, "")


@pytest.mark.parametrize("lags_s", [[], [0.2, 0.2 + SPREAD_MAX_S]])
def test_a_switch_whose_moment_is_not_known_well_enough_draws_no_hold(
    lags_s: list[float],
) -> None:
    drawn = with_hold(HELD, lag_range(lags_s))
    assert drawn.stratum is Stratum.STEADY and drawn.lag_s is None
    assert missed(drawn, AtTheCut(1, 2)) == drawn.no_hold != ""
    # What the switch did long ago is no matter.
    again = with_hold(HELD, lag_range([*lags_s, *[0.3] * 8]))
    assert again.stratum is Stratum.HOLD
