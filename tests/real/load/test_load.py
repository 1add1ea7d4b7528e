"""How the load decides that the server is gone, on real servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.rig import Limits
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cut import Cut, CutClass, Gone, PowerState, SwitchKind
from dbcheck.model.verdict import Verdict
from dbcheck.runs.folder import RunFolder
from tests.kit.loads import await_load, load_with_a_broken_session
from tests.kit.nodes import with_node
from tests.kit.refusals import refused
from tests.kit.rigs import FAMILIES, SEED, Bench, bench, quick

SESSIONS = 4


@pytest.fixture(
    scope="module", params=[*FAMILIES, pytest.param("mysql", marks=pytest.mark.soak)]
)
def here(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A lab without a drive, for each engine."""
    spec = LabSpec(request.param, cut="process")
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    limits = Limits(cut_s=2.0, return_s=60)
    with bench(spec, tmp_path_factory.mktemp("load"), limits) as started:
        yield started


class FreezingSwitch:
    """Makes the server fall silent, as a cut does: nothing tells its clients."""

    kind = SwitchKind.EXEC
    attended = False
    cut_class = CutClass.UNKNOWN

    def __init__(self, here: Bench) -> None:
        self._lab = here.lab

    def state(self) -> PowerState:
        return PowerState.UNKNOWN

    def cut(self) -> Cut:
        asked_us = time.monotonic_ns() // 1000
        self._lab.freeze_server()
        return Cut(asked_us, None)

    def restore(self) -> None:
        self._lab.thaw_server()

    def failure(self) -> str | None:
        return None


class IdleSwitch(FreezingSwitch):
    """Says that it has cut, and has not."""

    def cut(self) -> Cut:
        return Cut(time.monotonic_ns() // 1000, None)


@pytest.mark.wide_with("mariadb")
def test_a_server_gone_silent_is_gone(here: Bench) -> None:
    limits = Limits(silence_s=1.0, return_s=60)
    rig = with_node(replace(here.rig, limits=limits), power=FreezingSwitch(here))
    outcome = run_cycle(rig, quick(sessions=SESSIONS), SEED)
    assert outcome.load is not None
    assert (outcome.load.gone, outcome.load.in_flight) == (Gone.SILENT, SESSIONS)
    # Thawed, it is the same process: silence was no cut, and nothing is missing.
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert any("was not cut" in reason for reason in outcome.judgement.reasons)
    assert outcome.found is not None
    assert not outcome.found.losses


@pytest.mark.wide_with("mariadb")
def test_a_server_that_was_killed_broke_its_connections(here: Bench) -> None:
    outcome = here.judge(here.cut_cycle(quick(sessions=SESSIONS)))
    assert outcome.load is not None
    assert (outcome.load.gone, outcome.load.in_flight) == (Gone.BROKEN, SESSIONS)
    assert outcome.verdict is Verdict.PASS


def test_a_run_is_not_judged_by_the_log_of_another(here: Bench, tmp_path: Path) -> None:
    """Its id was another client's first, so the witness refused to create it."""
    started = here.cut_cycle(quick())
    other = replace(started.manifest, epoch=started.manifest.epoch ^ 1)
    folder = RunFolder.create(tmp_path, other)
    with refused(ErrorId.RUN_OF_OTHER_CLIENT, UsageError) as caught:
        reconcile_run(here.rig, folder, other)
    assert "never started" in caught.value.hint
    assert here.judge(started).verdict is Verdict.PASS


@pytest.mark.wide_with("mariadb")
def test_a_cut_that_did_not_cut_is_no_pass(here: Bench) -> None:
    rig = with_node(here.rig, power=IdleSwitch(here))
    outcome = run_cycle(rig, quick(), SEED)
    assert outcome.load is not None
    assert outcome.load.gone == Gone.NEVER
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "kept answering" in outcome.judgement.reasons[0]


REMOVED = 5


class RemovingSwitch(IdleSwitch):
    """Cuts nothing; somebody deletes rows that were acked meanwhile."""

    def __init__(self, here: Bench) -> None:
        super().__init__(here)
        self._here = here

    def cut(self) -> Cut:
        table = self._here.table
        newest = f"select epoch from {table} order by id desc limit 1"
        ((epoch,),) = self._here.execute(newest)
        which = f"epoch = {epoch} and session = 1 and seq <= {REMOVED}"
        self._here.execute(f"delete from {table} where {which}")
        return super().cut()


def test_rows_that_are_missing_without_a_cut_are_no_loss_in_a_cut(here: Bench) -> None:
    rig = with_node(here.rig, power=RemovingSwitch(here))
    outcome = run_cycle(rig, quick(), SEED)
    assert outcome.found is not None
    assert sum(outcome.found.counts.values()) == REMOVED
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.result.statistics is not None
    assert outcome.result.statistics.cuts == 0


def test_one_broken_session_is_replaced_by_a_new_number(here: Bench) -> None:
    here = replace(here, rig=replace(here.rig, limits=Limits(return_s=60)))
    workload = replace(quick(), cut_after_s=(600, 600))
    started = run_preflight(here.rig, workload, SEED)
    load_with_a_broken_session(here, started)
    outcome = here.judge(started)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert outcome.load is not None
    assert outcome.load.sent.keys() == {0, *range(1, workload.sessions + 2)}
    assert outcome.load.acked[workload.sessions + 1] > 0


def test_a_server_that_refuses_ends_the_run_with_its_words(here: Bench) -> None:
    workload = replace(quick(), cut_after_s=(60.0, 60.0))
    started = run_preflight(here.rig, workload, SEED)

    def drop() -> None:
        await_load(here, started)
        here.execute(f"drop table {here.table}")

    dropping = threading.Thread(target=drop)
    dropping.start()
    with refused(ErrorId.ALL_SESSIONS_ENDED, EngineError) as caught:
        here.loading(started)
    dropping.join()
    assert "ledger" in str(caught.value)
    assert "Nothing was cut" in caught.value.hint
