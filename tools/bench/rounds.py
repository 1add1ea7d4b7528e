"""Measures every case of some options in each of several rounds, in one lab."""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LabSpec

Case = TypeVar("Case")
Found = TypeVar("Found")


def add_axes(
    parser: argparse.ArgumentParser, axes: Mapping[str, Sequence[float]]
) -> None:
    """Add an option for each axis, which may be given several times.

    axes: the option, and the values without it; they show its type.
    """
    for option, values in axes.items():
        parser.add_argument(option, type=type(values[0]), action="append")


def list_cases(
    given: argparse.Namespace, axes: Mapping[str, Sequence[float]]
) -> list[tuple[Any, ...]]:
    """Return all combinations of the axes' values, in the order of the axes."""
    names = [option.lstrip("-").replace("-", "_") for option in axes]
    chosen = [
        getattr(given, name) or values
        for name, values in zip(names, axes.values(), strict=True)
    ]
    return list(itertools.product(*chosen))


def measure_rounds(
    cases: Sequence[Case], rounds: int, measure: Callable[[Lab, Path, Case], Found]
) -> dict[Case, list[Found]]:
    """Return what *measure* found of each case, in a lab of PostgreSQL without a drive.

    measure: is given the lab, a folder and the case.
    """
    found: dict[Case, list[Found]] = {case: [] for case in cases}
    with (
        tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder,
        Lab.start(LabSpec("postgresql", cut="process"), Path(folder) / "lab") as lab,
    ):
        for _, case in itertools.product(range(rounds), cases):
            found[case].append(measure(lab, Path(folder), case))
    return found
