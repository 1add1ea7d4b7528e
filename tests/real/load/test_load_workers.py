"""A load that Dask workers share: its verdict, and what is left when one is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LoadError, UsageError
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.rig import Limits
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.load.far import FarWorkers, open_workers
from dbcheck.load.pace import LEASE_S
from dbcheck.model.cut import Gone
from dbcheck.model.verdict import Verdict
from dbcheck.rows.workload import Workload
from dbcheck.runner import assemble
from dbcheck.witness.url import open_witness
from tests.kit.dask_cluster import Cluster, cluster
from tests.kit.interrupts import main as main
from tests.kit.labs import process_lab
from tests.kit.loads import await_load, connections, load_with_a_broken_session
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Bench, bench, quick
from tests.kit.waiting import wait_until

WORKERS, SESSIONS = 3, 6
AHEAD_S = 7200  # the clock of the first worker, for which root is needed
ENDLESS = (600.0, 600.0)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A lab without a drive."""
    limits = Limits(silence_s=2.0, cut_s=5.0, return_s=60)
    folder = tmp_path_factory.mktemp("lab")
    with bench(process_lab("postgresql"), folder, limits) as started:
        yield started


@contextlib.contextmanager
def workers(lab: Bench, folder: Path) -> Iterator[tuple[Bench, Cluster, FarWorkers]]:
    """Give the lab with workers that load it, one of them with another clock."""
    given = {assemble.PASSWORD_VARIABLE: lab.lab.password}
    open_engine = partial(assemble.make_engine, lab.lab.target_url, None)
    ahead_s = AHEAD_S if os.geteuid() == 0 else 0
    with (
        cluster(folder / "dask", WORKERS, given, ahead_s) as dask,
        open_workers(dask.address, open_engine, SESSIONS) as far,
    ):
        yield replace(lab, rig=replace(lab.rig, far=far)), dask, far


def shared(far: FarWorkers, **changed: object) -> Workload:
    chosen = far.shared(quick(sessions=SESSIONS))
    return replace(chosen, **changed)  # type: ignore[arg-type]


def test_three_workers_pass_an_honest_server(here: Bench, tmp_path: Path) -> None:
    with workers(here, tmp_path) as (table, dask, far):
        started = table.cut_cycle(shared(far))
        assert dask.loading() == []
        assert here.lab.password not in dask.logs()
        outcome = table.judge(started)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert outcome.load is not None
    assert outcome.load.sent.keys() == set(range(SESSIONS + 1))
    assert outcome.load.gone is Gone.BROKEN
    assert outcome.load.in_flight == SESSIONS
    # One of these logs is of the machine whose clock is hours ahead.
    cut = outcome.case.at_the_cut.cut
    assert cut is not None and cut.exact_us is not None
    for log in outcome.case.logs[1:]:
        assert log.newest_us is not None
        assert abs(cut.exact_us - log.newest_us) < 10**6
    assert outcome.case.clock_set == ""


@pytest.mark.wide
@pytest.mark.root
@pytest.mark.parametrize(
    ("engine", "personality"),
    [(e, p) for e in ("postgresql", "mariadb") for p in ("honest", "lying")],
)
def test_three_workers_find_what_one_process_finds(
    engine: str, personality: str, tmp_path: Path
) -> None:
    spec = LabSpec(engine, drive=DriveSpec(personality=personality, seed=3))
    with bench(spec, tmp_path) as lab:
        one = lab.judge(lab.cut_cycle(quick(sessions=SESSIONS)))
        with workers(lab, tmp_path) as (table, _, far):
            three = table.judge(table.cut_cycle(shared(far)))
    assert three.verdict is one.verdict
    assert three.verdict is (Verdict.PASS if personality == "honest" else Verdict.FAIL)
    items = [
        {(item.id, item.status) for item in found.judgement.items if item.required}
        for found in (one, three)
    ]
    assert items[0] == items[1]
    assert (three.case.shape is None) == (one.case.shape is None)
    if three.case.shape is not None:
        assert three.case.shape.by_table["ledger"] > 0
        assert (three.case.shape.oldest_s or 0) < 10


@pytest.mark.wide
def test_one_broken_session_of_a_worker_is_replaced(
    here: Bench, tmp_path: Path
) -> None:
    with workers(here, tmp_path) as (table, _, far):
        started = run_preflight(table.rig, shared(far, cut_after_s=ENDLESS), SEED)
        load_with_a_broken_session(table, started)
        outcome = table.judge(started)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert outcome.load is not None
    (new,) = outcome.load.sent.keys() - set(range(SESSIONS + 1))
    assert new in range(SESSIONS + 1, SESSIONS + WORKERS + 1)


def lost_while_loading(
    table: Bench, far: FarWorkers, lose: Callable[[], None], match: str
) -> tuple[Started, float]:
    """Load, and *lose* something; return when the load has ended, and after how long.

    No session may be left then that could still write.
    """
    started = run_preflight(table.rig, shared(far, cut_after_s=ENDLESS), SEED)
    lost_s: list[float] = []

    def losing() -> None:
        await_load(table, started)
        lost_s.append(time.monotonic())
        lose()

    thread = threading.Thread(target=losing)
    thread.start()
    try:
        with pytest.raises(LoadError, match=match):
            table.loading(started)
        ended_s = time.monotonic()
    finally:
        thread.join()
    rows = table.execute(f"select count(*) from {table.table}")
    assert connections(table) == []
    assert rows == table.execute(f"select count(*) from {table.table}")
    return started, ended_s - lost_s[0]


