"""The arithmetic of the benchmark of crash states."""

from __future__ import annotations

from types import SimpleNamespace

from tools.bench import states, states_daemon
from tools.bench.parts import Parts, differences


def test_a_part_does_not_count_what_parts_inside_of_it_take() -> None:
    times = iter([0.0, 1.0, 1.5, 4.0, 6.0, 10.0, 20.0, 21.0])
    parts = Parts(lambda: next(times))
    with parts.part("outer"), parts.part("middle"), parts.part("inner"):
        pass  # 0 to 10, 1 to 6, 1.5 to 4
    assert parts.taken() == {"inner": 2.5, "middle": 2.5, "outer": 5.0}
    with parts.part("outer"):
        pass
    assert parts.taken() == {"outer": 1.0}
    assert parts.taken() == {}


def test_calls_of_a_function_are_counted_while_it_is_patched() -> None:
    times = iter([0.0, 1.0, 5.0, 7.0])
    parts = Parts(lambda: next(times))
    owner = SimpleNamespace(double=lambda number: 2 * number)
    with parts.timing(owner, "double", "doubled"):
        assert (owner.double(2), owner.double(number=3)) == (4, 6)
    owner.double(4)
    assert parts.taken() == {"doubled": 3.0}


def test_counts_grow_from_one_reading_to_the_next() -> None:
    readings = [{"reads": 1.0, "writes": 5.0}, {"reads": 4.0, "writes": 5.0}]
    assert differences(readings) == [{"reads": 3.0, "writes": 0.0}]


def test_a_request_takes_what_the_lab_did_not_use() -> None:
    outside = {states._REQUEST: 5.0, states._ROWS: 2.0}
    in_lab = {states_daemon.MOUNT: 3.0, states_daemon.REST: 0.5}
    joined = states._joined(outside, in_lab)
    assert joined[states._REQUEST] == 1.5
    assert sum(joined.values()) == 7.0
    assert set(joined) == set(states._PARTS)
