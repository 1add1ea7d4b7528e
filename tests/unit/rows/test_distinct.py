"""The different values of a column come once, in order, and are found in another."""

from __future__ import annotations

import numpy as np
import pytest

from dbcheck.rows.survivors import find_distinct, is_among


@pytest.mark.parametrize(
    "values",
    [[], [7], [7, 7, 7], [3, -1, 3, 2**62, -1], [*range(9), *range(5, -5, -1)]],
)
def test_each_value_comes_once_in_order(values: list[int]) -> None:
    rows = np.zeros(len(values), [("other", "i1"), ("value", "<i8")])
    rows["value"] = values
    found = find_distinct(rows["value"])
    assert found.tolist() == sorted(set(values))
    assert found.dtype == np.int64
    assert rows["value"].tolist() == values


@pytest.mark.parametrize("others", [[], [7], [2**62, 3, 3, -1], [*range(5)]])
@pytest.mark.parametrize("values", [[], [7], [-1, 8, 3, 2**62, 4, 4]])
def test_a_value_is_found_among_others(values: list[int], others: list[int]) -> None:
    columns = np.array(values, np.int64), np.array(others, np.int64)
    assert is_among(*columns).tolist() == [value in others for value in values]
