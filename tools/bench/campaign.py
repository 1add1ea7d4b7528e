"""Measures time and memory of what reads a long campaign: reports, bundles, verifying.

Its cycles are stored runs that no server made, each with a few acks; they passed, so
their rows are gone, as a campaign leaves them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dbcheck.campaign.campaign import add_outcome
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan
from dbcheck.campaign.totals import describe_progress, is_finished
from dbcheck.cli.root import root
from dbcheck.cycle.judging import judge_run
from dbcheck.model.moments import Activity, PlannedCut
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.stored_run import manifest, stored_run
from tools.bench.shown import console, peak_mb, table

_TARGET = "postgresql+psycopg2://u@h/d"
BUNDLE = "campaign.dbcheck.tar"


@dataclass(frozen=True)
class Took:
    """What one step took."""

    seconds: float
    cpu_s: float
    peak_mb: float


def main(words: Sequence[str]) -> None:
    """Measure each step, in a process of its own, and print a table."""
    parser = argparse.ArgumentParser("tools.bench campaign", description=__doc__)
    parser.add_argument("--cycles", type=int, action="append")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args(words)
    result = table(
        "a stored campaign", "cycles", "step", "seconds", "CPU s", "peak MiB"
    )
    for cycles in given.cycles or (100, 1000):
        with tempfile.TemporaryDirectory(prefix="dbcheck-bench-") as place:
            folder = write(Path(place), cycles)
            for step in STEPS:
                for _ in range(given.times):
                    took = _measure(folder, step)
                    result.add_row(
                        f"{cycles:,}",
                        step,
                        f"{took.seconds:.2f}",
                        f"{took.cpu_s:.2f}",
                        f"{took.peak_mb:.0f}",
                    )
    console().print(result)


def write(place: Path, cycles: int) -> Path:
    """Store a campaign of so many cycles; return its folder."""
    sample = manifest()
    (name,) = sample.nodes
    node = replace(sample.writer, target=_TARGET)
    plan = CampaignPlan(
        created=sample.created,
        dbcheck=sample.dbcheck,
        name="db1",
        target=_TARGET,
        seed=1,
        workload=sample.workload,
        cuts=cycles,
        cycles_max=2 * cycles,
        bound_ppm=None,
        keep_going=True,
        control=False,
    )
    folder = CampaignFolder.create(place / "campaign", plan)
    began = datetime(2026, 1, 2, tzinfo=UTC)
    for number in range(1, cycles + 1):
        run_id = f"{began + timedelta(minutes=number):%Y%m%d-%H%M%S}-{number:06x}"
        moment = PlannedCut(number, Activity.STEADY, 1.0, 0.0)
        made = replace(sample, run_id=run_id, epoch=100 + number, moment=moment)
        made = replace(made, nodes={name: node})
        run = stored_run(RunFolder.create(folder.runs, made))
        add_outcome(folder, judge_run(run, FrameLogReader()))
        run.drop_survivors()
    return folder.path


def _run_command(*words: str) -> None:
    root.main(words, standalone_mode=False)


def _report(folder: Path) -> None:
    _run_command("report", str(folder), "-o", str(folder.with_name("campaign.html")))


def _report_json(folder: Path) -> None:
    _run_command("report", str(folder), "-o", str(folder.with_name("campaign.json")))


def _report_runs(folder: Path) -> None:
    _run_command(
        "report", str(folder / "runs"), "-o", str(folder.with_name("runs.html"))
    )


def _add_cycle(folder: Path) -> None:
    """Store the newest cycle again, and read all as a campaign does for each cycle."""
    campaign = CampaignFolder.open(folder)
    campaign.add(campaign.cycles()[-1])
    for _ in range(5):
        cycles = campaign.cycles()
        is_finished(campaign.plan(), cycles)
        describe_progress(campaign.plan(), cycles)


def _resume(folder: Path) -> None:
    """Read what --resume reads before its first cycle."""
    campaign = CampaignFolder.open(folder)
    campaign.write_lines()
    cycles = campaign.cycles()
    if list(campaign.list_runs_without_cycle()):
        raise SystemExit("a run has no cycle")
    describe_progress(campaign.plan(), cycles)
    is_finished(campaign.plan(), campaign.cycles())


def _bundle(folder: Path) -> None:
    file = folder.with_name(BUNDLE)
    file.unlink(missing_ok=True)
    _run_command("bundle", str(folder), "-o", str(file))


def _verify(folder: Path) -> None:
    try:
        _run_command("verify", str(folder.with_name(BUNDLE)))
    except SystemExit as ended:
        if ended.code:
            raise


STEPS: dict[str, Callable[[Path], None]] = {
    "report as a page": _report,
    "report as JSON": _report_json,
    "report on its runs": _report_runs,
    "one cycle more": _add_cycle,
    "resume": _resume,
    "bundle": _bundle,
    "verify": _verify,
}


def _measure(folder: Path, step: str) -> Took:
    words = [sys.executable, "-m", __name__, str(folder), step]
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{step}: {(done.stdout + done.stderr).decode()}")
    return Took(**json.loads(done.stdout.splitlines()[-1]))


def _child() -> None:
    """Do the step that the command line names, and print a Took."""
    folder, step = sys.argv[1:]
    began, used_s = time.monotonic(), time.process_time()
    STEPS[step](Path(folder))
    took = time.monotonic() - began, time.process_time() - used_s, peak_mb()
    sys.stdout.write(f"\n{json.dumps(asdict(Took(*took)))}\n")


if __name__ == "__main__":
    _child()
