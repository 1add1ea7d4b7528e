"""What the benchmark of a slow link reads from logs and windows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dbcheck.load.group import Snapshot
from dbcheck.model.witness import WindowFacts
from dbcheck.rows.acks import ACK_DTYPE, PREFLIGHT_SESSION
from tools.bench import link


def make_ways(monkeypatch: pytest.MonkeyPatch, between_us: int) -> link._Ways:
    clocks = (5_000_000, 5_000_000, 5_000_000 + between_us)
    monkeypatch.setattr(link, "clocks_us", lambda: clocks)
    return link._Ways()


def test_a_way_is_what_the_witness_s_clock_shows_later_than_the_client_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways = make_ways(monkeypatch, between_us=1_000_000)
    acks = np.zeros(4, ACK_DTYPE)
    acks["session"] = (PREFLIGHT_SESSION, 1, 2, 1)
    acks["acked_us"] = (100, 1_000, 1_500, 9_000)
    frames = np.array([3, 1]), np.array([1_004_000, 1_010_000])
    ways.date(acks, *frames)
    assert ways.found_us[0].tolist() == [3_000, 2_500, 1_000]
    assert acks["acked_us"].tolist() == [100, 1_000, 1_500, 9_000]


def test_sessions_that_wait_for_no_reply_are_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshots = (
        Snapshot(running=8, waiting=8, unconfirmed=30),
        Snapshot(running=8, waiting=4, unconfirmed=70),
    )
    groups = [SimpleNamespace(snapshot=lambda one=one: one) for one in snapshots]
    times = iter([0.0, 0.1, 9.0])
    clock = SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _: None)
    monkeypatch.setattr(link, "time", clock)
    load: Any = SimpleNamespace(_groups=groups)
    assert list(link._look(load, 1.0)) == [(100, 0.25)]


def test_the_windows_are_those_of_the_processes_or_else_the_client_s_own() -> None:
    own = WindowFacts(3, 0.1)
    started: Any = SimpleNamespace(log=SimpleNamespace(window=lambda: own))
    of_process = WindowFacts(9, 0.2)
    parts = [SimpleNamespace(window=of_process), SimpleNamespace(window=None)]
    load: Any = SimpleNamespace(results=parts)
    assert link._list_windows(load, started) == [of_process]
    load.results = [SimpleNamespace(window=None)]
    assert link._list_windows(load, started) == [own]
