"""An index is compared with its table whatever the ids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.engines import indexes
from dbcheck.engines.indexes import RowsRead
from dbcheck.rows.survivors import RECORD

IDS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
ROWS = st.tuples(
    IDS,
    IDS,
    st.integers(min_value=-(2**31), max_value=2**31 - 1),
    st.integers(min_value=-(2**15), max_value=2**15 - 1),
)


NAMES = ("row_id", "epoch", "session", "part")


def remainder(value: int, modulus: int) -> int:
    """Return PostgreSQL's %."""
    return abs(value) % modulus * (1 if value >= 0 else -1)


@given(st.lists(st.lists(ROWS, max_size=40), max_size=20))
def test_rows_are_counted_digested_and_sampled(
    batches: list[list[tuple[int, int, int, int]]],
) -> None:
    whole = [row for batch in batches for row in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "LOOKUPS_MAX", 30)
        read = RowsRead(has_key_index=True)
        for batch in batches:
            records = np.zeros(len(batch), RECORD)
            for name, values in zip(NAMES, zip(*batch, strict=True), strict=False):
                records[name] = values
            read.add(records)
    some = read.sample[list(NAMES)].tolist()
    strides = (whole[:: 2**power] for power in range(12))
    assert some == next(rows for rows in strides if len(rows) <= 30)
    assert read.count == len(whole)
    assert read.digest == sum(
        remainder(row_id, 1048573) * remainder(row_id, 65521) for row_id, *_ in whole
    )
    assert read.key_digest == sum(
        remainder(epoch, 1048573) * remainder(session * 40009 + part, 65521)
        for _, epoch, session, part in whole
    )
