"""What drives do during a load, sampled on a host that a cut may take at any time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle import watching
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.watching import DriveCounts, begin_counting, format_csv
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.flushes import Counts, Sample, UnderLoad
from dbcheck.ports.host import TargetHost
from tests.kit.host_samples import BEFORE
from tests.kit.nodes import site_of
from tests.kit.waiting import wait_until

WAIT_S = 60


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SAMPLE_S", 0.001)


def sample(second: int, flushes: int | None, *names: str) -> Sample:
    ms = None if flushes is None else 2 * flushes
    counts = Counts(10 * second, 5120 * second, second, flushes, ms)
    return Sample(second * 1_000_000, dict.fromkeys(names or ("sda",), counts))


class Scripted:
    """Counters that answer as they are told, then wait until they are closed."""

    def __init__(self, *samples: Sample) -> None:
        self._samples = list(samples)
        self.is_waiting, self._closed = threading.Event(), threading.Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def read(self) -> Sample:
        if self._samples:
            return self._samples.pop(0)
        self.is_waiting.set()
        assert self._closed.wait(WAIT_S)
        raise HostError("it was closed", id=ErrorId.HOST_UNREACHABLE)

    def close(self) -> None:
        self._closed.set()


class Counters:
    """A load of which so many acks are known at each question."""

    def __init__(self, *acked: int) -> None:
        self._acked = list(acked)

    def __call__(self) -> int:
        return self._acked.pop(0) if len(self._acked) > 1 else self._acked[0]


def counted(samples: Sequence[Sample], *acked: int) -> DriveCounts:
    counters = Scripted(*samples)
    counts = DriveCounts(counters, Counters(*acked))
    counts.begin()
    assert counters.is_waiting.wait(WAIT_S)
    counts.end()
    assert counters.closed
    return counts


def test_the_whole_begins_before_the_load_and_the_newest_is_the_last_interval() -> None:
    counts = counted([sample(5, 100), sample(6, 140), sample(8, 200)], 30, 90, 90)
    assert counts.whole == UnderLoad(3.0, 90, {"sda": Counts(30, 15360, 3, 100, 200)})
    assert counts.newest == UnderLoad(2.0, 60, {"sda": Counts(20, 10240, 2, 60, 120)})
    assert [done.acked for _, done in counts.series()] == [30, 60]


def test_what_was_counted_after_the_last_ack_is_not_part_of_the_whole() -> None:
    """A lab's host goes on after the cut; the rates are to be those of the load."""
    counts = counted([sample(1, 0), sample(2, 50), sample(9, 51)], 70, 70, 70)
    assert counts.whole is not None
    assert (counts.whole.seconds, counts.whole.acked) == (1.0, 70)
    assert len(counts.series()) == 2


def test_a_host_that_does_not_answer_holds_nothing_up() -> None:
    counts = counted([sample(1, 0)], 70)
    assert (counts.whole, counts.newest, counts.series()) == (None, None, ())


def test_a_drive_that_is_gone_counts_until_it_went() -> None:
    """Where drives alone are cut, the host still answers without them."""
    both = ("sda", "sdb")
    samples = [sample(1, 0, *both), sample(2, 5, *both), sample(3, 9, "sdb")]
    counts = counted(samples, 7, 9)
    assert counts.whole is not None
    assert (counts.whole.acked, set(counts.whole.drives)) == (7, set(both))
    assert counts.newest is not None
    assert counts.newest.drives.keys() == {"sdb"}


def test_the_series_names_the_node_and_leaves_open_what_was_not_counted() -> None:
    counts = counted([sample(1, None), sample(2, None)], 7)
    ((at_us, _),) = counts.series()
    header, line = format_csv({"server": counts}, at_us - 1_500_000)
    assert header == watching.HEADER
    assert line == "1.500,1.000,7,server,sda,10,5120,1,,\n"


class Silent:
    """A host that opens the counters and then says no more; or nothing at all."""

    def __init__(self, counters: Any) -> None:
        self.counters = counters

    def counting(self, _: Sequence[str]) -> Any:
        if self.counters is None:
            raise HostError(
                "it refuses another connection", id=ErrorId.HOST_UNREACHABLE
            )
        return self.counters


class Refusing(Scripted):
    def read(self) -> Sample:
        raise HostError("it refuses", id=ErrorId.HOST_UNREACHABLE)


class Interrupted(Scripted):
    def read(self) -> Sample:
        raise KeyboardInterrupt


def begin(host: object, shown: list[str]) -> dict[str, DriveCounts]:
    listener = SimpleNamespace(phase=lambda _, text: shown.append(text))
    site = site_of(host=cast(TargetHost, host))
    rig = SimpleNamespace(site=site, listener=listener)
    nodes = {ONLY_NODE: SimpleNamespace(host=BEFORE)}
    started = SimpleNamespace(manifest=SimpleNamespace(nodes=nodes))
    return begin_counting(cast(Rig, rig), cast(Started, started), lambda: 0)


def test_counters_that_cannot_be_had_are_reported_and_the_load_goes_on() -> None:
    for counters in (None, Refusing()):
        shown: list[str] = []
        assert begin(Silent(counters), shown) == {}
        (text,) = shown
        assert "the flushes of its drives are not counted: it refuses" in text
        assert counters is None or counters.closed


def test_an_interrupt_leaves_no_counters_open() -> None:
    counters = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        begin(Silent(counters), [])
    assert counters.closed


def test_they_are_counted_until_the_end() -> None:
    counters = Scripted(sample(1, 0), sample(2, 5))
    (counts,) = begin(Silent(counters), []).values()
    wait_until(lambda: counts.newest is not None, "a second sample")
    counts.end()
    assert counters.closed
