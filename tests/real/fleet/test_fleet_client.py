"""The client of a fleet: what may begin, which target may be cut, and what it keeps.

The scheduler and the workers are Dask's; the campaigns are played, by the words in the
names of their targets (tests/kit/played_campaign.py).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import FleetError
from dbcheck.base.processes import Channel
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.fleet import task
from dbcheck.fleet.coordinator import Coordinator
from dbcheck.fleet.messages import Begin, Ended, Job, pack_message
from dbcheck.fleet.workers import (
    AT_ONCE_MAX,
    choose_worker,
    list_resources,
    open_own_workers,
)
from dbcheck.inventory.entry import Entry
from dbcheck.load import dask_cluster
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.report.fleet import RigStatus, State
from dbcheck.runner.campaign_child import Worker
from tests.kit import played_campaign
from tests.kit.dask_cluster import cluster
from tests.kit.refusals import refused
from tests.kit.samples import PLAN
from tests.kit.waiting import wait_until

ENDED = ("", "")
RESOURCES = "DASK_DISTRIBUTED__WORKER__RESOURCES"  # of a worker, from its start


class View:
    """Remembers what a person would have been shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.newest: Mapping[str, RigStatus] = {}

    def line(self, title: str, detail: str) -> None:
        self.lines.append(f"{title}: {detail}")

    def show(self, rigs: Sequence[RigStatus]) -> None:
        self.newest = {rig.name: rig for rig in rigs}


