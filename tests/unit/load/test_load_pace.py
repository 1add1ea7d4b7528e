from __future__ import annotations

from dbcheck.load.pace import Pace

SECOND_US = 1_000_000


def test_without_a_rate_everything_is_granted() -> None:
    pace = Pace(0.0, 0)
    assert pace.granted(0, 1000) == 1000
    assert pace.wait_s(0) == 0.0


def test_a_rate_is_kept_however_often_it_is_asked() -> None:
    pace = Pace(1000.0, 0)
    granted = sum(pace.granted(us, 64) for us in range(0, SECOND_US, 137))
    assert 999 <= granted <= 1001


def test_what_is_not_wanted_is_not_lost_at_once() -> None:
    pace = Pace(1000.0, 0)
    assert pace.granted(100_000, 10) == 10
    assert pace.granted(100_000, 1000) == 91


def test_after_a_long_halt_only_a_second_is_made_up_for() -> None:
    pace = Pace(1000.0, 0)
    assert pace.granted(60 * SECOND_US, 10**6) == 1001


def test_the_wait_ends_when_something_is_granted() -> None:
    pace = Pace(4.0, 0)
    assert pace.granted(0, 64) == 1
    assert pace.wait_s(0) == 0.25
    assert pace.granted(249_999, 1) == 0
    assert pace.granted(250_000, 1) == 1
