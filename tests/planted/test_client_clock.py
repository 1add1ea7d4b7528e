"""The client's wall clock is set while a server is down."""

from __future__ import annotations

import pytest

from dbcheck.base.system import clocks_us
from dbcheck.cycle import host as cycle_host
from dbcheck.judge.cutmoment import measure_elapsed
from dbcheck.judge.host import RAN_ON_S, measure_last_heard_to_kernel_start
from tests.planted.booted import booted
from tests.planted.fault import engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted


@pytest.mark.parametrize("set_s", [0, 3600, -3600])
@engines("own_site", "postgresql")
def test_a_clock_that_is_set_moves_no_start_of_a_kernel(
    site: Site, set_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the server's answer: both came within seconds of the last ack."""

    def later_us() -> tuple[int, int, int]:
        clock_us, boot_us, wall_us = clocks_us()
        return clock_us, boot_us, wall_us + set_s * 10**6

    with booted() as host:

        def cut() -> None:
            site.server.kill()
            host.cut = True

        def restore() -> None:
            site.server.start()
            monkeypatch.setattr(cycle_host, "clocks_us", later_us)

        outcome = site.cycle(cut, restore, exact=False, lab=False, host=host.port)
    started, load = measure_last_heard_to_kernel_start(outcome.case), outcome.load
    assert started is not None
    assert load is not None
    assert load.last_ack_us is not None
    answered = measure_elapsed(load, load.last_ack_us, outcome.after.answered)
    for each in (started, answered):
        assert -RAN_ON_S < each.least_s < RAN_ON_S
        assert each.most_s - each.least_s == pytest.approx(max(0, set_s), abs=1.0)
