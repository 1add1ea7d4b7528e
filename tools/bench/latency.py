"""Times an ack until it is durable at the witness, beside an fsync and a round trip.

The witness is the lab's own, over its sshd, so the round trip is that of SSH alone.
Alone: each ack waits for the one before, as in lockstep.  In a stream: acks come at a
steady rate and share batches, as those of a load do.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LabSpec
from dbcheck.rows.acks import Ack
from dbcheck.runs.folder import new_run_id
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits
from dbcheck.witness.witness import SshWitness
from tools.bench.shown import SPREAD, console, percentiles, spread, table

COUNT = 300
STREAM_PER_S, STREAM_S = 5000, 1.0
_ECHO_S = 30.0
_PAUSE_S = 1e-4
_ECHO = b"""
import os, sys
while got := sys.stdin.buffer.read1(64):
    os.write(1, got)
"""
_STAMP = "20260102-030405"


def main(words: Sequence[str]) -> None:
    """Measure the three in turn, pair by pair, and print a table."""
    parser = argparse.ArgumentParser("tools.bench latency", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args(words)
    acks = ("ack to durable, alone", "ack to durable, in a stream")
    floor = ("fsync", "round trip")
    names = (*acks, *floor)
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    with (
        tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder,
        Lab.start(LabSpec("postgresql", cut="process"), Path(folder) / "lab") as lab,
        contextlib.closing(_witness(lab, lockstep=True)) as witness,
        contextlib.closing(_witness(lab, lockstep=False)) as streaming,
    ):
        for _ in range(given.pairs):
            found["fsync"].append([1e3 * s for s in witness.probe(COUNT)])
            found["round trip"].append(round_trips(witness, COUNT))
            found[acks[0]].append(_acks(witness))
            found[acks[1]].append(_stream(streaming))
    title = f"milliseconds; {COUNT} in each pair, {STREAM_PER_S:,}/s in the stream"
    result = table(title, "", *SPREAD)
    for at, percentile in enumerate(("p50", "p99")):
        parts = {name: [percentiles(one)[at] for one in found[name]] for name in names}
        for name, times in parts.items():
            result.add_row(f"{name}, {percentile}", *spread(times, 3))
        for ack in acks:
            together = zip(*(parts[name] for name in (ack, *floor)), strict=True)
            more = [of - fsync - trip for of, fsync, trip in together]
            result.add_row(f"{ack}: beyond both, {percentile}", *spread(more, 3))
    console().print(result)


def _witness(lab: Lab, *, lockstep: bool) -> SshWitness:
    witness = open_witness(
        lab.witness_url,
        options=lab.ssh,
        limits=WindowLimits(lockstep=lockstep),
        volatile=True,
    )
    assert isinstance(witness, SshWitness)
    return witness


def _acks(witness: SshWitness) -> list[float]:
    log = witness.create(new_run_id(_STAMP), b'{"logs": 1}')
    times = []
    for seq in range(1, COUNT + 1):
        began = time.monotonic()
        log.append(Ack(1, seq, seq, 1))
        times.append((time.monotonic() - began) * 1e3)
    log.close()
    return times


def _stream(witness: SshWitness) -> list[float]:
    log = witness.create(new_run_id(_STAMP), b'{"logs": 1}')
    times: list[float] = []
    waiting: deque[tuple[int, float]] = deque()  # acks appended so far, and when
    began, sent = time.monotonic(), 0
    while waiting or sent < STREAM_PER_S * STREAM_S:
        durable, now = log.watermark().acks, time.monotonic()
        while waiting and waiting[0][0] <= durable:
            times.append((now - waiting.popleft()[1]) * 1e3)
        due = int(min(STREAM_S, now - began) * STREAM_PER_S)
        if due > sent:
            log.append_many([(1, seq, seq, 1) for seq in range(sent + 1, due + 1)])
            sent = due
            waiting.append((sent, now))
        time.sleep(_PAUSE_S)
    log.close()
    return times


def round_trips(witness: SshWitness, count: int) -> list[float]:
    """Return the milliseconds of *count* echoes over the witness's connection."""
    pipe = witness._host.run(_ECHO)
    times = []
    try:
        pipe.send(_ECHO)
        for _ in range(count):
            began = time.monotonic()
            pipe.send(b"x" * 40)
            pipe.receive(_ECHO_S)
            times.append((time.monotonic() - began) * 1e3)
    finally:
        pipe.close()
    return times
