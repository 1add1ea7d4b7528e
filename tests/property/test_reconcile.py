"""Laws of reconciliation that hold for every history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbcheck.rows.reconcile import Claim
from tests.kit.cycles import reconciled, record

COUNTS = st.dictionaries(st.integers(0, 5), st.integers(1, 12), max_size=4)


@st.composite
def crashes(draw: st.DrawFn) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """Acks of each session, and the keys of the acked rows that survived."""
    counts = draw(COUNTS)
    keys = [(s, q) for s, n in counts.items() for q in range(1, n + 1)]
    kept = draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
    return counts, kept


@given(crashes())
def test_every_ack_is_kept_or_lost(
    crash: tuple[dict[int, int], list[tuple[int, int]]],
) -> None:
    counts, kept = crash
    found = reconciled(counts, [record(*key) for key in kept])
    lost = {(loss.session, loss.seq) for loss in found.losses}
    everything = {(s, q) for s, n in counts.items() for q in range(1, n + 1)}
    assert found.kept == len(kept)
    assert lost == everything - set(kept)
    assert len(found.losses) == len(lost)


@given(crashes())
def test_a_tail_has_nothing_behind_it_and_a_hole_has(
    crash: tuple[dict[int, int], list[tuple[int, int]]],
) -> None:
    counts, kept = crash
    found = reconciled(counts, [record(*key) for key in kept])
    for loss in found.losses:
        behind = any(s == loss.session and q > loss.seq for s, q in kept)
        assert loss.kind.value == ("missing-hole" if behind else "missing-tail")


@given(crashes(), st.data())
def test_one_more_survivor_never_adds_a_loss(
    crash: tuple[dict[int, int], list[tuple[int, int]]], data: st.DataObject
) -> None:
    counts, kept = crash
    gone = [
        (s, q) for s, n in counts.items() for q in range(1, n + 1) if (s, q) not in kept
    ]
    if not gone:
        return
    extra = data.draw(st.sampled_from(gone))
    before = reconciled(counts, [record(*key) for key in kept])
    after = reconciled(counts, [record(*key) for key in [*kept, extra]])
    assert len(after.losses) == len(before.losses) - 1


@given(COUNTS, st.sets(st.integers(0, 5)))
def test_a_server_that_keeps_its_word_is_never_accused(
    counts: dict[int, int], in_flight: set[int]
) -> None:
    """Whatever was in flight may have landed or not, with the client or without."""
    rows = [record(s, q) for s, n in counts.items() for q in range(1, n + 1)]
    landed = [record(s, counts.get(s, 0) + 1) for s in in_flight]
    sent = {s: counts.get(s, 0) + 1 for s in counts.keys() | in_flight}
    claim = Claim(sent, counts)
    for known in (claim, None):
        found = reconciled(counts, rows + landed, claim=known)
        assert found.counts == {}
        assert found.recovered == len(in_flight)
