"""Spreads, tables and memory figures that the benchmarks share."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

SPREAD = ("min", "median", "max")


def spread(values: Sequence[float], places: int = 2) -> list[str]:
    """Return smallest, median and largest as text."""
    found = (min(values), statistics.median(values), max(values))
    return [f"{value:,.{places}f}" for value in found]


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


def table(title: str, *columns: str) -> Table:
    """Return an empty table; its title says how busy the machine is."""
    load = ", ".join(f"{of:.1f}" for of in os.getloadavg())
    empty = Table(title=f"{title} (load average {load})")
    for column in columns:
        empty.add_column(column, justify="right")
    return empty


def console() -> Console:
    """Return where to print."""
    return Console(width=120)


def peak_mb(pid: int | str = "self") -> float:
    """Return the most memory that a process, by default this one, ever had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
