"""Times what a lab cycle adds to the load and the server's own recovery."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from dbcheck.cycle.cycle import run_cycle
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.switch import LabSwitch
from dbcheck.ports.listener import Phase
from dbcheck.report.progress import PlainProgress
from tests.kit.nodes import with_node
from tests.kit.rigs import Bench, bench, quick
from tools.bench.shown import SPREAD, console, spread, table


class _Clock(PlainProgress):
    """Notes when each phase began."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
        self.began: dict[Phase, float] = {}

    def phase(self, phase: Phase, detail: str) -> None:
        self.began[phase] = time.monotonic()


class _TimedSwitch(LabSwitch):
    """Notes how long the power takes to come back: mount, start, recovery."""

    restore_s = 0.0

    def restore(self) -> None:
        began = time.monotonic()
        super().restore()
        self.restore_s = time.monotonic() - began


def main(words: Sequence[str]) -> None:
    """Run cycles and print a table."""
    parser = argparse.ArgumentParser("tools.bench cycle", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--cut", default="drive")
    given = parser.parse_args(words)
    shown = console()
    for engine in ("postgresql", "mariadb"):
        spec = LabSpec(engine, cut=given.cut)
        if lacking := list_missing(spec):
            shown.print(f"{engine} is left out: {'; '.join(lacking)}")
            continue
        with (
            tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder,
            bench(spec, Path(folder)) as lab,
        ):
            taken = [_cycle(lab, number) for number in range(given.pairs)]
        result = table(f"seconds of a cycle, {engine}, {given.cut}", "", *SPREAD)
        for name in taken[0]:
            result.add_row(name, *spread([one[name] for one in taken]))
        shown.print(result)


def _cycle(lab: Bench, number: int) -> dict[str, float]:
    """Run one cycle and return what it took, by part."""
    clock, switch = _Clock(), _TimedSwitch(lab.lab.name)
    rig = with_node(replace(lab.rig, listener=clock), power=switch)
    began = time.monotonic()
    outcome = run_cycle(rig, quick(), seed=number)
    ended = time.monotonic()
    if outcome.found is None or outcome.found.counts:
        raise SystemExit(f"the cycle was judged {outcome.judgement}")
    at = clock.began
    loaded_s = at[Phase.CUT] - at[Phase.LOAD]
    return {
        "preflight": at[Phase.LOAD] - began,
        "cut": at[Phase.RESTORE] - at[Phase.CUT] - switch.restore_s,
        "read and judge": ended - at[Phase.RESTORE],
        "all that dbcheck adds": ended - began - loaded_s - switch.restore_s,
        "restore and recovery": switch.restore_s,
    }
