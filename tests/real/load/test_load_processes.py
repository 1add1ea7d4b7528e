"""A load that runs in processes of its own, and what is left of them: nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, LoadError, OtherServer
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.loading import load_until_cut, make_session_groups
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.rig import Limits
from dbcheck.lab.lab import Lab
from dbcheck.load.load import Load
from dbcheck.model.cut import Gone
from dbcheck.model.verdict import Verdict
from dbcheck.rows.workload import Workload
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits
from tests.kit.labs import process_lab, workers_of
from tests.kit.loads import await_load, load_with_a_broken_session
from tests.kit.nodes import having, with_node
from tests.kit.refusals import refused
from tests.kit.rigs import FAMILIES, SEED, Bench, bench, quick
from tests.kit.users import User
from tests.kit.waiting import wait_until

PROCESSES, SESSIONS = 2, 5


# For what depends on the processes alone.
ONE_SERVER = pytest.mark.parametrize("here", ["postgresql"], indirect=True)


@pytest.fixture(scope="module", params=FAMILIES)
def here(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A lab without a drive, for each engine."""
    limits = Limits(silence_s=2.0, cut_s=5.0, return_s=60)
    folder = tmp_path_factory.mktemp("processes")
    with bench(process_lab(request.param), folder, limits) as started:
        yield started


def shared(engine: str, **changed: object) -> Workload:
    """Return a workload whose sessions two processes share."""
    chosen = replace(quick(sessions=SESSIONS), processes=PROCESSES)
    return replace(chosen, **changed)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()


@pytest.mark.wide_with("mariadb")
def test_a_cycle_in_two_processes(here: Bench) -> None:
    started = here.cut_cycle(shared(here.engine, cut_after_s=(2.0, 2.0)))
    outcome = here.judge(started)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert outcome.load is not None and outcome.found is not None
    assert outcome.load.sent.keys() == set(range(SESSIONS + 1))
    assert (started.manifest.logs, len(outcome.load.watermarks)) == (3, 3)
    marks = [mark.acks for mark in outcome.load.watermarks if mark]
    assert sum(marks) == sum(outcome.load.acked.values())
    assert min(marks[1:]) > 10
    assert all(window.acks > 0 for window in outcome.load.windows)
    assert outcome.load.gone == Gone.BROKEN
    assert outcome.load.in_flight == SESSIONS
    assert workers_of(os.getpid()) == []


@ONE_SERVER
def test_one_broken_session_of_a_process_is_replaced(here: Bench) -> None:
    started = run_preflight(here.rig, shared(here.engine, cut_after_s=(600, 600)), SEED)
    load_with_a_broken_session(here, started)
    outcome = here.judge(started)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert outcome.load is not None
    (new,) = outcome.load.sent.keys() - set(range(SESSIONS + 1))
    assert new in (SESSIONS + 1, SESSIONS + 2)  # the next of either process
    assert outcome.load.acked[new] > 0


