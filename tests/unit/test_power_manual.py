from __future__ import annotations

from dbcheck.core.cut import PowerState
from dbcheck.power.manual import ManualSwitch


def test_a_human_is_asked_and_nothing_is_claimed() -> None:
    asked: list[str] = []
    power = ManualSwitch(asked.append)
    cut = power.cut()
    assert (cut.asked_us, cut.exact_us) == (None, None)
    power.restore()
    assert power.state() is PowerState.UNKNOWN
    assert power.failure() is None
    assert "NOW" in asked[0]
    assert len(asked) == 2
