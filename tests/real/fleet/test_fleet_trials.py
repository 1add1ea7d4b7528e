"""Fleets of labs whose worker and whose scheduler die at random moments.

What is held against the campaigns comes from the servers: how often each had to recover
from a crash, as its own log says.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.campaign.folder import CampaignFolder, list_folders
from dbcheck.model.cut import PowerState
from dbcheck.model.verdict import CycleVerdict
from tests.kit.dask_cluster import Cluster, cluster
from tests.kit.fleets import Fleet, fleet
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root
CUTS, WORKERS, THREADS = 2, 4, 2


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("eight"), 6, 2) as started:
        yield started


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_eight_rigs_whose_worker_and_scheduler_die(
    eight: Fleet, tmp_path: Path, seed: int
) -> None:
    trial(eight, tmp_path, seed)


@pytest.mark.wide
def test_three_rigs_whose_worker_and_scheduler_die(tmp_path: Path) -> None:
    with fleet(tmp_path, 2, 1) as three:
        trial(three, tmp_path, seed=1)


def trial(rigs: Fleet, tmp_path: Path, seed: int) -> None:
    """Run campaigns, kill a worker and the scheduler, and resume; check everything."""
    draw = random.Random(seed)
    rigs.empty()
    before = rigs.crashes()
    folder = tmp_path / "campaigns"
    words = ["--all", "--cuts", str(CUTS), "--seed", str(seed), "--folder", str(folder)]
    with cluster(tmp_path / "first", WORKERS, threads=THREADS) as first:
        child = rigs.start(*words, "--dask", first.address)
        assert child.stderr is not None
        assert "begins" in child.stderr.readline()
        _die(first, draw, child)
        _, said = child.communicate(timeout=600)
        code = child.returncode
    unfinished = [f for f in list_folders(folder) if not _is_whole(rigs, f)]
    assert code in ((1,) if not unfinished else (1, 4)), (code, said)
    assert "Traceback" not in said
    with cluster(tmp_path / "second", WORKERS, threads=THREADS) as second:
        code, shown, err = rigs.run("--resume", str(folder), "--dask", second.address)
    assert code == 1, err  # a drive lies
    after = rigs.crashes()
    for lab in rigs.labs:
        result = shown[lab.name]
        assert result["finished"], (result["error"], err)
        lies = lab.name in rigs.liars
        assert result["verdict"] == ("FAIL" if lies else "PASS"), result
        _check(CampaignFolder.open(folder / lab.name), lies=lies)
        cut = after[lab.name] - before[lab.name]
        assert cut <= len(result["cycles"]), (lab.name, cut, result["cycles"])
        assert lab.switch().state() is PowerState.ON
    wait_until(
        lambda: not list(tmp_path.glob("*/**/dbcheck-fleet-*")), "no folder is left"
    )


def _die(running: Cluster, draw: random.Random, child: subprocess.Popen[str]) -> None:
    """Kill a worker, then the scheduler, at random moments."""
    time.sleep(draw.uniform(0, 8))
    victim = draw.choice(sorted(running.workers))
    running.workers[victim].send_signal(signal.SIGKILL)
    time.sleep(draw.uniform(0, 8))
    assert running.scheduler is not None
    running.scheduler.send_signal(signal.SIGKILL)


def _is_whole(rigs: Fleet, folder: CampaignFolder) -> bool:
    counted = [c for c in folder.cycles() if c.verdict is CycleVerdict.PASS]
    lost = any(c.verdict is CycleVerdict.FAIL for c in folder.cycles())
    return lost or len(counted) >= CUTS


def _check(folder: CampaignFolder, *, lies: bool) -> None:
    """Check that each run has one result, and that a loss is counted once."""
    cycles = folder.cycles()
    runs = [cycle.run for cycle in cycles if cycle.run]
    assert len(set(runs)) == len(runs)
    assert set(runs) == {path.name for path in folder.runs.iterdir()}
    numbers = [cycle.number for cycle in cycles]
    assert numbers == list(range(1, len(numbers) + 1))
    fails = [cycle for cycle in cycles if cycle.verdict is CycleVerdict.FAIL]
    assert len(fails) == (1 if lies else 0), fails