def judge_what_the_witness_holds(table: Bench, started: Started) -> None:
    """Cut, and judge a run whose record of the load is lost with a worker."""
    table.rig.site.writer.power.cut()
    table.rig.site.writer.power.restore()
    outcome = table.judge(started)
    assert outcome.load is None
    assert outcome.found is not None and not outcome.found.losses
    assert outcome.found.confirmed > SESSIONS
    assert outcome.verdict is Verdict.INCONCLUSIVE


@pytest.mark.wide
@pytest.mark.parametrize("dies", ["worker", "scheduler"])
def test_a_process_of_dask_that_dies_ends_the_load_with_a_worker_s_name(
    here: Bench, tmp_path: Path, dies: str
) -> None:
    with workers(here, tmp_path) as (table, dask, far):
        victim = dask.workers["worker-1"] if dies == "worker" else dask.scheduler
        assert victim is not None
        started, _ = lost_while_loading(
            table,
            far,
            lambda: os.killpg(victim.pid, signal.SIGKILL),
            "the Dask worker tcp://127.0.0.1:[0-9]+, with 2 sessions .* is lost",
        )
        wait_until(lambda: dask.loading() == [], "no process is left")
        judge_what_the_witness_holds(table, started)


@pytest.mark.wide
@pytest.mark.parametrize("is_seen", [False, True])
def test_sessions_whose_worker_is_cut_off_end_by_themselves(
    here: Bench, tmp_path: Path, is_seen: bool
) -> None:
    """The worker is stopped, and its process of the load is not: it would go on.

    is_seen: the client loses the scheduler, too, and sees that at once.
    """
    with workers(here, tmp_path) as (table, dask, far):
        victim, scheduler = dask.workers["worker-1"].pid, dask.scheduler
        assert scheduler is not None

        def cut_off() -> None:
            os.kill(victim, signal.SIGSTOP)
            if is_seen:
                os.killpg(scheduler.pid, signal.SIGKILL)

        started, took_s = lost_while_loading(table, far, cut_off, "is lost")
        assert took_s >= LEASE_S
        judge_what_the_witness_holds(table, started)
        os.kill(victim, signal.SIGCONT)
        wait_until(lambda: dask.loading() == [], "no process is left")


@pytest.mark.wide
def test_an_interrupt_ends_the_sessions_of_every_worker(
    here: Bench, tmp_path: Path, main: int
) -> None:
    with workers(here, tmp_path) as (table, dask, far):
        started = run_preflight(table.rig, shared(far, cut_after_s=ENDLESS), SEED)

        def press() -> None:
            await_load(table, started)
            signal.pthread_kill(main, signal.SIGUSR1)

        pressing = threading.Thread(target=press)
        pressing.start()
        with pytest.raises(KeyboardInterrupt):
            table.loading(started)
        pressing.join()
        assert dask.loading() == []
        assert connections(table) == []
        assert started.run.load() is not None


@pytest.mark.wide
def test_a_worker_that_cannot_take_part_is_named_before_anything_is_touched(
    here: Bench, tmp_path: Path
) -> None:
    url = here.lab.target_url
    with cluster(tmp_path / "dask", 1) as dask:
        for open_engine, why in (
            (partial(assemble.make_engine, url, None), "password"),
            (
                partial(assemble.make_engine, "postgresql://x@127.0.0.1:1/x", None),
                "connect",
            ),
        ):
            with open_workers(dask.address, open_engine, SESSIONS) as far:
                table = replace(here, rig=replace(here.rig, far=far))
                with pytest.raises(UsageError, match=f"cannot take part.*{why}"):
                    run_preflight(table.rig, shared(far), SEED)
    given = {assemble.PASSWORD_VARIABLE: here.lab.password}
    with workers_for(here, tmp_path / "other", given) as far:
        other = open_witness(f"file:{tmp_path}/acks", volatile=True)
        with (
            contextlib.closing(other),
            refused(ErrorId.WORKER_REACHES_OTHER_WITNESS, UsageError),
        ):
            far.require_fit(
                here.rig.site.writer.engine.facts(), other, here.rig.witness.facts()
            )
        facts = here.rig.site.writer.engine.facts()
        facts = replace(facts, started_us=facts.started_us - 10**8)
        with refused(ErrorId.WORKER_REACHES_OTHER_SERVER, UsageError):
            far.require_fit(facts, here.rig.witness, here.rig.witness.facts())


@contextlib.contextmanager
def workers_for(
    here: Bench, folder: Path, given: dict[str, str]
) -> Iterator[FarWorkers]:
    open_engine = partial(assemble.make_engine, here.lab.target_url, None)
    with (
        cluster(folder, 1, given) as dask,
        open_workers(dask.address, open_engine, SESSIONS) as far,
    ):
        yield far
