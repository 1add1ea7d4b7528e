"""Two-phase operations: every state that a cut can leave is legal, and no other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.twophase import STEPS, Model

counts = st.integers(0, 20)


@given(
    st.dictionaries(
        st.integers(0, 5),
        st.tuples(counts, st.integers(0, 2), st.integers(0, STEPS)),
        max_size=4,
    ),
    st.booleans(),
)
def test_every_state_that_a_cut_can_leave_is_legal(
    sessions: dict[int, tuple[int, int, int]], claimed: bool
) -> None:
    """Some acks were not confirmed, and of the newest operation some steps are done."""
    model = Model()
    confirmed, sent = {}, {}
    for session, (acked, unconfirmed, steps) in sessions.items():
        model.run(session, acked + unconfirmed, steps)
        sent[session] = acked + unconfirmed + 1
        if acked:
            confirmed[session] = acked
    found = model.judged(confirmed, sent, claimed=claimed)
    assert not found.counts
    assert found.kept == found.confirmed == sum(confirmed.values())


@given(st.integers(1, 20), st.integers(0, 20))
def test_operations_that_are_gone_as_a_whole_are_missing_and_nothing_else(
    confirmed: int, kept: int
) -> None:
    kept = min(kept, confirmed)
    model = Model()
    model.run(1, kept)
    found = model.judged({1: confirmed})
    lost = [loss.seq for loss in found.losses if loss.kind.value == "missing-tail"]
    assert lost == list(range(kept + 1, confirmed + 1))
    assert len(found.losses) == len(lost)
    assert found.kept == kept


@given(st.integers(2, 40), st.data())
def test_one_transaction_that_is_gone_or_back_is_always_noticed(
    count: int, data: st.DataObject
) -> None:
    """All operations but the last are followed by one that is confirmed."""
    model, whole = Model(), Model()
    model.run(1, count)
    whole.run(1, count)
    seq = data.draw(st.integers(1, count))
    was = seq in {s for _, s in model.item}
    if was:
        del model.item[1, seq]
    elif (1, seq) in model.left:
        del model.left[1, seq]
    else:
        model.item[1, seq] = 0
    found = model.judged({1: count})
    assert [loss.seq for loss in found.losses] == [seq]
    assert found.kept == count - 1
    assert not whole.judged({1: count}).counts
