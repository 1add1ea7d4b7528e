"""Prints how many acks/s one witness takes, over one SSH connection and over eight.

No server takes part: each connection has a process of its own that hands over acks as
a load does, at a rate or as fast as the window lets it.  Its CPU time, of sshd and the
agents, shows what it could take with a machine for itself: a core that needs 1 us for
an ack takes a million.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import select
import statistics
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dbcheck.base.system import now_us
from dbcheck.lab.lab import Lab
from dbcheck.lab.ssh.sshd import _list_descendants
from dbcheck.runs.folder import new_run_id
from dbcheck.witness.openlog import OpenLog
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits
from dbcheck.witness.witness import AgentWitness
from tools.bench.rounds import add_axes, list_cases, measure_rounds
from tools.bench.shown import SPREAD, console, spread, table

CONNECTIONS = (1, 8)
RATES = (0, 10_000, 50_000)
_ROUND_S = 1e-3  # a load takes its replies about as often
_READY_S = 60.0
_STAMP = "20260102-030405"


class Case(NamedTuple):
    """One row of the table; rate: acks/s of all connections, 0 for all they take."""

    connections: int
    rate: int
    window: int


class Sent(NamedTuple):
    """What one connection did; waited_ms: p50 and p99 of an ack to its confirmation."""

    acks: int
    seconds: float
    waited_ms: tuple[float, float]


@dataclass(frozen=True)
class Found:
    """What one run of a case showed; witness_us: its CPU time for an ack."""

    per_s: float
    waited_ms: tuple[float, float]
    witness_us: float


def main(words: Sequence[str]) -> None:
    """Run every case in each round, and print a table."""
    parser = argparse.ArgumentParser("tools.bench witness", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    axes = {
        "--connections": CONNECTIONS,
        "--rate": RATES,
        "--window": [WindowLimits().acks],
    }
    add_axes(parser, axes)
    given = parser.parse_args(words)
    cases = [Case(*values) for values in list_cases(given, axes)]
    found = measure_rounds(
        cases, given.rounds, lambda lab, _, case: _measure(lab, case, given.seconds)
    )
    result = table(
        f"acks at one witness, {given.rounds} rounds of {given.seconds:g} s",
        *("connections", "asked/s", "window", *(f"acks/s {of}" for of in SPREAD)),
        *("confirmed after p50 ms", "p99 ms", "its us/ack", "its cores"),
    )
    for case, runs in found.items():
        cores = statistics.median(one.witness_us * one.per_s / 1e6 for one in runs)
        asked = f"{case.rate:,}" if case.rate else "all"
        result.add_row(
            *(str(case.connections), asked, str(case.window)),
            *spread([one.per_s for one in runs], 0),
            *(
                f"{statistics.median(one.waited_ms[at] for one in runs):.1f}"
                for at in (0, 1)
            ),
            f"{statistics.median(one.witness_us for one in runs):.2f}",
            f"{cores:.2f}",
        )
    console().print(result)


def _measure(lab: Lab, case: Case, seconds: float) -> Found:
    """Let *connections* processes send acks, each to a log of its own."""
    witness = open_witness(
        lab.witness_url,
        limits=WindowLimits(acks=case.window),
        volatile=True,
        options=lab.ssh,
    )
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(case.connections + 1)
    run_id = new_run_id(_STAMP)
    manifest = b'{"logs": %d}' % (case.connections + 1)
    with (
        contextlib.closing(witness),
        contextlib.closing(witness.create(run_id, manifest)),
        context.Pool(case.connections, _note_barrier, (ready,)) as pool,
    ):
        rate = case.rate / case.connections
        jobs = [
            (witness, run_id, number, rate, seconds)
            for number in range(1, case.connections + 1)
        ]
        coming = pool.starmap_async(_send, jobs, chunksize=1)
        ready.wait(_READY_S)
        before_s = read_witness_cpu_s()
        for _ in ("begun", "ended"):
            ready.wait(_READY_S + seconds)
        after_s = read_witness_cpu_s()
        ready.wait(_READY_S)
        sent = coming.get(_READY_S)
    spent_s = add_spent_s(before_s, after_s)
    acks = sum(one.acks for one in sent)
    waited_ms = np.median([one.waited_ms for one in sent], axis=0)
    return Found(
        sum(one.acks / one.seconds for one in sent),
        (float(waited_ms[0]), float(waited_ms[1])),
        spent_s / acks * 1e6,
    )


_barriers: list[Barrier] = []


def _note_barrier(barrier: Barrier) -> None:
    _barriers[:] = [barrier]


def _send(
    witness: AgentWitness, run_id: str, number: int, rate: float, seconds: float
) -> Sent:
    """Send acks to log *number*, between two meetings of all processes."""
    with contextlib.closing(witness):
        log = witness.join(run_id, number)
        assert isinstance(log, OpenLog)
        for _ in ("all have joined", "the witness's time is read"):
            _barriers[0].wait(_READY_S)
        began = time.monotonic()
        waited = sorted(_stream(log, number, rate, seconds))
        took_s = time.monotonic() - began
        acks = log.confirmed()
        for _ in ("all have ended", "the witness's time is read"):
            _barriers[0].wait(_READY_S + seconds)
        log.close()
    at = len(waited)
    return Sent(acks, took_s, (waited[at // 2], waited[at * 99 // 100]))


def _stream(log: OpenLog, session: int, rate: float, seconds: float) -> Iterator[float]:
    """Yield, for each handful of acks, the milliseconds until it was confirmed."""
    waiting: deque[tuple[int, float]] = deque()  # acks handed over so far, and when
    began, handed = time.monotonic(), 0
    while (passed_s := time.monotonic() - began) < seconds:
        confirmed = log.confirmed()
        now = time.monotonic()
        while waiting and waiting[0][0] <= confirmed:
            yield (now - waiting.popleft()[1]) * 1e3
        wanted = int(passed_s * rate) - handed if rate else log.room()
        if (new := min(wanted, log.room())) > 0:
            moment_us = now_us()
            log.append_many(
                [
                    (session, seq, seq, moment_us)
                    for seq in range(handed + 1, handed + new + 1)
                ]
            )
            handed += new
            waiting.append((handed, now))
        if rate or not new:
            select.select([log.fileno()], [], [], _ROUND_S)


def read_witness_cpu_s() -> dict[int, float]:
    """Return the CPU time so far of each process of the lab's sshd and its agents."""
    found = {}
    for daemon in _list_descendants(os.getpid()):
        if _read_stat(daemon)[0].startswith("sshd"):
            for pid in (daemon, *_list_descendants(daemon)):
                ticks = sum(_read_stat(pid)[1])
                found[pid] = ticks / os.sysconf("SC_CLK_TCK")
    return found


def add_spent_s(before_s: Mapping[int, float], after_s: Mapping[int, float]) -> float:
    """Return the CPU time that all processes spent between the two."""
    return sum(each_s - before_s.get(pid, 0.0) for pid, each_s in after_s.items())


def _read_stat(pid: int) -> tuple[str, tuple[int, int]]:
    """Return the name and the clock ticks, user and system, of a process (proc(5))."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", (0, 0)
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    return name, (int(fields[11]), int(fields[12]))
