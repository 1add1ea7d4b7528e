"""Fuzz with coverage: python -m tools.fuzz [TARGET ...] --runs N --seconds S.

Each target runs in a process of its own, one after the other.  The input that shows
a defect is kept in tests/fuzz/found/, where the short run of the tests meets it too.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.target import FOUND, Target
from tests.fuzz.targets import TARGETS

UNIT_S = 10  # a longer time for one input is a defect
MEMORY_MIB = 1024
_PROGRESS = re.compile(r"#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+)")
_DONE = re.compile(r"Done (\d+) (?:runs )?in (\d+) second")


def fuzz(target: Target, runs: int, seconds: int) -> bool:
    """Fuzz one target and say how it went; return whether nothing was found."""
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate([*target.seeds(), *target.found()]):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        done = subprocess.run(
            (sys.executable, "-m", "tools.fuzz.one", target.name, corpus)
            + (f"-runs={runs}", f"-max_total_time={seconds}", f"-timeout={UNIT_S}")
            + (
                f"-rss_limit_mb={MEMORY_MIB}",
                f"-artifact_prefix={FOUND}/{target.name}-",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    progress = _PROGRESS.findall(done.stdout)
    tried, edges, features = progress[-1] if progress else ("0", "0", "0")
    took = _DONE.search(done.stdout)
    tried, took_s = took.groups() if took else (tried, "?")
    is_sound = not done.returncode and int(tried) > 0
    sys.stdout.write(
        f"{target.name:18} {int(tried):>10,} inputs {took_s:>5} s {edges:>6} edges"
        f" {features:>6} features  {'ok' if is_sound else 'DEFECT'}\n"
    )
    sys.stdout.flush()
    if not is_sound:
        sys.stdout.write(done.stdout[-4000:])
    return is_sound


def main() -> None:
    """Fuzz all targets, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--runs", type=int, default=-1, help="inputs for each target")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    given = parser.parse_args()
    unknown = set(given.targets) - TARGETS.keys()
    if unknown:
        parser.error(f"no such target: {min(unknown)}")
    names = given.targets or TARGETS
    results = [fuzz(TARGETS[name], given.runs, given.seconds) for name in names]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
