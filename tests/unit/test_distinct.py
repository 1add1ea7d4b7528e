"""The different values of a column come once, in order."""

from __future__ import annotations

import numpy as np
import pytest

from dbcheck.core.distinct import distinct


@pytest.mark.parametrize(
    "values",
    [[], [7], [7, 7, 7], [3, -1, 3, 2**62, -1], [*range(9), *range(5, -5, -1)]],
)
def test_each_value_comes_once_in_order(values: list[int]) -> None:
    rows = np.zeros(len(values), [("other", "i1"), ("value", "<i8")])
    rows["value"] = values
    found = distinct(rows["value"])
    assert found.tolist() == sorted(set(values))
    assert found.dtype == np.int64
    assert rows["value"].tolist() == values
