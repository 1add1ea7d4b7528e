"""The different values of a column, and which of them another column has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dbcheck.rows.expected import Ints


def distinct(values: Ints) -> Ints:
    """Return each value once, in order.

    np.unique() sorts columns of integers several times slower, and imports numpy.ma,
    which takes as long as to judge a small run.
    """
    ordered = np.sort(values)
    is_first = np.ones(ordered.size, np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def is_among(values: Ints, others: Ints) -> npt.NDArray[np.bool_]:
    """Say of each of *values* whether it is one of *others*; as np.isin() does.

    That one calls np.unique() where there are many.
    """
    return is_among_distinct(values, distinct(others))


def is_among_distinct(values: Ints, wanted: Ints) -> npt.NDArray[np.bool_]:
    """Say so where *wanted* is what distinct() returned: it is not sorted again."""
    if not wanted.size:
        return np.zeros(values.size, np.bool_)
    places = np.searchsorted(wanted, values).clip(max=wanted.size - 1)
    found: npt.NDArray[np.bool_] = wanted[places] == values
    return found
