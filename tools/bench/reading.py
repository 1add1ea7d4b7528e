"""Rows/s of reading and judging a whole table, beside the engine's own bulk read.

dbcheck reads in a process of its own, as `dbcheck reconcile` does, up to the stored
survivors-ledger.bin: `python -m tools.bench.reading URL PAYLOAD_BYTES`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from sqlalchemy.engine import make_url

from dbcheck.config import workload_file
from dbcheck.engines.registry import open_engine
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import Inspector, Records
from dbcheck.rows.table import LEDGER
from dbcheck.runs.folder import RunFolder
from tests.kit.operations import batches
from tests.kit.samples import MANIFEST
from tools.bench.fill import fill
from tools.bench.shown import SPREAD, console, peak_mb, spread, table

SMALL = (128,)
SEED, EPOCH = 7, 2**61 + 5
_SECRET = "DBCHECK_BENCH_PASSWORD"
_SELECT = (
    "select id, epoch, session, seq, part, payload, checksum"
    " from ledger force index (primary)"
)


@dataclass(frozen=True)
class Read:
    """What reading took: from the first byte asked for to the file stored."""

    rows: int
    different: int
    seconds: float
    cpu_s: float
    peak_mb: float


def main(words: Sequence[str]) -> None:
    """Run every pair and print a table."""
    parser = argparse.ArgumentParser("tools.bench reading", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engine", action="append")
    given = parser.parse_args(words)
    shown = console()
    for engine in given.engine or ("postgresql", "mariadb"):
        spec = LabSpec(engine, cut="process")
        if lacking := list_missing(spec):
            shown.print(f"{engine} is left out: {'; '.join(lacking)}")
            continue
        with (
            tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder,
            Lab.start(spec, Path(folder) / "lab") as lab,
        ):
            usual = tuple(workload_file.load("insert").payload_bytes)
            # Those of the usual workload have eleven times as many bytes.
            for sizes, rows in ((SMALL, given.rows), (usual, given.rows // 5)):
                schedule = Schedule(SEED, EPOCH, sizes)
                fill(lab, schedule, rows)
                _compare(lab, schedule, rows, given.pairs, shown)


def _compare(
    lab: Lab, schedule: Schedule, rows: int, pairs: int, shown: Console
) -> None:
    """Print a table for one server with one kind of rows."""
    peers = dict(_peers(lab))
    found: dict[str, list[float]] = {name: [] for name in peers}
    ours: list[Read] = []
    for number in range(pairs):
        line = []
        for name in (*peers, "") if number % 2 else ("", *peers):
            if name:
                found[name].append(_timed(lab, peers[name]))
                line.append(f"{name} {found[name][-1]:.2f} s")
            else:
                ours.append(_read(lab, schedule))
                line.append(f"dbcheck {ours[-1].seconds:.2f} s")
        shown.print(", ".join(line))
    if any((one.rows, one.different) != (rows, 0) for one in ours):
        raise SystemExit(f"not the rows that were there: {ours}")
    rates = [one.rows / one.seconds for one in ours]
    costs = [one.cpu_s / one.rows * 1e6 for one in ours]
    sizes = schedule.payload_bytes
    size_range = f"{min(sizes)}..{max(sizes)}"
    title = f"{lab.spec.engine}: {rows:,} rows of {size_range} bytes"
    result = table(title, "", *SPREAD)
    result.add_row("dbcheck, rows/s", *spread(rates, 0))
    result.add_row("dbcheck, us of CPU for a row", *spread(costs))
    result.add_row("dbcheck, peak MiB", *spread([one.peak_mb for one in ours], 0))
    for name, times in found.items():
        result.add_row(f"{name}, rows/s", *spread([rows / s for s in times], 0))
        ratios = [one.seconds / s for one, s in zip(ours, times, strict=True)]
        result.add_row(f"time beside {name}", *spread(ratios))
    shown.print(result)


def _peers(lab: Lab) -> Iterator[tuple[str, list[str]]]:
    """Yield the engine's own bulk reads: a name and a command."""
    to = make_url(lab.target_url)
    where = ["-h", str(to.host)]
    if lab.spec.engine == "postgresql":
        where += ["-p", str(to.port), "-U", str(to.username), "-d", str(to.database)]
        copy = "copy dbcheck.ledger to stdout"
        yield "psql COPY", ["psql", "-q", *where, "-c", copy]
        yield (
            "psql binary COPY",
            ["psql", "-q", *where, "-c", f"{copy} (format binary)"],
        )
    else:
        where += ["-P", str(to.port), "-u", str(to.username), str(to.database)]
        yield "mysql --quick", ["mysql", "--quick", "-N", "-B", *where, "-e", _SELECT]


def _timed(lab: Lab, words: list[str]) -> float:
    environment = os.environ | {"PGPASSWORD": lab.password, "MYSQL_PWD": lab.password}
    began = time.monotonic()
    subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def _read(lab: Lab, schedule: Schedule) -> Read:
    sizes = json.dumps(schedule.payload_bytes)
    words = [sys.executable, "-m", __name__, lab.target_url, sizes]
    environment = os.environ | {_SECRET: lab.password}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Read)


def _child() -> None:
    """Read the table that the command line names, and print a Read."""
    url, sizes = sys.argv[1:]
    engine = open_engine(url, os.environ[_SECRET])
    inspector = Inspector(Schedule(SEED, EPOCH, tuple(json.loads(sizes))))
    different = 0

    def records() -> Iterator[Records]:
        nonlocal different
        for batch in batches(engine):
            found, wrong = inspector.inspect(batch)
            different += len(wrong)
            yield found

    with tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder:
        run = RunFolder.create(Path(folder), MANIFEST)
        began, used_s = time.monotonic(), time.process_time()
        stored = run.write_survivors(LEDGER.name, records())
        seconds = time.monotonic() - began
        cpu_s = time.process_time() - used_s
    sys.stdout.buffer.write(
        msgspec.json.encode(Read(stored.rows, different, seconds, cpu_s, peak_mb()))
    )


if __name__ == "__main__":
    _child()
