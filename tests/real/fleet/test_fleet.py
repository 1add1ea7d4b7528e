"""Campaigns of several labs on the workers of a real Dask scheduler."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import WitnessError
from dbcheck.campaign.campaign import lock_witness
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.model.cut import PowerState
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.url import open_witness
from tests.kit.dask_cluster import Cluster, cluster
from tests.kit.fleets import Fleet, fleet
from tests.kit.refusals import refused
from tests.kit.rigs import Said

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def rigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two labs, the second of which has a drive that lies."""
    with fleet(tmp_path_factory.mktemp("rigs"), honest=1, lying=1) as started:
        yield started


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "cluster", 2) as running:
        yield running


def test_each_target_gets_its_verdict_and_the_client_all_files(
    rigs: Fleet, two: Cluster, tmp_path: Path
) -> None:
    rigs.empty()
    folder = tmp_path / "campaigns"
    words = ["--all", "--cuts", "2", "--seed", "5", "--folder", str(folder)]
    code, shown, said = rigs.run(*words, "--dask", two.address)
    assert code == 1, said
    honest, liar = (shown[lab.name] for lab in rigs.labs)
    assert (honest["verdict"], honest["error"]) == ("PASS", "")
    assert (liar["verdict"], liar["statistics"]["losses"]) == ("FAIL", 1)
    for result in (honest, liar):
        campaign = CampaignFolder.open(folder / result["name"])
        for cycle in result["cycles"]:
            run = RunFolder.open(campaign.runs / cycle["run"])
            assert run.result().verdict.value == cycle["verdict"]
            assert run.acks_path().stat().st_size > 1000
            assert f"{result['name']}  begins on tcp://" in said
        assert (campaign.path / "progress.log").stat().st_size > 100
    assert not list(tmp_path.glob("cluster/**/dbcheck-fleet-*"))
    # What is judged again from the client's copy is the same.
    code, again, said = rigs.run("--resume", str(folder), "--dask", two.address)
    assert (code, again) == (1, shown), said
    assert "begins" not in said


@pytest.mark.wide
def test_ctrl_c_restores_the_power_and_resume_goes_on(
    rigs: Fleet, two: Cluster, tmp_path: Path
) -> None:
    rigs.empty()
    folder = tmp_path / "campaigns"
    names = [lab.name for lab in rigs.labs]
    words = [*names, "--cuts", "3", "--keep-going", "--folder", str(folder)]
    child = rigs.start(*words, "--dask", two.address)
    assert child.stderr is not None
    for line in child.stderr:
        if " 1/3 " in line:
            break
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=200)
    assert child.returncode == 4
    assert f"dbcheck campaign --resume {folder}" in said
    assert "Traceback" not in said
    for lab in rigs.labs:
        assert lab.switch().state() is PowerState.ON
    assert not list(tmp_path.glob("cluster/**/dbcheck-fleet-*"))
    code, shown, said = rigs.run("--resume", str(folder), "--dask", two.address)
    assert code == 1, said
    assert all(one["finished"] for one in shown.values())
    assert {one["statistics"]["cuts"] for one in shown.values()} == {3}


@pytest.mark.wide
def test_so_many_targets_are_without_power_at_once(
    rigs: Fleet, two: Cluster, tmp_path: Path
) -> None:
    """Whatever the labs report is watched beside the campaigns."""
    rigs.empty()
    folder = tmp_path / "campaigns"
    words = ["--all", "--cuts", "2", "--keep-going", "--folder", str(folder)]
    off: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            states = [lab.switch().state() for lab in rigs.labs]
            off.append(states.count(PowerState.OFF))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        code, shown, said = rigs.run(*words, "--dask", two.address, "--cutting", "1")
    finally:
        over.set()
        watcher.join()
    assert code == 1, said
    assert {one["statistics"]["cuts"] for one in shown.values()} == {2}
    assert max(off) == 1


@pytest.mark.wide
def test_a_fleet_dies_with_its_client_and_goes_on_with_another(
    rigs: Fleet, two: Cluster, tmp_path: Path
) -> None:
    """The second client waits until the processes of the first have ended."""
    rigs.empty()
    folder = tmp_path / "campaigns"
    words = ["--all", "--cuts", "2", "--folder", str(folder)]
    child = rigs.start(*words, "--dask", "local")
    assert child.stderr is not None
    for line in child.stderr:
        if " 1/2 " in line:
            break
    child.kill()
    child.communicate()
    code, shown, said = rigs.run("--resume", str(folder), "--dask", two.address)
    assert code == 1, said
    verdicts = [shown[lab.name]["verdict"] for lab in rigs.labs]
    assert verdicts == ["PASS", "FAIL"]


def test_one_client_at_a_time_locks_a_witness(rigs: Fleet, tmp_path: Path) -> None:
    lab = rigs.labs[0]
    first, second = (open_witness(lab.witness_url, options=lab.ssh) for _ in range(2))
    said = Said()
    with contextlib.closing(first), contextlib.closing(second):
        with lock_witness(first, said):
            with (
                refused(
                    ErrorId.WITNESS_IN_USE,
                    WitnessError,
                    naming="another client works with",
                ),
                lock_witness(second, said, wait_s=0.5),
            ):
                pass
            assert "another client works with" in said.text
        with lock_witness(second, said, wait_s=60) as lock:
            lock.require()


@pytest.mark.wide_with("no one")
@pytest.mark.parametrize(
    ("address", "text"),
    [
        pytest.param("tcp://127.0.0.1:9", "no Dask scheduler answers", id="no one"),
        pytest.param("here", "not the address of a Dask scheduler", id="no address"),
    ],
)
def test_a_scheduler_that_is_not_there_touches_nothing(
    rigs: Fleet, tmp_path: Path, address: str, text: str
) -> None:
    folder = tmp_path / "campaigns"
    words = ["--all", "--cuts", "1", "--folder", str(folder), "--dask", address]
    code, shown, said = rigs.run(*words)
    assert (code, shown) == (2, {})
    assert text in said
    assert "Traceback" not in said
    assert not folder.exists()
