"""What fails is reduced to what no part can be left out of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from dbcheck.explore.finding import find_smallest

parts = st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=24)


@given(parts, st.data())
def test_what_is_needed_is_found(found: list[int], data: st.DataObject) -> None:
    """A state fails whenever it lacks all of a few parts."""
    needed = data.draw(st.sets(st.sampled_from(found), min_size=1, max_size=4))
    tried: list[set[int]] = []

    def fails(some: Sequence[int]) -> bool:
        tried.append(set(some))
        return needed <= set(some)

    assert set(find_smallest(found, fails)) == needed
    assert set(found) not in tried  # known to fail


@given(parts, st.data())
def test_no_part_of_the_result_can_be_left_out(
    found: list[int], data: st.DataObject
) -> None:
    """Whatever the states are that fail, as long as the whole does."""
    draw = st.sets(st.sampled_from(found), min_size=1)
    failing = [set(found), *data.draw(st.lists(draw, max_size=12))]

    def fails(some: Sequence[int]) -> bool:
        return set(some) in failing

    left = find_smallest(found, fails)
    assert fails(left)
    assert not any(
        fails(fewer) for fewer in combinations(left, len(left) - 1) if len(left) > 1
    )


@given(parts, st.integers(0, 5))
def test_a_search_that_is_ended_keeps_what_it_has(found: list[int], tries: int) -> None:
    asked: list[Sequence[int]] = []

    def fails(some: Sequence[int]) -> bool:
        asked.append(some)
        return len(asked) <= tries and found[0] in some

    left = find_smallest(found, fails)
    assert found[0] in left