class Desk:
    """Campaigns to run on workers of this process."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder, self.view = client, folder, View()

    def campaign(self, name: str) -> tuple[Entry, CampaignFolder]:
        """Return a target, and the folder of its campaign."""
        path = self.folder / name
        folder = CampaignFolder(path)
        if not path.exists():
            folder = CampaignFolder.create(path, replace(PLAN, name=name, cuts=2))
        plan = ExecConfig(cut=("pdu", name))
        return Entry(
            name, f"postgresql://{name}/d", f"ssh://w/{name}", power=plan
        ), folder

    def coordinator(self, *names: str, cutting: int | None = None) -> Coordinator:
        campaigns = list(map(self.campaign, names))
        return Coordinator(self.client, campaigns, cutting, self.view)

    def go(self) -> None:
        """Let those who wait go on."""
        Path(os.environ[played_campaign.GO]).touch()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(task, "CHILD", "tests.kit.played_campaign")
    monkeypatch.setenv(played_campaign.GO, str(tmp_path / "go"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "campaigns"
    with open_own_workers(4, folder) as client:
        yield Desk(client, folder)


def test_all_that_is_stored_comes_to_the_client(desk: Desk) -> None:
    errors = desk.coordinator("a-cut-cut", "b-cut").run()
    assert errors == {"a-cut-cut": ENDED, "b-cut": ENDED}
    _, folder = desk.campaign("a-cut-cut")
    assert [cycle.number for cycle in folder.cycles()] == [1, 2]
    sizes = [path.stat().st_size for path in folder.runs.glob("*/acks.log")]
    assert sizes == [600_000] * 2
    assert "a-cut-cut: 2/2 PASS: it is there" in desk.view.lines
    assert desk.view.newest["b-cut"].cuts == 1


def test_one_machine_runs_a_bounded_number_at_once(tmp_path: Path) -> None:
    with open_own_workers(500, tmp_path) as client:
        workers = dask_cluster.read_worker_info(client).values()
        assert sum(about["nthreads"] for about in workers) == AT_ONCE_MAX


def test_a_job_that_began_does_not_begin_again(desk: Desk) -> None:
    """Whatever a scheduler does after a failure: the same task runs once more."""
    coordinator = desk.coordinator("a-cut-wait-cut")
    runner = threading.Thread(target=coordinator.run)
    runner.start()
    try:
        wait_until(lambda: _is_at(desk, "a-cut-wait-cut", "wait"), "it waits")
        (rig,) = coordinator._rigs.values()
        desk.client.submit(task.run_job, rig.job, pure=False).result(timeout=30)
        assert rig.state is State.RUNNING
    finally:
        desk.go()
        runner.join()
    assert (rig.state, rig.error) == (State.ENDED, "")
    assert len(desk.campaign("a-cut-wait-cut")[1].cycles()) == 2
    assert sum("begins" in line for line in desk.view.lines) == 1


def test_a_job_whose_worker_is_killed_before_the_cut_does_not_begin_again(
    desk: Desk, tmp_path: Path
) -> None:
    """A new worker at the same address is given the same task by the scheduler."""
    given = {name: os.environ[name] for name in (played_campaign.GO, "PYTHONPATH")}
    with (
        cluster(tmp_path / "dask", 2, given) as dask,
        dask_cluster.connect_client(dask.address) as client,
    ):
        client.run(setattr, task, "CHILD", "tests.kit.played_campaign")
        desk.client = client
        coordinator = desk.coordinator("a-wait-cut", "b-wait-cut")
        rig, other = coordinator._rigs.values()
        runner = threading.Thread(target=coordinator.run)
        runner.start()
        try:
            for name in ("a-wait-cut", "b-wait-cut"):
                wait_until(lambda: _is_at(desk, name, "wait"), "it waits")  # noqa: B023
            future, worker = rig.future, rig.worker
            assert future is not None
            name = dask_cluster.read_worker_info(client)[worker]["name"]
            dask.workers[name].kill()
            wait_until(lambda: rig.state is State.LOST, "it is lost")
            assert future.status == "pending"  # the scheduler is to run it once more
            given[RESOURCES] = repr(dict(rig.needs))
            dask.add_worker(given, port=int(worker.rpartition(":")[2]))
            future.result(timeout=30)  # it asked to begin, and was refused
        finally:
            desk.go()
            runner.join()
    assert (rig.state, other.state) == (State.LOST, State.ENDED)
    assert rig.error == (
        f"its worker {worker} ended, in the midst of the campaign."
        " Continue it with --resume, which first settles what it was at."
    )
    assert rig.error_id == ErrorId.FLEET_WORKER_LOST
    assert sum("a-wait-cut: begins" in line for line in desk.view.lines) == 1
    assert not desk.campaign("a-wait-cut")[1].cycles()
    assert len(desk.campaign("b-wait-cut")[1].cycles()) == 1


def _begins_and_ends(job: Job) -> None:
    """Be a task that asks to begin and then ends without a word."""
    with task.Link(job) as link:
        link.send(Begin(link.down))


@pytest.mark.parametrize("ends", ["in error", "quietly"])
def test_a_task_that_gave_up_before_it_was_answered_is_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """As where the client was stopped for a minute: it then begins a dead job."""
    coordinator = desk.coordinator("a-cut")
    with monkeypatch.context() as patch:
        patch.setattr(task, "LOST_S", 0.2)
        patch.setattr(task, "ALIVE_S", 0.1)
        if ends == "quietly":
            patch.setattr("dbcheck.fleet.coordinator.run_job", _begins_and_ends)
        coordinator._check_workers()
        (rig,) = coordinator._rigs.values()
        wait_until(
            lambda: rig.future is not None and rig.future.status != "pending",
            "the task has ended",
        )
    errors = coordinator.run()
    assert rig.state is State.LOST
    assert "--resume" in errors["a-cut"][0]


def test_one_that_dies_is_named_with_its_last_words(desk: Desk) -> None:
    errors = desk.coordinator("a-cut-die", "b-cut").run()
    why, id = errors["a-cut-die"]
    assert why == "its process ended with exit status 3: the last words"
    assert id == ErrorId.CAMPAIGN_PROCESS_LOST
    assert errors["b-cut"] == ENDED
    assert len(desk.campaign("b-cut")[1].cycles()) == 1


def test_a_turn_that_does_not_end_stays_taken(desk: Desk) -> None:
    """The target of the first may be without power: the other is not cut."""
    coordinator = desk.coordinator("a-hold-die", "b-wait-cut", cutting=1)
    runner = threading.Thread(target=coordinator.run)
    runner.start()
    try:
        wait_until(lambda: _state(desk, "a-hold-die") is State.ENDED, "it has died")
    finally:
        desk.go()
        runner.join()
    text = (
        "a-hold-die may be without power, so no other target may be cut (--cutting 1)"
    )
    assert f"fleet: {text}" in desk.view.lines
    assert not desk.campaign("b-wait-cut")[1].cycles()


def test_a_folder_that_cannot_be_written_disturbs_no_other(desk: Desk) -> None:
    _, folder = desk.campaign("a-wait-cut")
    coordinator = desk.coordinator("a-wait-cut", "b-wait-cut")
    folder.runs.rmdir()
    folder.runs.write_text("no folder")
    desk.go()
    errors = coordinator.run()
    assert "cannot be written" in errors["a-wait-cut"][0]
    assert "--resume" in errors["a-wait-cut"][0]
    assert errors["b-wait-cut"] == ENDED


def test_two_clients_do_not_run_one_target_at_once(desk: Desk) -> None:
    """The second finds the resource where the first put it, and waits."""
    first, second = desk.coordinator("a-wait-cut"), desk.coordinator("a-wait-cut")
    threads = [threading.Thread(target=each.run) for each in (first, second)]
    threads[0].start()
    try:
        wait_until(lambda: _is_at(desk, "a-wait-cut", "wait"), "the first waits")
        threads[1].start()
        (other,) = second._rigs.values()
        wait_until(lambda: other.future is not None, "the second is placed")
        (rig,) = first._rigs.values()
        assert other.worker == rig.worker
        assert other.state is State.WAITING
    finally:
        desk.go()
        for thread in threads:
            thread.join()
    assert (rig.state, other.state) == (State.ENDED, State.ENDED)


def test_a_campaign_whose_worker_is_lost_waits_for_nothing_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However often it asks: it would stay for ever, and so would its folder."""
    ended: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _, number: ended.append(number))
    entry = Entry("a", "postgresql://a/d")
    job = Job("1", entry, None, "up", {})
    ours, theirs = Channel.pair()
    ours.send(pack_message((job, tmp_path)))
    with Channel(theirs) as end:
        worker = Worker(end)
        ours.close()
        for _ in range(2):
            with refused(
                ErrorId.FLEET_WORKER_LOST, FleetError, naming="the worker is lost"
            ):
                worker.take()
        assert not worker.keeps(Ended("it is lost"))
    assert ended == [signal.SIGTERM]


