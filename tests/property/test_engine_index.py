"""An index is compared with its table whatever the ids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.engines.postgresql import index as postgresql_index
from dbcheck.engines.postgresql.index import IdsRead

IDS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


def remainder(value: int, modulus: int) -> int:
    """Return PostgreSQL's %."""
    return abs(value) % modulus * (1 if value >= 0 else -1)


@given(st.lists(st.lists(IDS, max_size=40), max_size=20))
def test_ids_are_counted_digested_and_sampled(batches: list[list[int]]) -> None:
    whole = [row_id for batch in batches for row_id in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgresql_index, "LOOKUPS_MAX", 30)
        read = IdsRead()
        for batch in batches:
            read.add(np.array(batch, np.int64))
    some = read.some.tolist()
    strides = (whole[:: 2**power] for power in range(12))
    assert some == next(ids for ids in strides if len(ids) <= 30)
    assert read.count == len(whole)
    assert read.digest == sum(
        remainder(row_id, 1048573) * remainder(row_id, 65521) for row_id in whole
    )
