"""Whatever a cut leaves of an honest server's tables is legal, with any plan."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from dbcheck.rows.loss import LossKind
from dbcheck.rows.mix import ACTIONS, Mix
from tests.kit import mixed, orders

weights = st.integers(0, 3)
mixes = st.builds(Mix, *[weights] * len(ACTIONS)).filter(lambda mix: not mix.problem())
# Tables without a row yet.
models = st.one_of(
    mixes.map(lambda mix: mixed.Model(mixed.plan_of(mix))),
    st.integers(0, 2**63 - 1).map(
        lambda seed: orders.OrdersModel(orders.plan_of(seed))
    ),
)


@given(
    models,
    st.dictionaries(
        st.integers(0, 5),
        st.tuples(st.integers(0, 50), st.booleans(), st.booleans()),
        max_size=3,
    ),
)
def test_every_state_after_some_first_operations_is_legal(
    model: mixed.Model, sessions: Mapping[int, tuple[int, bool, bool]]
) -> None:
    """The newest operation may be unacked, and then present or absent as a whole."""
    confirmed = {s: acked for s, (acked, _, _) in sessions.items() if acked}
    sent = {s: acked + more for s, (acked, more, _) in sessions.items()}
    for session, (acked, more, kept) in sessions.items():
        model.run(session, acked + (more and kept))
    found = model.judged(confirmed, sent)
    assert not found.counts
    assert found.kept == found.confirmed == sum(confirmed.values())


@given(models, st.integers(0, 60), st.integers(0, 60))
def test_operations_that_are_gone_as_a_whole_are_missing_and_nothing_else(
    model: mixed.Model, confirmed: int, kept: int
) -> None:
    kept = min(kept, confirmed)
    model.run(1, kept)
    found = model.judged({1: confirmed})
    lost = [(LossKind.MISSING_TAIL, seq) for seq in range(kept + 1, confirmed + 1)]
    assert [(loss.kind, loss.seq) for loss in found.losses] == lost
    assert found.kept == kept
