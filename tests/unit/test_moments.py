from __future__ import annotations

from dbcheck.core.moments import INTO_CHECKPOINT_S, RAMP_UP_S, Stratum, moment

STEADY_S = (3.0, 6.0)


def test_each_three_cuts_meet_each_stratum() -> None:
    drawn = [moment(5, number, STEADY_S) for number in range(1, 301)]
    for first in range(0, 300, 3):
        assert {one.stratum for one in drawn[first : first + 3]} == set(Stratum)
    threes = {
        tuple(one.stratum for one in drawn[first : first + 3])
        for first in range(0, 300, 3)
    }
    assert len(threes) == 6  # in every order there is


def test_a_moment_is_within_its_stratum() -> None:
    ranges = {
        Stratum.RAMP_UP: RAMP_UP_S,
        Stratum.STEADY: STEADY_S,
        Stratum.CHECKPOINT: STEADY_S,
    }
    for number in range(1, 301):
        drawn = moment(5, number, STEADY_S)
        earliest, latest = ranges[drawn.stratum]
        assert earliest <= drawn.after_s <= latest
        if drawn.stratum is Stratum.CHECKPOINT:
            assert INTO_CHECKPOINT_S[0] <= drawn.into_s <= INTO_CHECKPOINT_S[1]
        else:
            assert drawn.into_s == 0


def test_the_seed_and_the_number_decide() -> None:
    assert moment(5, 7, STEADY_S) == moment(5, 7, STEADY_S)
    assert len({moment(seed, 7, STEADY_S).after_s for seed in range(50)}) == 50
    assert len({moment(5, number, STEADY_S).after_s for number in range(1, 51)}) == 50


def test_a_server_without_checkpoints_meets_the_others() -> None:
    strata = (Stratum.RAMP_UP, Stratum.STEADY)
    drawn = [moment(5, number, STEADY_S, strata).stratum for number in range(1, 101)]
    assert drawn.count(Stratum.STEADY) == drawn.count(Stratum.RAMP_UP) == 50
