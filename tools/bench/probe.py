"""The median of `probe latency` beside fio and pg_test_fsync on the same filesystem.

All overwrite 8 KiB at the beginning of a file, in turns, each of two first every other
time.  fio opens it with O_DSYNC, so that its median is that of the whole, as it shows a
write and its fdatasync apart; pg_test_fsync calls fdatasync, and shows a mean.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dbcheck.cycle.own_data import require_data_directory
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.flushes import Method
from dbcheck.probe.latency import MAIN, Spread
from tests.kit.lab_access import server_pid
from tools.bench.shown import SPREAD, console, spread, table

TIME_S = 2
MANY = 10**6  # more than there are in that time
DSYNC = replace(MAIN, method=Method.DSYNC)
PG_TEST_FSYNC = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_test_fsync"))


def main(words: Sequence[str]) -> None:
    """Run every pair and print a table."""
    parser = argparse.ArgumentParser("tools.bench probe", description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--flush-ms", type=float, default=1.0)
    given = parser.parse_args(words)
    shown = console()
    if not shutil.which("fio") or not PG_TEST_FSYNC:
        shown.print("probe is left out: fio or pg_test_fsync is not installed")
        return
    report = table("a durable write of 8 KiB, ours/theirs", "where", "peer", *SPREAD)
    for where, host, seen, folder in folders(given.flush_ms):
        with contextlib.closing(host):
            for name, (ours, theirs) in PEERS.items():
                mine, ratios = [], []
                for number in range(given.pairs):
                    first = theirs(folder) if number % 2 else 0.0
                    mine.append(ours(host, seen))
                    ratios.append(mine[-1] / (first or theirs(folder)))
                report.add_row(where, f"ours beside {name}, us", *spread(mine, 1))
                report.add_row(where, name, *spread(ratios))
    shown.print(report)


def folders(flush_ms: float) -> Iterator[tuple[str, TargetHost, str, Path]]:
    """Give a folder of this machine's disk, then one of a virtual drive.

    With each its host, and its path there.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield "disk", open_host("local:"), folder, Path(folder)
    spec = LabSpec("postgresql", drive=DriveSpec(flush_ms=flush_ms))
    if list_missing(spec):
        return
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        Lab.start(spec, Path(folder, "lab")) as lab,
    ):
        engine = open_engine(lab.target_url, lab.password)
        data = require_data_directory(engine.facts())
        outside = Path(f"/proc/{server_pid(lab)}/root{data}")
        yield f"drive, {flush_ms:g} ms", open_host(lab.host_url, lab.ssh), data, outside


def median_dsync(host: TargetHost, folder: str) -> float:
    """Return our median of a write with O_DSYNC, microseconds."""
    timed = host.time_writes(folder, DSYNC, [], MANY, TIME_S)
    return Spread.of(timed.took_ns).p50_us


def mean_fdatasync(host: TargetHost, folder: str) -> float:
    """Return our mean of a write and fdatasync, microseconds."""
    timed = host.time_writes(folder, MAIN, [], MANY, TIME_S)
    return statistics.mean(timed.took_ns) / 1000


def by_fio(folder: Path) -> float:
    """Return the median of a write in microseconds."""
    file = folder / "fio.tmp"
    file.write_bytes(bytes(MAIN.size))
    try:
        done = subprocess.run(
            [
                *("fio", "--name=x", f"--filename={file}", f"--size={MAIN.size}"),
                *("--rw=write", f"--bs={MAIN.size}", "--ioengine=psync"),
                *("--sync=dsync", f"--runtime={TIME_S}", "--time_based"),
                "--output-format=json",
            ],
            capture_output=True,
            check=True,
        )
    finally:
        file.unlink(missing_ok=True)
    (job,) = json.loads(done.stdout)["jobs"]
    return float(job["write"]["clat_ns"]["percentile"]["50.000000"]) / 1000


def by_pg(folder: Path) -> float:
    """Return the mean of its first test of fdatasync, in microseconds."""
    file = folder / "pg.tmp"
    with subprocess.Popen(
        [PG_TEST_FSYNC[-1], "-f", str(file), "-s", str(TIME_S)],
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        try:
            for line in running.stdout:
                if found := re.match(
                    r"\s+fdatasync\s+\S+ ops/sec\s+(\d+) usecs/op", line
                ):
                    return float(found[1])
        finally:
            running.kill()
            file.unlink(missing_ok=True)
    raise RuntimeError("pg_test_fsync shows no fdatasync")


PEERS = {
    "fio, O_DSYNC": (median_dsync, by_fio),
    "pg_test_fsync, fdatasync": (mean_fdatasync, by_pg),
}
