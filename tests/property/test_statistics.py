"""Bounds enclose what was seen, whatever it was."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dbcheck.model.verdict import (
    PPM,
    compute_cuts_needed,
    compute_loss_ppm_max,
    compute_loss_ppm_min,
    format_percent_down,
    format_percent_up,
)
from tests.kit.binomial import exactly

campaigns = st.integers(0, 40).flatmap(
    lambda cuts: st.tuples(st.integers(0, cuts), st.just(cuts))
)


@given(campaigns)
def test_bounds_enclose_what_was_seen_and_are_as_tight_as_a_ppm_allows(
    campaign: tuple[int, int],
) -> None:
    losses, cuts = campaign
    low, high = compute_loss_ppm_min(losses, cuts), compute_loss_ppm_max(losses, cuts)
    assert low * cuts <= losses * PPM <= high * cuts or not cuts
    so_few = [exactly(n, cuts, Fraction(high - 1, PPM)) for n in range(losses + 1)]
    assert sum(so_few) > Fraction(5, 100) or not cuts
    if losses:
        p = Fraction(low + 1, PPM)
        so_many = [exactly(n, cuts, p) for n in range(losses, cuts + 1)]
        assert sum(so_many) > Fraction(5, 100)


@given(campaigns)
def test_a_bound_counts_losses_as_the_other_one_counts_keeps(
    campaign: tuple[int, int],
) -> None:
    losses, cuts = campaign
    if cuts:
        assert compute_loss_ppm_max(losses, cuts) == PPM - compute_loss_ppm_min(
            cuts - losses, cuts
        )


@given(st.integers(1000, PPM - 1))
def test_the_cuts_needed_are_enough_and_one_fewer_is_not(bound_ppm: int) -> None:
    cuts = compute_cuts_needed(bound_ppm)
    assert compute_loss_ppm_max(0, cuts) <= bound_ppm
    assert compute_loss_ppm_max(0, cuts - 1) > bound_ppm


@given(st.integers(0, PPM))
def test_what_is_printed_never_claims_more(ppm: int) -> None:
    up, down = (
        float(said(ppm).rstrip("%"))
        for said in (format_percent_up, format_percent_down)
    )
    assert down <= ppm / 10_000 <= up
    assert up - down <= max(0.0001, 0.11 * ppm / 10_000)
