"""Bounds on a probability: published tables, and coverage by exact enumeration."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dbcheck.model.verdict import (
    PPM,
    Comparison,
    Tally,
    Verdict,
    compute_cuts_needed,
    compute_loss_ppm_max,
    compute_loss_ppm_min,
    compute_unseen_ppm,
    describe_goal,
    describe_proof,
    describe_unseen_losses,
    format_percent_down,
    format_percent_up,
)
from tests.kit.binomial import exactly

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("cuts", "percent"), [(10, 26), (20, 14), (30, 10), (50, 6), (100, 3)]
)
def test_without_a_loss_the_bound_is_that_of_hanley_and_lippman_hand(
    cuts: int, percent: int
) -> None:
    # JAMA 249 (1983) 1743-1745: the exact maximum risks beside the rule of three.
    assert round(compute_loss_ppm_max(0, cuts) / 10_000) == percent
    assert 0 <= 3 * PPM / cuts - compute_loss_ppm_max(0, cuts) < 0.15 * 3 * PPM / cuts


def test_four_of_twenty_have_the_limits_that_nist_gives() -> None:
    # NIST/SEMATECH e-Handbook of Statistical Methods, section 7.2.4.1, confidence
    # intervals for small samples: 0.071354 and 0.401029 (two-sided 90%).
    assert compute_loss_ppm_min(4, 20) == 71_353
    assert compute_loss_ppm_max(4, 20) == 401_029


@pytest.mark.parametrize(
    ("percent", "cuts"), [(50, 5), (10, 29), (5, 59), (1, 299), (0.1, 2995)]
)
def test_so_many_cuts_are_needed_as_wilks_and_the_success_run_tables_say(
    percent: float, cuts: int
) -> None:
    # 59 and 299: S. S. Wilks, Ann. Math. Stat. 12 (1941), 91-96, at 95/95 and 95/99.
    assert compute_cuts_needed(round(percent * 10_000)) == cuts


def test_the_lady_tasting_tea() -> None:
    # Fisher, The Design of Experiments (1935), 3 of 4 right: 17 of 70 one-sided.
    assert Comparison(Tally(3, 4), Tally(1, 4)).p_ppm == -(-34 * PPM // 70)


def test_the_convictions_of_twins() -> None:
    # Fisher, Statistical Methods for Research Workers, section 21.02, and the example
    # of R's fisher.test: 2 of 17 against 10 of 13, two-sided p = 0.0005367.
    compared = Comparison(Tally(2, 17), Tally(10, 13))
    assert compared.p_ppm == 537
    assert compared.difference_ppm == round((10 / 13 - 2 / 17) * PPM)
    assert compared.sentence == (
        "losses in 2 of 17 cuts against 10 of 13: 65 percentage points apart, unlikely "
        "to be chance (Fisher's exact test, two-sided, p at most 0.00054)"
    )


@pytest.mark.parametrize("cuts", range(1, 13))
@pytest.mark.parametrize("percent", [1, 2, 5, 10, 14, 25, 37, 50, 63, 75, 90, 99])
def test_each_bound_holds_in_95_of_100_campaigns_whatever_the_truth_is(
    cuts: int, percent: int
) -> None:
    p = Fraction(percent, 100)
    chances = [exactly(losses, cuts, p) for losses in range(cuts + 1)]
    above, below = Fraction(0), Fraction(0)
    for losses, chance in enumerate(chances):
        above += chance if compute_loss_ppm_max(losses, cuts) >= p * PPM else 0
        below += chance if compute_loss_ppm_min(losses, cuts) <= p * PPM else 0
    assert above >= Fraction(95, 100)
    assert below >= Fraction(95, 100)


@pytest.mark.parametrize("percent", [1, 5, 10, 25, 50, 75, 95])
@pytest.mark.parametrize("planned", [1, 5, 20])
def test_the_bounds_hold_if_a_campaign_ends_at_its_first_loss(
    percent: int, planned: int
) -> None:
    p = Fraction(percent, 100)
    ends = [(1, cuts, (1 - p) ** (cuts - 1) * p) for cuts in range(1, planned + 1)]
    ends.append((0, planned, (1 - p) ** planned))
    assert sum(chance for *_, chance in ends) == 1
    above, below = Fraction(0), Fraction(0)
    for losses, cuts, chance in ends:
        above += chance if compute_loss_ppm_max(losses, cuts) >= p * PPM else 0
        below += chance if compute_loss_ppm_min(losses, cuts) <= p * PPM else 0
    assert above >= Fraction(95, 100)
    assert below >= Fraction(95, 100)


@pytest.mark.parametrize("bound_ppm", [0, PPM])
def test_no_number_of_cuts_shows_that_nothing_is_ever_lost(bound_ppm: int) -> None:
    with pytest.raises(ValueError, match="no number of cuts"):
        compute_cuts_needed(bound_ppm)


def test_a_drive_that_loses_in_a_quarter_of_its_cuts_passes_five_now_and_then() -> None:
    assert compute_unseen_ppm(250_000, 5) == 237_305  # 0.75^5 = 0.2373046875
    assert describe_unseen_losses(5) == (
        "a server that loses in a quarter of such cuts would pass 5 cuts with a chance "
        "of 24%"
    )


@pytest.mark.parametrize(
    ("ppm", "up", "down"),
    [
        (950_000, "95%", "95%"),
        (139_109, "14%", "13%"),
        (99_999, "10%", "9.9%"),
        (9_937, "1%", "0.99%"),
        (1, "0.0001%", "0.0001%"),
        (0, "0%", "0%"),
    ],
)
def test_percent(ppm: int, up: str, down: str) -> None:
    assert (format_percent_up(ppm), format_percent_down(ppm)) == (up, down)


def test_a_tally_counts_only_what_passed_or_failed() -> None:
    cycles = [(PASS, "DRIVE"), (INCONCLUSIVE, ""), (FAIL, "OS"), (PASS, "DRIVE")]
    tally = Tally.of(cycles)
    assert (tally.losses, tally.cuts, tally.inconclusive) == (1, 3, 1)
    assert tally.depths == {"DRIVE": 2, "OS": 1}


@pytest.mark.parametrize(
    ("tally", "sentence"),
    [
        pytest.param(
            Tally(0, 20, 0, {"DRIVE": 20}),
            "no loss in 20 cuts at DRIVE depth: at most 14% of cuts lose, "
            "95% confidence",
            id="no loss",
        ),
        pytest.param(
            Tally(0, 1),
            "no loss in 1 cut: one pass proves almost nothing; 59 passes bound losses "
            "at 5%, 95% confidence",
            id="one cut, its depth not measured",
        ),
        pytest.param(
            Tally(0, 20, 2, {"DRIVE": 18, "OS": 2}),
            "no loss in 20 cuts (18 at DRIVE depth, 2 at OS depth): at most 14% of "
            "cuts lose, 95% confidence (2 cycles inconclusive, not counted)",
            id="two depths, some that do not count",
        ),
        pytest.param(
            Tally(1, 20, 0, {"": 20}),
            "1 loss in 20 cuts: at least 0.25% of cuts lose, 95% confidence, and at "
            "most 22%, 95% confidence",
            id="one loss",
        ),
        pytest.param(
            Tally(5, 5),
            "5 losses in 5 cuts: at least 54% of cuts lose, 95% confidence",
            id="nothing but losses",
        ),
        pytest.param(
            Tally(0, 0, 1),
            "no cut counts (1 cycle inconclusive, not counted): this proves nothing",
            id="no cut that counts",
        ),
    ],
)
def test_sentences(tally: Tally, sentence: str) -> None:
    assert tally.sentence == sentence
    assert tally.statistics.sentence == sentence


def test_few_cuts_do_not_tell_two_configurations_apart() -> None:
    compared = Comparison(Tally(0, 3), Tally(3, 3))
    assert compared.p_ppm == 100_000
    assert "which can be chance" in compared.sentence
    assert compared.result.difference_ppm == PPM


def test_what_was_never_cut_is_not_compared() -> None:
    compared = Comparison(Tally(0, 0), Tally(3, 3))
    assert compared.difference_ppm is None
    assert compared.sentence.endswith("nothing to compare")


def test_a_campaign_cannot_lose_more_often_than_it_is_cut() -> None:
    with pytest.raises(ValueError, match="2 losses in 1 cuts"):
        Tally(2, 1)


def test_one_pass_is_said_to_prove_almost_nothing_wherever_it_is_told() -> None:
    for text in (describe_goal(1), Tally(0, 1).sentence, describe_proof(0, 1)):
        assert "95% of" not in text
        assert "ne pass proves almost nothing; 59 passes bound losses at 5%" in text
    assert "at most 78% of such cuts lose" in describe_goal(2)
