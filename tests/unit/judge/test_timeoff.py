"""The time without power: who kept it, who saw it, and when it does not matter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.judge.cutmoment import UNKNOWN as NO_CLOCK
from dbcheck.judge.cutmoment import Elapsed
from dbcheck.judge.item import Status
from dbcheck.judge.timeoff import TimeOff, judge_measured_time_off
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth

MEANT_S = 15.0
SEEN = TimeOff(MEANT_S, 15.2, off_was_read=True)
UNSEEN = TimeOff(MEANT_S, 15.2, off_was_read=False)
BY_HAND = TimeOff(MEANT_S, None, off_was_read=False, by_hand=True)
UNKNOWN = Status.NOT_OBSERVABLE


def sure(seconds: float) -> Elapsed:
    return Elapsed(seconds, seconds)


def late(
    at_most_s: float, *, off_was_read: bool = False, by_hand: bool = False
) -> TimeOff:
    """A host whose kernel started so long after it was last heard."""
    off_s = None if by_hand else 15.2
    return TimeOff(MEANT_S, off_s, off_was_read, by_hand, sure(at_most_s))


@pytest.mark.parametrize(
    ("time", "status", "said"),
    [
        pytest.param(SEEN, Status.PRESENT, "off for 15.20 s", id="whole, seen"),
        pytest.param(
            replace(SEEN, read_by_users_program=True),
            Status.ASSUMED,
            "nothing else shows",
            id="whole, by the word of a program",
        ),
        pytest.param(UNSEEN, Status.ASSUMED, "no state command", id="nothing looked"),
        pytest.param(BY_HAND, Status.ASSUMED, "not measured", id="by hand"),
        pytest.param(
            TimeOff(MEANT_S, 14.9, off_was_read=True), UNKNOWN, "14.90 s", id="short"
        ),
        pytest.param(
            TimeOff(MEANT_S, None, off_was_read=True),
            UNKNOWN,
            "not measured",
            id="unknown",
        ),
        pytest.param(
            TimeOff(MEANT_S, 15.2, off_was_read=True, acks_after_cut_s=8.0),
            UNKNOWN,
            "off for 7.2 s at most instead of 15 s",
            id="a delayed outlet",
        ),
        pytest.param(
            TimeOff(MEANT_S, 25.2, off_was_read=True, acks_after_cut_s=8.0),
            Status.PRESENT,
            "25.20",
            id="a delayed outlet, long enough",
        ),
        pytest.param(
            TimeOff(MEANT_S, 15.2, off_was_read=True, acks_after_cut_s=0.9),
            Status.PRESENT,
            "15.20",
            id="the charge of a supply",
        ),
        pytest.param(
            TimeOff(0, 3.0, off_was_read=True), UNKNOWN, "longer", id="none meant"
        ),
        pytest.param(
            TimeOff(None, None, off_was_read=False),
            UNKNOWN,
            "comes back by itself",
            id="alone",
        ),
        pytest.param(
            late(3.0, by_hand=True), UNKNOWN, "started 3.0 s after", id="hasty hand"
        ),
        pytest.param(late(3.0), UNKNOWN, "started 3.0 s after", id="never off"),
        pytest.param(
            late(3.0, off_was_read=True),
            UNKNOWN,
            "started 3.0 s after",
            id="other outlet",
        ),
        pytest.param(
            late(-30.0, by_hand=True),
            UNKNOWN,
            "the host's kernel had started when the host was last heard",
            id="clocks apart",
        ),
        pytest.param(
            late(-3682.8, by_hand=True),
            Status.ASSUMED,
            "not measured",
            id="a kernel that had run before",
        ),
        pytest.param(
            replace(BY_HAND, answered_after=sure(2.2)),
            UNKNOWN,
            "the server answered again 2.2 s after the last ack, so",
            id="an early answer",
        ),
        pytest.param(
            replace(SEEN, answered_after=sure(14.9)),
            UNKNOWN,
            "answered again 14.9 s after",
            id="an early answer of another outlet",
        ),
        pytest.param(
            replace(BY_HAND, answered_after=sure(15.1)),
            Status.ASSUMED,
            "not measured",
            id="a late answer",
        ),
        pytest.param(
            replace(late(3.0), answered_after=sure(9.0)),
            UNKNOWN,
            "kernel started 3.0 s after",
            id="the kernel's start is the smaller bound",
        ),
        pytest.param(
            replace(late(9.0), answered_after=sure(8.0)),
            UNKNOWN,
            "answered again 8.0 s after",
            id="the answer is the smaller bound",
        ),
        pytest.param(
            replace(SEEN, kernel_started_after=Elapsed(3.0, 63.0)),
            UNKNOWN,
            "may have been off for less",
            id="a clock set forward",
        ),
        pytest.param(
            replace(SEEN, kernel_started_after=Elapsed(-90.0, 12.0)),
            UNKNOWN,
            "power was off for less",
            id="a clock set forward, by too little",
        ),
        pytest.param(
            replace(SEEN, kernel_started_after=Elapsed(15.1, 75.1)),
            Status.PRESENT,
            "15.20",
            id="a clock set forward, and late enough all the same",
        ),
        pytest.param(
            replace(SEEN, kernel_started_after=NO_CLOCK),
            Status.ASSUMED,
            "is not known",
            id="the start of the kernel on no clock",
        ),
        pytest.param(
            replace(SEEN, kernel_started_after=NO_CLOCK, answered_after=sure(9.0)),
            UNKNOWN,
            "power was off for less",
            id="what is sure is said first",
        ),
        pytest.param(
            replace(SEEN, answered_after=Elapsed(9.0, 69.0)),
            UNKNOWN,
            "may have been off for less",
            id="an answer, and a clock set forward",
        ),
        pytest.param(
            replace(SEEN, answered_after=NO_CLOCK),
            Status.ASSUMED,
            "is not known",
            id="an answer on no clock",
        ),
        pytest.param(
            replace(SEEN, kernel_started_after=sure(15.1), answered_after=NO_CLOCK),
            Status.PRESENT,
            "15.20",
            id="an answer on no clock, and a kernel that started late enough",
        ),
        pytest.param(late(15.1), Status.ASSUMED, "state command", id="late enough"),
        pytest.param(
            late(95.0, off_was_read=True), Status.PRESENT, "15.20", id="slow boot"
        ),
    ],
)
@pytest.mark.parametrize("cut", [CutClass.AC, CutClass.DC_RAIL, CutClass.BMC_OFF])
def test_a_cut_of_a_supply_must_last(
    cut: CutClass, time: TimeOff, status: Status, said: str
) -> None:
    for depth in (None, Depth.OS):
        item = judge_measured_time_off(cut, time, depth)
        assert item is not None
        assert (item.status, item.required) == (status, True)
        assert said in item.reason
    deep = judge_measured_time_off(cut, time, Depth.DRIVE)
    assert deep is not None
    assert deep.status is Status.PRESENT


@pytest.mark.parametrize("cut", [CutClass.RESET, CutClass.HYPERVISOR_KILL])
def test_what_takes_no_power_says_so(cut: CutClass) -> None:
    for depth in (Depth.OS, Depth.DRIVE):
        item = judge_measured_time_off(
            cut, TimeOff(None, None, off_was_read=False), depth
        )
        assert item is not None
        assert (item.status, item.required) == (Status.ABSENT, False)
        assert "leaves the drives powered" in item.reason


def test_an_undeclared_cut_that_ends_by_itself_claims_nothing_of_the_drives() -> None:
    item = judge_measured_time_off(
        CutClass.UNKNOWN, TimeOff(None, None, off_was_read=False), None
    )
    assert item is not None
    assert (item.status, item.required) == (Status.NOT_OBSERVABLE, False)
    kept = judge_measured_time_off(CutClass.UNKNOWN, UNSEEN, Depth.OS)
    assert kept is not None
    assert (kept.status, kept.required) == (Status.ASSUMED, True)


@pytest.mark.parametrize("cut", [CutClass.LAB_DRIVE, CutClass.PROCESS])
def test_a_lab_keeps_no_time(cut: CutClass) -> None:
    assert (
        judge_measured_time_off(cut, TimeOff(None, None, off_was_read=False), None)
        is None
    )
