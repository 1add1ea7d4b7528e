"""Whatever was sent and whatever is gone, the plan `registers` names exactly that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.registers import (
    TAIL,
    Rows,
    judged,
    named,
    registers_after,
    rows_of,
    wanted,
)


@given(
    st.dictionaries(
        st.integers(0, 5),
        st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(0, 1)),
        max_size=4,
    )
)
def test_every_state_after_some_first_operations_is_legal(
    sessions: dict[int, tuple[int, int, int]],
) -> None:
    """The newest operation may be unacked, and then present or absent as a whole."""
    confirmed = {s: acked for s, (acked, _, _) in sessions.items() if acked}
    sent = {s: acked + more for s, (acked, more, _) in sessions.items()}
    rows, registers = Rows(), Rows()
    for session, (acked, more, kept) in sessions.items():
        rows += rows_of(session, range(1, acked + more * kept + 1))
        registers += registers_after(session, acked + more * kept)
    found = judged(confirmed, rows, registers, sent)
    assert not found.counts
    assert found.kept == found.confirmed == sum(confirmed.values())


@given(st.integers(1, 20), st.integers(0, 20))
def test_operations_that_are_gone_as_a_whole_are_missing_and_nothing_else(
    confirmed: int, kept: int
) -> None:
    kept = min(kept, confirmed)
    found = judged(
        {1: confirmed}, rows_of(1, range(1, kept + 1)), registers_after(1, kept)
    )
    lost = [(TAIL, 1, seq) for seq in range(kept + 1, confirmed + 1)]
    assert named(found) == wanted(*lost)
    assert found.kept == kept