def test_no_worker_is_taken_for_lost_because_of_a_heartbeat(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's own heartbeat may replace what was fetched by a list of none."""
    client: Any = desk.client
    fetch = client._update_scheduler_info

    async def with_a_heartbeat(n_workers: int = 0) -> None:
        await fetch(n_workers=n_workers)
        await fetch()

    monkeypatch.setattr(client, "_update_scheduler_info", with_a_heartbeat)
    assert not client.scheduler_info(n_workers=-1)["workers"]
    assert len(dask_cluster.read_worker_info(client)) == 4


def test_what_two_targets_share_is_one_resource() -> None:
    plan = ExecConfig(cut=("pdu", "7"))
    one = Entry("a", "postgresql://a/d", "ssh://w/a", power=plan)
    two = Entry("b", "postgresql://b/d", "ssh://w/b/", power=plan)
    shared = list_resources(one).keys() & list_resources(two).keys()
    assert [name.split()[1] for name in shared] == ["outlet"]
    workers = {"tcp://x": {"nthreads": 1, "resources": dict.fromkeys(shared, 1)}}
    workers["tcp://w"] = {"nthreads": 9, "resources": {}}
    assert choose_worker(list(list_resources(two)), workers, {}) == "tcp://x"


def _state(desk: Desk, name: str) -> State | None:
    found = desk.view.newest.get(name)
    return found.state if found else None


def _is_at(desk: Desk, name: str, word: str) -> bool:
    found = desk.view.newest.get(name)
    return found is not None and found.doing == word
