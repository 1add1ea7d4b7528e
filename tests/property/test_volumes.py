"""Copies of volumes: those of one moment have no gap, and all others are found."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from dbcheck.restore.volumes import find_numbers

FOLDERS = "abcdef"
places = st.integers(1, len(FOLDERS))
steps = st.integers(0, 300)


def numbers_of(place: int, count: int, until: int) -> list[int]:
    """Return the numbers that folder *place* of *count* has once *until* is written."""
    return list(range(place + 1, until + 1, count))


def as_runs(numbers: list[int], count: int) -> list[range]:
    """Return the numbers as the reader gives them: runs of one step."""
    runs: list[range] = []
    for number in numbers:
        if runs and number == runs[-1].stop - 1 + count:
            runs[-1] = range(runs[-1].start, number + 1, count)
        else:
            runs.append(range(number, number + 1, count))
    return runs


@given(places, steps)
def test_volumes_of_one_moment_have_all_numbers(count: int, until: int) -> None:
    found = {
        FOLDERS[place]: as_runs(numbers_of(place, count, until), count)
        for place in range(count)
    }
    numbers = find_numbers(found)
    assert numbers.until == until == max(numbers.newest.values())


@given(st.lists(steps, min_size=2, max_size=len(FOLDERS)))
def test_volumes_of_several_moments_are_found_unless_no_step_lies_between(
    moments: list[int],
) -> None:
    """Model: the numbers as a set; it has a gap, or looks like one moment's."""
    count = len(moments)
    each = [numbers_of(place, count, moment) for place, moment in enumerate(moments)]
    union = {number for numbers in each for number in numbers}
    until = next(number for number in range(len(union) + 1) if number + 1 not in union)
    found = {
        FOLDERS[place]: as_runs(numbers, count) for place, numbers in enumerate(each)
    }
    numbers = find_numbers(found)
    assert numbers.until == until
    assert max(numbers.newest.values()) == max(union, default=0)
    apart = max(moments) - min(moments)
    if apart > 2 * count:
        assert max(numbers.newest.values()) > numbers.until


@given(places, st.integers(2, 300), st.data())
def test_one_number_that_is_missing_is_found(
    count: int, until: int, data: st.DataObject
) -> None:
    gone = data.draw(st.integers(1, until - 1))
    found = {}
    for place in range(count):
        numbers = [n for n in numbers_of(place, count, until) if n != gone]
        found[FOLDERS[place]] = as_runs(numbers, count)
    numbers_found = find_numbers(found)
    assert numbers_found.until == gone - 1
    assert max(numbers_found.newest.values()) == until


@given(places, steps, st.data())
def test_a_volume_without_its_file_is_found(
    count: int, until: int, data: st.DataObject
) -> None:
    assume(until > count > 1)
    lost = data.draw(st.integers(0, count - 1))
    found = {
        FOLDERS[place]: as_runs(numbers_of(place, count, until), count)
        for place in range(count)
    }
    found[FOLDERS[lost]] = []
    numbers = find_numbers(found)
    assert numbers.until == lost
    assert numbers.newest[FOLDERS[lost]] == 0
