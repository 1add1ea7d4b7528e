"""Prints what a slow link to the witness does to a load: its rate, acks and window.

The witness is the lab's own, behind a relay that holds what passes for half a round
trip in each direction; the first row has none.  An ack's way to the witness is read
from the logs there: the witness's clock when the ack's frame came, less the client's
when the ack was read, as both are clocks of this machine.  The ack is durable one fsync
later.  Held back: the share of the sessions that waited for the window, and not for the
server.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from dbcheck.base.system import clocks_us
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.engines.registry import open_engine
from dbcheck.lab.lab import Lab
from dbcheck.load.load import Load
from dbcheck.model.witness import WindowFacts, WitnessTime
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.acks import PREFLIGHT_SESSION, AckArray, Ints
from dbcheck.runner.lab_rig import make_lab_rig
from dbcheck.witness.log import LogScan
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits
from dbcheck.witness.witness import SshWitness
from tests.kit.nodes import with_node
from tools.bench.latency import round_trips
from tools.bench.ours import choose_load, running
from tools.bench.rounds import add_axes, list_cases, measure_rounds
from tools.bench.shown import SPREAD, console, percentiles, spread, table
from tools.bench.slow_link import SlowLink
from tools.bench.witness import add_spent_s, read_witness_cpu_s

ROUND_TRIPS_MS, PROCESSES = (0.0, 10.0, 50.0), (1, 8)
_SETTLE_S = 0.5  # before the rate is measured
_LOOK_S = 0.02  # between two looks at the sessions
_ECHOES, _FSYNCS = 15, 50


class Case(NamedTuple):
    """One row of the table; its ratio is to the first row of as many processes.

    If each number of processes has one row alone, it is to the first row of all.
    """

    processes: int
    round_trip_ms: float
    window: int

    def __str__(self) -> str:
        """Return its name in a table."""
        return f"{self.processes} p, {self.round_trip_ms:g} ms, {self.window} acks"


@dataclass(frozen=True)
class Found:
    """What one run of a case showed; times in milliseconds.

    per_s:       acks/s that the witness confirmed.
    way_ms:      p50 and p99 of an ack's way from the client to the witness.
    fsync_ms:    p50 of the witness's write and fsync, under the load.
    echo_ms:     p50 of the round trip, with SSH, before the load.
    unconfirmed: acks without a confirmation, on average; most, of one process.
    held:        the share of the sessions that waited for the window.
    witness_us:  CPU time of the witness, its sshd and agents, for an ack.
    """

    per_s: float
    way_ms: tuple[float, float]
    fsync_ms: float
    echo_ms: float
    unconfirmed: float
    most: int
    held: float
    witness_us: float


def main(words: Sequence[str]) -> None:
    """Run every case in each round, and print a table."""
    parser = argparse.ArgumentParser("tools.bench link", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--sessions", type=int, default=64)
    axes = {
        "--processes": PROCESSES,
        "--round-trip-ms": ROUND_TRIPS_MS,
        "--window": [WindowLimits().acks],
    }
    add_axes(parser, axes)
    given = parser.parse_args(words)

    def measure(lab: Lab, folder: Path, case: Case) -> Found:
        one = _measure(lab, folder, case, given.sessions, given.seconds)
        console().print(f"{case}: {one}", soft_wrap=True)
        return one

    cases = [Case(*values) for values in list_cases(given, axes)]
    _show(measure_rounds(cases, given.rounds, measure), given)


def _show(found: dict[Case, list[Found]], given: argparse.Namespace) -> None:
    title = f"{given.sessions} sessions, {given.rounds} rounds of {given.seconds:g} s"
    rate = table(
        f"acks/s at the witness; {title}",
        *("load", "with SSH ms"),
        *(f"acks/s {name}" for name in SPREAD),
        *(f"ratio {name}" for name in SPREAD),
    )
    acks = table(
        f"an ack's way, and the window; {title}",
        *("load", "to the witness p50 ms", "p99 ms", "fsync there ms"),
        *("unconfirmed", "most of one", "held back", "witness us/ack"),
    )
    for case, runs in found.items():
        alike = [other for other in found if other.processes == case.processes]
        first = alike[0] if len(alike) > 1 else next(iter(found))
        pairs = zip(runs, found[first], strict=True)
        ratios = [one.per_s / beside.per_s for one, beside in pairs]
        echo_ms = statistics.median(one.echo_ms for one in runs)
        rate.add_row(
            *(str(case), f"{echo_ms:.1f}"),
            *spread([one.per_s for one in runs], 0),
            *spread(ratios),
        )
        acks.add_row(
            str(case),
            *(_middle([one.way_ms[at] for one in runs], 1) for at in (0, 1)),
            _middle([one.fsync_ms for one in runs], 2),
            _middle([one.unconfirmed for one in runs], 0),
            _middle([one.most for one in runs], 0),
            _middle([100 * one.held for one in runs], 0) + "%",
            _middle([one.witness_us for one in runs], 1),
        )
    for shown in (rate, acks):
        console().print(shown)


def _middle(values: Sequence[float], places: int) -> str:
    """Return the median and, in brackets, smallest and largest."""
    least, median, most = spread(values, places)
    return f"{median} ({least}-{most})"


def _measure(
    lab: Lab, folder: Path, case: Case, sessions: int, seconds: float
) -> Found:
    """Run one load over a link of its own."""
    open_engine(lab.target_url, lab.password).drop()
    with SlowLink(lab, case.round_trip_ms, folder) as link:
        witness = open_witness(
            link.url,
            limits=WindowLimits(acks=case.window),
            volatile=True,
            options=link.ssh,
        )
        assert isinstance(witness, SshWitness)
        silent = PlainProgress(Console(quiet=True))
        limits = Limits(window_acks=case.window)
        rig = with_node(make_lab_rig(lab, silent, folder / "runs", limits), host=None)
        with contextlib.closing(witness):
            echo_ms = percentiles(round_trips(witness, _ECHOES))[0]
            return _load(
                replace(rig, witness=witness), case, sessions, seconds, echo_ms
            )


def _load(rig: Rig, case: Case, sessions: int, seconds: float, echo_ms: float) -> Found:
    chosen = choose_load(sessions, case.processes)
    with running(rig, chosen) as (load, started):
        time.sleep(_SETTLE_S)
        before, before_s = load.status(), read_witness_cpu_s()
        looks = list(_look(load, seconds))
        after, after_s = load.status(), read_witness_cpu_s()
        fsyncs = rig.witness.probe(_FSYNCS)
    spent_s = add_spent_s(before_s, after_s)
    per_s = (after.witnessed - before.witnessed) / (after.seconds - before.seconds)
    unconfirmed, held = np.array(looks).mean(axis=0)
    return Found(
        per_s,
        _read_ways(rig, started),
        1e3 * statistics.median(fsyncs),
        echo_ms,
        float(unconfirmed),
        max(window.acks for window in _list_windows(load, started)),
        float(held),
        spent_s / (after.witnessed - before.witnessed) * 1e6,
    )


def _look(load: Load, seconds: float) -> Iterator[tuple[int, float]]:
    """Yield the unconfirmed acks, and the share of the sessions that are held back."""
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        snapshots = [group.snapshot() for group in load._groups]
        running = sum(one.running for one in snapshots)
        idle = running - sum(one.waiting for one in snapshots)
        yield sum(one.unconfirmed for one in snapshots), idle / max(1, running)
        time.sleep(_LOOK_S)


def _list_windows(load: Load, started: Started) -> list[WindowFacts]:
    parts = [result.window for result in load.results if result.window is not None]
    return parts or [started.log.window()]


def _read_ways(rig: Rig, started: Started) -> tuple[float, float]:
    """Return p50 and p99 of the acks' ways, from all logs of the run."""
    manifest = started.manifest
    ways = _Ways()
    for number in range(manifest.ack_logs):
        chunks = rig.witness.read(manifest.run_id, number)
        scan = LogScan(chunks, manifest.run_id, number=number, by_witness=True)
        scan._time = ways
        for _ in scan:
            pass
    found_ms = np.percentile(np.concatenate(ways.found_us), (50, 99)) / 1e3
    return float(found_ms[0]), float(found_ms[1])


class _Ways(WitnessTime):
    """Notes how long each ack of the load was on its way, and dates none."""

    def __init__(self) -> None:
        super().__init__()
        monotonic_us, _, wall_us = clocks_us()
        self._between_us = wall_us - monotonic_us
        self.found_us: list[Ints] = []

    def date(self, acks: AckArray, counts: Ints, received_us: Ints) -> None:
        of_load = acks["session"] != PREFLIGHT_SESSION
        came_us = np.repeat(received_us, counts) - self._between_us
        self.found_us.append((came_us - acks["acked_us"])[of_load])
