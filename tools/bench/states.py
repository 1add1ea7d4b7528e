"""Crash states a second, and where the time of one goes.

`dbcheck lab explore` records a load; the states that it would judge are judged, on as
many labs side by side as --labs says.  The parts of a state are then measured on one
lab.  A state that does not pass ends the benchmark: its way is another one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from dbcheck.base import processes
from dbcheck.cycle.recovery.reading import Reading
from dbcheck.explore import oracle
from dbcheck.explore.folder import Exploration, Line
from dbcheck.explore.labs import Labs
from dbcheck.explore.opened import Opened
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import ENGINES, FILESYSTEMS, LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.lab_rig import open_exploration as opened_by_command
from tools.bench import states_daemon as lab_side
from tools.bench.parts import Parts, differences
from tools.bench.shown import SPREAD, console, spread, table

ROOT = Path(__file__).resolve().parents[2]
_REQUEST, _FACTS, _ROWS = "the request to the lab", "first facts", "read the rows"
_CHECK, _JUDGE, _REST = "the server checks its tables", "judge", "the rest"
_PARTS = (
    *(lab_side.KILL, lab_side.UNMOUNT, lab_side.DETACH, lab_side.SHOW),
    *(lab_side.ATTACH, lab_side.MOUNT, lab_side.RECOVER, lab_side.REST),
    *(_REQUEST, _FACTS, _ROWS, _CHECK, _JUDGE, _REST),
)
_TIMED = (
    (Lab, "show", _REQUEST),
    (oracle, "await_facts", _FACTS),
    (Reading, "_read_rows", _ROWS),
    (Reading, "_check", _CHECK),
    (oracle.Oracle, "_compare_with_acks", _JUDGE),
)


def main(words: Sequence[str]) -> None:
    """Record and judge for each engine; print a table of rates and one of parts."""
    parser = argparse.ArgumentParser("tools.bench states", description=__doc__)
    parser.add_argument("--pairs", type=int, default=3, help="repeats")
    parser.add_argument("--states", type=int, default=100)
    parser.add_argument("--labs", type=int, action="append")
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--fs", choices=FILESYSTEMS, default="xfs")
    parser.add_argument("--workload", default="insert")
    parser.add_argument("--load-s", default="0.4")
    parser.add_argument("--setting", action="append", default=[])
    given = parser.parse_args(words)
    shown = console()
    for engine in given.engine or ("postgresql", "mariadb"):
        if lacking := list_missing(LabSpec(engine, filesystem=given.fs)):
            shown.print(f"{engine} is left out: {'; '.join(lacking)}")
            continue
        with tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as folder:
            opened = _recorded(engine, given, Path(folder))
            shown.print(f"{engine}, {given.fs}, {given.workload}: {opened.summary}")
            _show_rates(opened, given, shown)
            _show_parts(opened, given, shown)


def _recorded(engine: str, given: argparse.Namespace, runs: Path) -> Opened:
    """Record a load as a user does, and open what was recorded."""
    words = ["--engine", engine, "--fs", given.fs, "--workload", given.workload]
    words += ["--load-s", given.load_s, "--states", "1", "--labs", "1", "--json"]
    words += ["--runs", str(runs), "--seed", "7"]
    words += [part for each in given.setting for part in ("--setting", each)]
    command = processes.make_module_command("dbcheck", "lab", "explore", *words)
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return opened_by_command(Exploration.open(Path(json.loads(done.stdout)["folder"])))


def _judged(opened: Opened, count: int, wanted: int) -> float:
    """Judge so many states on so many labs; return the seconds of all."""
    lines: dict[str, Line] = {}
    quiet = PlainProgress(Console(quiet=True))
    began = time.monotonic()
    with Labs(opened.oracle, count) as labs:
        opened.explorer(quiet).judge(labs, lines, wanted)
        took_s = time.monotonic() - began
    if len(lines) != wanted:
        raise SystemExit(f"the recording has {len(lines)} states, not {wanted}")
    for line in lines.values():
        if line.judgement.verdict is not Verdict.PASS:
            raise SystemExit(f"{line.name}: {line.judgement}")
    return took_s


def _show_rates(opened: Opened, given: argparse.Namespace, shown: Console) -> None:
    rates: dict[int, list[float]] = {labs: [] for labs in given.labs or (1, 2)}
    for _ in range(given.pairs):
        for labs, found in rates.items():
            found.append(given.states / _judged(opened, labs, given.states))
            shown.print(f"{labs} labs: {found[-1]:.2f} states/s")
    engine = opened.spec.engine
    result = table(f"{engine}: states/s, the labs' start included", "labs", *SPREAD)
    for labs, found in rates.items():
        result.add_row(str(labs), *spread(found))
    shown.print(result)


def _show_parts(opened: Opened, given: argparse.Namespace, shown: Console) -> None:
    with tempfile.NamedTemporaryFile("r", prefix="dbcheck-bench-") as times:
        parts = Parts()
        with _noted(parts, times.name) as states:
            _judged(opened, 1, given.states)
        lines = [json.loads(line) for line in times]
    joined = [
        _joined(state, line["s"]) for state, line in zip(states, lines, strict=True)
    ]
    engine = opened.spec.engine
    result = table(f"{engine}: ms of a state on one lab", "", *SPREAD, "share")
    all_s = sum(sum(state.values()) for state in joined)
    for part in _PARTS:
        own = [state[part] for state in joined]
        share = f"{sum(own) / all_s:.0%}"
        result.add_row(part, *spread([1e3 * s for s in own], 1), share)
    result.add_row("all", *spread([1e3 * sum(s.values()) for s in joined], 1), "")
    shown.print(result)
    if len(lines) > 1:
        _show_drive(engine, lines, shown)


def _show_drive(
    engine: str, lines: Sequence[Mapping[str, dict[str, float]]], shown: Console
) -> None:
    """Show what a state cost the drive, from one request of the lab to the next."""
    cpu = differences([line["before"] for line in lines])
    used = [
        differences([line["shown"], later["before"]])[0]
        for line, later in pairwise(lines)
    ]
    result = table(f"{engine}: the drive in a state", "", *SPREAD)
    result.add_row("CPU ms", *spread([1e3 * one["cpu_s"] for one in cpu], 1))
    for count in ("reads", "writes", "write_bytes", "flushes"):
        result.add_row(count, *spread([one[count] for one in used], 0))
    shown.print(result)


def _joined(outside: dict[str, float], in_lab: dict[str, float]) -> dict[str, float]:
    """Return the parts of one state; the request is what the lab itself did not use."""
    parts = dict.fromkeys(_PARTS, 0.0) | in_lab | outside
    parts[_REQUEST] -= sum(in_lab.values())
    return parts


@contextlib.contextmanager
def _noted(parts: Parts, times: str) -> Iterator[list[dict[str, float]]]:
    """Give a list that gets the parts of each state; its lab appends to *times*."""
    states: list[dict[str, float]] = []
    judge, module = oracle.Oracle.judge, processes.make_module_command

    def judged(*given: object) -> object:
        with parts.part(_REST):
            found = judge(*given)  # type: ignore[arg-type]
        states.append(parts.taken())
        return found

    def daemon(name: str, *arguments: str) -> list[str]:
        own = "dbcheck.lab.daemon.serve"
        return module(lab_side.__name__ if name == own else name, *arguments)

    with contextlib.ExitStack() as stack:
        for owner, attribute, name in _TIMED:
            stack.enter_context(parts.timing(owner, attribute, name))
        stack.enter_context(patch.object(oracle.Oracle, "judge", judged))
        stack.enter_context(patch.object(processes, "make_module_command", daemon))
        found = {lab_side.TIMES: times, "PYTHONPATH": str(ROOT)}
        stack.enter_context(patch.dict(os.environ, found))
        yield states
