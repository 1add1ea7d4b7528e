"""dbcheck's side: the load with its witness, and no cut."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from dbcheck.config import workload_file
from dbcheck.cycle.loading import make_session_groups
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.lab.lab import Lab
from dbcheck.load.load import Load
from dbcheck.load.process import ProcessGroup
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.workload import Workload
from dbcheck.runner.lab_rig import make_lab_rig
from tests.kit.nodes import with_node
from tools.bench.speed import Speed, cpu_s

PAYLOAD_BYTES = 100


def _cpu_s(load: Load) -> float:
    """Return the CPU time so far of this process and of those of the load."""
    total_s = cpu_s(resource.RUSAGE_SELF)
    for group in load._groups:
        if isinstance(group, ProcessGroup) and group._child is not None:
            stat = Path(f"/proc/{group._child.pid}/stat").read_text()
            user, system = stat.rpartition(")")[2].split()[11:13]
            total_s += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return total_s


def measure(lab: Lab, connections: int, seconds: float, processes: int) -> Speed:
    """Measure the acks that the witness confirmed within *seconds*."""
    silent = PlainProgress(Console(quiet=True))
    runs = Path(lab.known_hosts).parent / "bench-runs"
    # Nothing is cut here, so no canary has to measure how deep.
    rig = with_node(make_lab_rig(lab, silent, runs, Limits()), host=None)
    chosen = choose_load(connections, processes)
    with contextlib.closing(rig.witness), running(rig, chosen) as (load, _):
        before_s = _cpu_s(load)
        time.sleep(seconds)
        status = load.status()
        spent_s = _cpu_s(load) - before_s
    return Speed(status.witnessed / status.seconds, spent_s / status.acked * 1e6)


def choose_load(connections: int, processes: int) -> Workload:
    """Return the load that is measured: inserts of one row."""
    return replace(
        workload_file.load("insert"),
        payload_bytes=(PAYLOAD_BYTES,),
        sessions=connections,
        processes=min(processes, connections),
    )


@contextlib.contextmanager
def running(rig: Rig, chosen: Workload) -> Iterator[tuple[Load, Started]]:
    """Run the load; end it, and close its log, with the block."""
    started = run_preflight(rig, chosen, seed=1)
    load = Load(make_session_groups(rig, started), silence_s=30)
    try:
        load.begin()
        yield load, started
    finally:
        load.end()
        started.log.close()
