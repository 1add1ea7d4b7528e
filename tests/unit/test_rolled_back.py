"""Writes that are gone from before a flush: no volatile cache lost those."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.core.counters import Counts, UnderLoad
from dbcheck.core.cut import PowerScope
from dbcheck.core.depth import Completed, Counted, Depth, Remains, Ring
from dbcheck.core.verdict import Verdict
from dbcheck.judge.case import Case
from dbcheck.judge.judge import judge
from tests.kit.cases import case, lab, loaded
from tests.kit.host_samples import BEFORE, FACTS, VOLUME, after
from tests.kit.samples import ALL_GONE, MANIFEST

LAST_US = 9_500_000
HONEST, ROLLED_BACK = 495, 200  # the last block of 500 that is there
SLOWEST_MS = 100.0


def cut(
    kept: int = ROLLED_BACK,
    *,
    flushes: int | None = 100,
    latency_ms: dict[str, float] | None = None,
    places: tuple[str, ...] = ("data", "WAL"),
    as_of_us: int | None = LAST_US,
    **manifest: Any,
) -> Case:
    """Return a case of 100 commits, whose canary wrote a block every 10 ms."""
    volume = replace(VOLUME, places={place: f"/{place}" for place in places})
    facts = replace(FACTS, volumes=(volume,))
    left = Remains("", (), 1, (Ring(((1, kept),)),), 1024)
    host = replace(after(volumes=(volume,)), remains=left)
    done = UnderLoad(5.0, 100, {"sda": Counts(900, 1, 1, flushes, None)})
    load = loaded(
        last_ack_us=LAST_US,
        latency_ms={"max": SLOWEST_MS} if latency_ms is None else latency_ms,
        canaries=Completed(Counted(500, 400), (Counted(500, 400),), as_of_us, 10_000),
        drives=done,
    )
    workload = replace(MANIFEST.workload, sessions=1, housekeeping=())
    before = replace(BEFORE, facts=facts)
    one = case(before, host, load=load, workload=workload, **manifest)
    return replace(one, found=replace(ALL_GONE, kept=1))


@pytest.mark.parametrize(
    ("one", "depth"),
    [
        pytest.param(cut(), None, id="from before a flush"),
        pytest.param(cut(HONEST), Depth.DRIVE, id="since the last flush"),
        pytest.param(cut(flushes=99), Depth.DRIVE, id="too few flushes"),
        pytest.param(cut(flushes=None), Depth.DRIVE, id="no flushes counted"),
        pytest.param(cut(latency_ms={}), Depth.DRIVE, id="no latency"),
        pytest.param(cut(latency_ms={"max": 5e3}), Depth.DRIVE, id="a slow commit"),
        pytest.param(cut(places=("data",)), Depth.DRIVE, id="no log on it"),
        pytest.param(cut(as_of_us=None), Depth.DRIVE, id="no report of the canaries"),
        pytest.param(cut(lab=lab("drive")), Depth.DRIVE, id="a lab's drive"),
        pytest.param(cut(scope=PowerScope.DRIVE), Depth.DRIVE, id="the drive was cut"),
    ],
)
def test_what_is_gone_from_before_a_flush_proves_no_lost_cache(
    one: Case, depth: Depth | None
) -> None:
    """The volume may have been rolled back; rows that are gone are a FAIL still."""
    assert one.shown_depth is depth
    assert judge(one).verdict is Verdict.FAIL
