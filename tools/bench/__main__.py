"""Runs benchmarks: `python -m tools.bench [NAME [OPTIONS]]`; all without a name.

Each measures both sides in one run, one after the other, and prints every value: on a
busy machine only the ratios of neighbours mean anything.
"""

from __future__ import annotations

import importlib
import sys

NAMES = (
    "commits",
    "reading",
    "aging",
    "memory",
    "campaign",
    "latency",
    "link",
    "witness",
    "cycle",
    "start",
    "probe",
    "fleet",
    "fleet_messages",
    "states",
)


def main() -> None:
    """Run the benchmark that the first word names, with the others as its options."""
    name, *words = sys.argv[1:] or [""]
    if name and name not in NAMES:
        raise SystemExit(f"no benchmark is called {name}; there are {', '.join(NAMES)}")
    for chosen in [name] if name else NAMES:
        importlib.import_module(f"tools.bench.{chosen}").main(words)


if __name__ == "__main__":
    main()
