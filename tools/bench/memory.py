"""Measures time and memory of judging a stored run of many acks."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.bench import synthetic
from tools.bench.shown import console, table

WORKLOADS = ("insert", "classic", "registers")


def main(words: Sequence[str]) -> None:
    """Judge synthetic runs of growing size and print a table."""
    parser = argparse.ArgumentParser("tools.bench memory", description=__doc__)
    parser.add_argument("--acks", type=int, action="append")
    parser.add_argument("--workload", choices=WORKLOADS, default="insert")
    given = parser.parse_args(words)
    result = table(
        f"judging a stored run, {given.workload}",
        "acks",
        "seconds",
        "acks/s",
        "peak MiB",
    )
    for acks in given.acks or (10**6, 10**7, 10**8):
        with tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder:
            found = synthetic.judge(synthetic.write(Path(folder), acks, given.workload))
        rate = found.acks / found.seconds
        columns = (f"{found.acks:,}", f"{found.seconds:.1f}", f"{rate:,.0f}")
        result.add_row(*columns, f"{found.peak_mb:.0f}")
    console().print(result)