@ONE_SERVER
def test_a_process_that_dies_ends_the_load_with_its_name(here: Bench) -> None:
    started = run_preflight(here.rig, shared(here.engine, cut_after_s=(60, 60)), SEED)
    died: list[int] = []

    def kill() -> None:
        await_load(here, started)
        died.append(workers_of(os.getpid())[0])
        os.kill(died[0], signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    with refused(ErrorId.LOAD_PROCESS_LOST, LoadError, naming="status -9") as caught:
        here.loading(started)
    killing.join()
    assert f"process {died[0]}" in str(caught.value)
    assert workers_of(os.getpid()) == []
    here.rig.site.writer.power.cut()
    here.rig.site.writer.power.restore()
    outcome = here.judge(started)
    # What it had sent died with it: its rows are no strangers, and there is no PASS.
    assert outcome.load is None
    assert outcome.found is not None and not outcome.found.losses
    assert outcome.found.confirmed > 4
    assert outcome.verdict is Verdict.INCONCLUSIVE


@ONE_SERVER
def test_a_process_that_cannot_connect_says_why(here: Bench) -> None:
    started = run_preflight(here.rig, shared(here.engine), SEED)
    here.execute(f"drop table {here.table}")
    with refused(ErrorId.CONNECTION_FAILED, EngineError, naming="ledger"):
        here.loading(started)
    assert workers_of(os.getpid()) == []


@ONE_SERVER
def test_a_process_that_reaches_another_server_says_so(here: Bench) -> None:
    started = run_preflight(here.rig, shared(here.engine), SEED)
    before = started.manifest.writer.facts
    other = replace(before, started_us=before.started_us - 10**6)
    started = replace(started, manifest=having(started.manifest, facts=other))
    with refused(
        ErrorId.DIFFERENT_SERVERS_ANSWER, OtherServer, naming="it started 1 s later"
    ):
        here.loading(started)
    assert workers_of(os.getpid()) == []


@ONE_SERVER
def test_no_secret_is_in_the_arguments_of_a_process(here: Bench) -> None:
    rig = with_node(here.rig, host=None)
    started = run_preflight(rig, shared(here.engine), SEED)
    load = Load(make_session_groups(rig, started), 60)
    load.begin()
    try:
        for pid in workers_of(os.getpid()):
            for name in ("cmdline", "environ"):
                content = Path("/proc", str(pid), name).read_bytes()
                assert here.lab.password.encode() not in content
    finally:
        load.end()
        started.log.close()
    assert load.result.failure is None


@pytest.mark.wide
@ONE_SERVER
def test_in_lockstep_each_ack_is_confirmed_before_the_next_is_sent(
    here: Bench, tmp_path: Path
) -> None:
    limits = WindowLimits(lockstep=True)
    witness = open_witness(f"file:{tmp_path}", limits=limits, volatile=True)
    with contextlib.closing(witness):
        rig = replace(here.rig, witness=witness)
        started = run_preflight(rig, shared(here.engine), SEED)
        load = load_until_cut(rig, started, Cutter(rig, started))
        rig.site.writer.power.restore()
        outcome = reconcile_run(rig, started.run, started.manifest)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert all(window.acks <= SESSIONS for window in load.windows)


@pytest.mark.wide
@ONE_SERVER
def test_a_rate_is_kept_by_all_processes_together(here: Bench) -> None:
    started = _committed(here, shared(here.engine, rate=40.0))
    load = started.run.load()
    assert load is not None and load.last_ack_us is not None
    lasted_s = (load.last_ack_us - load.began_us) / 1e6
    # Each process may begin with one, and has at most one due that is not sent.
    assert sum(load.acked.values()) - 4 <= 40 * lasted_s + 2 * PROCESSES


def _committed(here: Bench, workload: Workload) -> Started:
    """Run a load up to its cut, and have the server back."""
    started = here.cut_cycle(workload)
    assert workers_of(os.getpid()) == []
    return started


# ------------------------------------------------------------- the client ends


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A client in the middle of a load of two processes."""
    with Lab.start(process_lab("postgresql"), tmp_path / "lab") as lab:
        user = User(lab, tmp_path)
        user.workload(600)
        client = user.start("run", *user.rig, "--processes", str(PROCESSES))
        try:
            wait_until(
                lambda: (
                    len(workers_of(client.pid)) == PROCESSES
                    and len(list(tmp_path.glob("runs/*/manifest.json"))) == 1
                ),
                "the load runs",
                60,
            )
            yield client
        finally:
            client.kill()
            client.communicate()


@pytest.mark.wide
def test_a_client_that_is_killed_leaves_no_process(
    running: subprocess.Popen[str],
) -> None:
    workers = workers_of(running.pid)
    running.kill()
    running.wait()
    wait_until(lambda: not any(map(is_alive, workers)), "the processes ended")


@pytest.mark.wide
def test_an_interrupt_ends_all_in_order(running: subprocess.Popen[str]) -> None:
    workers = workers_of(running.pid)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert "Traceback" not in said
    assert not any(map(is_alive, workers))
