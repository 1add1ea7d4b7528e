"""How long an answer in pieces is waited for, on a clock that the test turns."""

from __future__ import annotations

import pytest

from dbcheck.remote.channel import SLOWEST_BYTES_PER_S, Patience


class Host:
    """Sends so many bytes after so many seconds, each time it is waited for."""

    def __init__(self, received: int, after_s: float) -> None:
        self._received, self._after_s = received, after_s
        self.clock_s = 0.0

    def take(self, timeout_s: float) -> int:
        assert timeout_s > 0
        self.clock_s += self._after_s
        return self._received

    def patience(self) -> Patience:
        return Patience(60.0, now=lambda: self.clock_s)


@pytest.mark.parametrize(
    ("received", "after_s"),
    [
        pytest.param(1, 1.0, id="a byte a second"),
        pytest.param(SLOWEST_BYTES_PER_S, 1.1, id="almost fast enough"),
        pytest.param(1, 59.0, id="a byte before each timeout"),
    ],
)
def test_a_trickle_ends(received: int, after_s: float) -> None:
    host = Host(received, after_s)
    patience = host.patience()
    with pytest.raises(TimeoutError):
        for _ in range(1000):
            patience.wait(host.take)
    assert host.clock_s < 700


def test_a_slow_line_is_waited_for() -> None:
    host = Host(2 * SLOWEST_BYTES_PER_S, 2.0)
    patience = host.patience()
    for _ in range(10_000):
        patience.wait(host.take)


def test_what_came_fast_earns_no_long_silence() -> None:
    host = Host(1 << 30, 0.1)
    patience = host.patience()
    patience.wait(host.take)
    left_s: list[float] = []

    def take(timeout_s: float) -> int:
        left_s.append(timeout_s)
        return 1

    patience.wait(take)
    assert left_s == [60.0]


def test_who_reads_slowly_is_given_the_time() -> None:
    host = Host(1 << 18, 0.1)
    patience = host.patience()
    for _ in range(10):
        patience.wait(host.take)
        host.clock_s += 1000
