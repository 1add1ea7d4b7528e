"""Measures time and memory of judging a stored run of many acks."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.bench import synthetic
from tools.bench.shown import console, table

WORKLOADS = ("insert", "classic", "registers", "mixed")

FAULTS = tuple(fault.value for fault in synthetic.Fault)


def main(words: Sequence[str]) -> None:
    """Judge synthetic runs of growing size and print a table."""
    parser = argparse.ArgumentParser("tools.bench memory", description=__doc__)
    parser.add_argument("--acks", type=int, action="append")
    parser.add_argument("--workload", choices=WORKLOADS, default="insert")
    parser.add_argument("--fault", choices=FAULTS, default="none")
    parser.add_argument("--times", type=int, default=1, help="judge each run so often")
    given = parser.parse_args(words)
    fault = synthetic.Fault(given.fault)
    title = f"judging a stored run, {given.workload}, fault: {fault.value}"
    columns = ("acks", "lost", "seconds", "CPU s", "acks/s", "peak MiB", "passes")
    result = table(title, *columns)
    for acks in given.acks or (10**6, 10**7, 10**8):
        with tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder:
            run = synthetic.write(Path(folder), acks, given.workload, fault)
            for _ in range(given.times):
                found = synthetic.judge(run)
                result.add_row(
                    f"{found.acks:,}",
                    f"{found.losses:,}",
                    f"{found.seconds:.1f}",
                    f"{found.cpu_s:.1f}",
                    f"{found.acks / found.seconds:,.0f}",
                    f"{found.peak_mb:.0f}",
                    f"{found.passes:.1f}",
                )
    console().print(result)
