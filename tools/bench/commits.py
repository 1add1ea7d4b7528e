"""Prints witnessed commits/s beside pgbench and sysbench, pair by pair in one run.

Both sides insert the same row into the same table of the same durable server, one
transaction for each; only the median of the ratios means anything on a busy machine.
The server lies on this machine's own disk, or, with --flush-ms, on the lab's honest
drive, whose flushes take so long.  With TMPDIR=/dev/shm it lies in memory.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dbcheck.engines.registry import open_engine
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.rows.table import LEDGER
from tools.bench import peers
from tools.bench.ours import measure
from tools.bench.speed import Speed

CONNECTIONS = (1, 16, 64)
_OTHER_CONNECTIONS = 20  # of dbcheck and of the server itself


def main(words: Sequence[str]) -> None:
    """Run every pair and print a table."""
    parser = argparse.ArgumentParser("tools.bench commits", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--engine", choices=sorted(peers.PEERS), action="append")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--connections", type=int, action="append")
    parser.add_argument("--flush-ms", type=float)
    given = parser.parse_args(words)
    connections = given.connections or CONNECTIONS
    settings = {"max_connections": str(max(connections) + _OTHER_CONNECTIONS)}
    console = Console()
    for engine in given.engine or sorted(peers.PEERS):
        spec = LabSpec(engine, cut="process", settings=settings)
        if given.flush_ms is not None:
            drive = DriveSpec(flush_ms=given.flush_ms)
            spec = LabSpec(engine, drive=drive, settings=settings)
        lacking = list_missing(spec) + peers.missing(engine)
        if lacking:
            console.print(f"{engine} is left out: {'; '.join(lacking)}")
            continue
        with (
            tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder,
            Lab.start(spec, Path(folder) / "lab") as lab,
        ):
            console.print(_measured(lab, given, console))


def _measured(lab: Lab, given: argparse.Namespace, console: Console) -> Table:
    """Return the table for one server."""
    peer = peers.PEERS[lab.spec.engine]
    drive = lab.spec.drive
    disk = f", flush {drive.flush_ms:g} ms" if lab.spec.cut == "drive" else ""
    title = f"{lab.spec.engine}{disk}: witnessed commits/s beside {peer.name}"
    table = Table(title=title)
    ratio = ("ratio min", "median", "max")
    cpu = ("us/commit", f"{peer.name} us/commit")
    for column in ("connections", "dbcheck", peer.name, *ratio, *cpu):
        table.add_column(column, justify="right")
    for connections in given.connections or CONNECTIONS:
        found = []
        for number in range(given.pairs):
            pair = _pair(lab, connections, given, ours_first=bool(number % 2))
            console.print(
                f"{connections:>3} connections: "
                + ", ".join(f"{rate:,.0f}/s {cpu_us:.1f} us" for rate, cpu_us in pair)
            )
            found.append(pair)
        ratios = [ours.commits_per_s / theirs.commits_per_s for ours, theirs in found]
        rates, costs = (
            [statistics.median(pair[side][of] for pair in found) for side in (0, 1)]
            for of in (0, 1)
        )
        table.add_row(
            str(connections),
            *(f"{rate:,.0f}" for rate in rates),
            *(f"{of(ratios):.2f}" for of in (min, statistics.median, max)),
            *(f"{cost:.1f}" for cost in costs),
        )
    return table


def _pair(
    lab: Lab, connections: int, given: argparse.Namespace, *, ours_first: bool
) -> tuple[Speed, Speed]:
    """Return the speeds of dbcheck and of the peer, one measured after the other."""
    peer = peers.PEERS[lab.spec.engine]
    seconds: float = given.seconds
    engine = open_engine(lab.target_url, lab.password)
    engine.drop()
    engine.prepare((LEDGER,))
    if ours_first:
        ours = measure(lab, connections, seconds, given.processes)
        return ours, peer.run(lab, connections, seconds)
    theirs = peer.run(lab, connections, seconds)
    return measure(lab, connections, seconds, given.processes), theirs
