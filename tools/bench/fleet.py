"""Measures what a fleet costs its client and its scheduler as it grows.

Each rig is a real PostgreSQL in a lab with --cut process, with a tiny load.  It starts
when its campaign does and ends with it: a machine holds no hundreds of servers at once.
With --played the campaigns are played (tests/kit/played_campaign.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from dbcheck.campaign.compare import group_targets
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import make_result
from dbcheck.fleet.coordinator import Coordinator
from dbcheck.inventory.entry import Entry
from dbcheck.judge.results import CampaignsResult
from dbcheck.load import dask_cluster
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.report.campaign import draw_campaigns
from dbcheck.report.fleet import make_fleet_view
from dbcheck.rows.workload import Workload
from dbcheck.runner.campaign_fleet import allow_open_files
from tests.kit.dask_cluster import cluster
from tests.kit.rigs import plan
from tests.kit.samples import PLAN
from tools.bench.shown import console, peak_mb, table

ROOT = Path(__file__).resolve().parents[2]
PRELOAD = "DASK_DISTRIBUTED__WORKER__PRELOAD"
WORKERS = 4


def main(words: Sequence[str]) -> None:
    """Measure fleets of several sizes."""
    parser = argparse.ArgumentParser("fleet")
    parser.add_argument("--rigs", type=int, nargs="+", default=[25, 50, 100])
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--played", action="store_true")
    given = parser.parse_args(words)
    columns = ("rigs", "s", "done", "report s", "client MiB", "client CPU ms/rig")
    more = ("scheduler MiB", "scheduler CPU ms/rig", "peak child MiB", "folder KiB/rig")
    for number in given.rigs:
        shown = table("fleet", *columns, *more)
        shown.add_row(*measured(number, given.at_once, played=given.played))
        console().print(shown)


def measured(number: int, at_once: int, *, played: bool) -> list[str]:
    """Return the figures of a fleet of so many rigs."""
    child = "tools.bench.fleet_played" if played else "tools.bench.fleet_rig"
    given = {PRELOAD: child, "PYTHONPATH": str(ROOT)}
    allow_open_files()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as locks:
        threads = -(-at_once // WORKERS)
        running = cluster(Path(place, "dask"), WORKERS, given, threads=threads)
        with running as found, dask_cluster.connect_client(found.address) as client:
            assert found.scheduler is not None
            pid = found.scheduler.pid
            word = "-cut" if played else ""
            campaigns = [campaign(Path(place), n, word) for n in range(number)]
            for _, folder in campaigns:  # as the command does
                locks.enter_context(folder.locked())
            began_s, own_s, other_s = time.monotonic(), time.process_time(), cpu_s(pid)
            with open(os.devnull, "w") as screen:
                drawn = Console(file=screen, force_terminal=True, width=120, height=50)
                with make_fleet_view(drawn, live=True) as view:
                    errors = Coordinator(client, campaigns, None, view).run()
                ended_s, used_s = time.monotonic(), time.process_time() - own_s
                done = _reported(place, campaigns, drawn)
            reported_s = time.monotonic() - ended_s
            for why in list(filter(None, errors.values()))[:3]:
                console().print(why)
            child_kib = max(client.run(_largest_child_kib).values())
            kept = sum(
                f.stat().st_size for f in Path(place).glob("rig*/**/*") if f.is_file()
            )
            return [
                str(number),
                f"{ended_s - began_s:.0f}",
                str(done),
                f"{reported_s:.1f}",
                f"{peak_mb():.0f}",
                f"{used_s / number * 1000:.0f}",
                f"{peak_mb(pid):.0f}",
                f"{(cpu_s(pid) - other_s) / number * 1000:.0f}",
                f"{child_kib / 1024:.0f}",
                f"{kept / number / 1024:.0f}",
            ]


def _reported(
    place: str, campaigns: Sequence[tuple[Entry, CampaignFolder]], drawn: Console
) -> int:
    """Print the report as the command does; return how many have a result."""
    results = [make_result(folder) for _, folder in campaigns]
    ended = CampaignsResult(place, tuple(results), group_targets(results))
    drawn.print(draw_campaigns(ended))
    return sum(bool(each.cycles) for each in results)


def campaign(place: Path, number: int, word: str) -> tuple[Entry, CampaignFolder]:
    """Return a target of a fleet and its new folder; word: ends its name."""
    name = f"rig{number:05}{word}"
    target = f"postgresql://{name}/d"
    made = replace(plan(name=name, target=target), cuts=1, workload=_tiny())
    folder = CampaignFolder.create(place / name, made)
    return Entry(name, target, f"ssh://w/{name}", power=LabConfig(name)), folder


def _tiny() -> Workload:
    """Return a load of two sessions with a few rows a second."""
    workload = replace(PLAN.workload, rate=50, cut_after_s=(0.6, 0.8))
    return workload.with_sessions(2)


def _largest_child_kib() -> int:
    """Return the peak memory of the largest process that ended below this one."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def cpu_s(pid: int) -> float:
    """Return the processor time of a process so far."""
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
