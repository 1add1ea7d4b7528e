"""Measures how deep a cut of an idle host goes, where nothing flushes its drives."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from dbcheck.base import interrupt
from dbcheck.cycle.host import (
    end_host_canaries,
    finish_host_inspection,
    start_host_inspection,
)
from dbcheck.cycle.own_data import read_own_facts
from dbcheck.judge.volumes import VolumeDepth, find_volume_depths
from dbcheck.model.cut import Cut, CutClass
from dbcheck.model.depth import RECENT_S, Reached, ReachedVolume
from dbcheck.model.places import Place
from dbcheck.model.server import ServerFacts
from dbcheck.ports.host import TargetHost
from dbcheck.ports.listener import Listener
from dbcheck.power.selftest import SelfTest

# Only the writes of the last RECENT_S are checked, and what the canaries made durable
# before them must be older than that.
WRITE_S = RECENT_S + 0.5
POLL_S = 0.05


def cut_idle_host_and_measure_depth(
    host: TargetHost,
    listener: Listener,
    server: ServerFacts,
    places: Sequence[Place],
    mark_data: Callable[[], str],
    cut: Callable[[], SelfTest],
    cut_class: CutClass,
) -> tuple[SelfTest, list[VolumeDepth], Reached | None]:
    """Start canaries, call *cut*, and read what is left of the canaries.

    Return the result of *cut*, the depth on each volume, and what the cut reached.

    mark_data: see ports.engine.Engine.
    cut: cuts and restores the power, and returns once the host answers again.
    Raise HostError if the host cannot be asked before that.
    """
    facts = read_own_facts(host, server, places, mark_data)
    before, canaries = start_host_inspection(host, "", facts)
    try:
        _wait_for_writes()
        test = cut()
    finally:
        end_host_canaries(host, canaries)
    after = finish_host_inspection(host, listener, before, server, places)
    completed, *elsewhere = canaries.completed(host_kept=False)
    depths = find_volume_depths(before, completed, elsewhere, after, cut_class)
    if not depths:
        return test, [], None
    volumes = tuple(
        ReachedVolume(
            found_depth.volume.filesystem_uuid,
            found_depth.depth.value if found_depth.depth else "",
        )
        for found_depth in depths
    )
    at = datetime.now(UTC).isoformat(timespec="seconds")
    lag_s = _measure_lag_s(test.cut, canaries.data.heard_us())
    return test, depths, Reached(at, before.facts.machine_id, volumes, lag_s)


def _measure_lag_s(cut: Cut, heard_us: int | None) -> float | None:
    """Measure the time from asking the switch to the host's last sign of life."""
    went_us = heard_us if cut.exact_us is None else cut.exact_us
    if went_us is None or cut.asked_us is None:
        return None
    return max(0, went_us - cut.asked_us) / 1e6


def _wait_for_writes() -> None:
    """Return once the canaries have written for long enough."""
    ends_s = time.monotonic() + WRITE_S
    while time.monotonic() < ends_s:
        interrupt.raise_if_interrupted()
        time.sleep(POLL_S)
