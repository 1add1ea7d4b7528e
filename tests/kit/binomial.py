"""Exact probabilities of losses."""

from __future__ import annotations

from fractions import Fraction
from math import comb


def exactly(losses: int, cuts: int, p: Fraction) -> Fraction:
    """Return the probability of so many losses."""
    return comb(cuts, losses) * p**losses * (1 - p) ** (cuts - losses)
