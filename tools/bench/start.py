"""Times `dbcheck --help`, beside a Python that does nothing."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.bench.shown import SPREAD, console, spread, table

RUNS = 4  # for each pair; the quickest counts, since others use the machine too


def main(words: Sequence[str]) -> None:
    """Run every pair and print a table."""
    parser = argparse.ArgumentParser("tools.bench start", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args(words)
    program = str(Path(sys.executable).with_name("dbcheck"))
    commands = {"dbcheck --help": [program, "--help"]}
    commands["python -c pass"] = [sys.executable, "-c", "pass"]
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(given.pairs):
        for name, command in commands.items():
            found[name].append(min(_took_ms(command) for _ in range(RUNS)))
    result = table("milliseconds to start", "", *SPREAD)
    for name, times in found.items():
        result.add_row(name, *spread(times, 0))
    console().print(result)


def _took_ms(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.monotonic() - began) * 1e3
