"""Mixed operations: the judge finds what is lost, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbcheck.rows.decks import Decks
from dbcheck.rows.mix import ACTIONS, Mix
from dbcheck.rows.reconcile import Reconciliation
from tests.kit.mixed import EVERYTHING, Model, plan_of

weights = st.integers(0, 3)
mixes = st.builds(Mix, *[weights] * len(ACTIONS)).filter(lambda mix: not mix.problem())


@given(st.integers(1, 200), st.data())
def test_one_row_that_is_gone_or_back_is_always_noticed(
    count: int, data: st.DataObject
) -> None:
    """The tables of two different states; whatever one row says, it says too much."""
    model, later = Model(plan_of()), Model(plan_of())
    model.run(1, count)
    later.run(1, count)
    table = data.draw(st.sampled_from(["item", "register"]))
    rows = model.tables[table]
    if rows and data.draw(st.sampled_from([True, False])):
        del rows[data.draw(st.sampled_from(sorted(rows)))]
    else:
        earlier = Model(plan_of())
        earlier.run(1, data.draw(st.integers(0, count - 1)))
        other = {n: r for n, r in earlier.tables[table].items() if n not in rows}
        if not other:
            return
        name = data.draw(st.sampled_from(sorted(other)))
        rows[name] = {**other[name], "row_id": 10**6}
    found = model.judged({1: count})
    assert sum(found.counts.values()) >= 1
    assert not later.judged({1: count}).counts


@given(mixes, st.integers(0, 2**63 - 1), st.integers(0, 9), st.integers(1, 300))
def test_decks_in_columns_are_those_dealt_one_by_one(
    mix: Mix, seed: int, session: int, top: int
) -> None:
    decks = Decks(mix, seed)
    for dealt in decks.dealt(session, top):
        for action in ACTIONS:
            lines = dealt.numbers(action)
            for number, line in enumerate(lines.tolist(), dealt.first):
                assert tuple(line) == decks.deck(session, number).numbers(action)


def test_a_mix_has_each_kind_as_often_as_its_weight_says() -> None:
    decks = Decks(EVERYTHING, 1)
    cards = [card for n in range(10) for card in decks.deck(3, n).cards]
    for action in ACTIONS:
        ranks = [card.rank for card in cards if card.action is action]
        assert ranks == list(range(10 * EVERYTHING.weight(action)))


def _named(found: Reconciliation) -> list[tuple[str, int]]:
    return sorted((loss.kind.value, loss.seq) for loss in found.losses)
