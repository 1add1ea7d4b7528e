"""A client that stands still, or ends, while its switch cuts the power."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.system import now_us
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.loading import load_until_cut
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cut import Cut, Gone, PowerState
from dbcheck.model.verdict import Verdict
from dbcheck.ports.listener import LoadStatus, Phase
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.labs import lab_of, process_lab
from tests.kit.nodes import with_node
from tests.kit.proxy import PASS_ON, Proxy
from tests.kit.rigs import SEED, Said, bench, quick
from tests.kit.waiting import wait_until
from tests.real.cycle.stopped_client import ASKED, GO, RUNS

DESTAGED_S = 1.0


@contextlib.contextmanager
def client_of(lab: Lab, folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a client of one cycle; give it once its switch was asked to cut."""
    words = ("-m", "tests.real.cycle.stopped_client", lab.name, str(folder), str(port))
    with subprocess.Popen((sys.executable, *words)) as client:
        try:
            wait_until(lambda: (folder / ASKED).exists(), "the switch was asked")
            yield client
        finally:
            client.kill()


def run_in(folder: Path) -> RunFolder:
    (run,) = (folder / RUNS).iterdir()
    return RunFolder.open(run)


def stopped_at_the_cut(lab: Lab, folder: Path, still_s: float) -> Outcome:
    """Judge the cycle of a client that stood still for so long, and during the cut."""
    port = make_url(lab.target_url).port
    assert port is not None
    with (
        Proxy(port, lambda _: PASS_ON) as proxy,
        client_of(lab, folder, proxy.port) as client,
    ):
        client.send_signal(signal.SIGSTOP)
        until_s = time.monotonic() + still_s
        wait_until(lambda: time.monotonic() > until_s, "the drive has had its time")
        proxy.go_dark()  # what loses its power does not end its connections
        (folder / GO).touch()
        wait_until(lambda: lab.switch().state() is PowerState.OFF, "the power is off")
        client.send_signal(signal.SIGCONT)
        loads = f"{RUNS}/*/load.json"
        wait_until(lambda: any(folder.glob(loads)), "the load is over")
        proxy.kill()
        proxy.start()
        assert client.wait() == 0
    return judge_run(run_in(folder), FrameLogReader())


@pytest.mark.root
@pytest.mark.parametrize(
    ("drive", "verdict"),
    [
        # It has written out by the time of the cut all that it had acknowledged.
        (
            DriveSpec(personality="lying", destage_age_s=DESTAGED_S),
            Verdict.INCONCLUSIVE,
        ),
        (DriveSpec(personality="lying", destage_age_s=0), Verdict.FAIL),
    ],
    ids=["nothing lost", "lost"],
)
def test_no_ack_that_a_stopped_client_read_afterwards_is_young(
    drive: DriveSpec, verdict: Verdict, tmp_path: Path
) -> None:
    with lab_of(LabSpec("postgresql", drive=drive), tmp_path) as lab:
        outcome = stopped_at_the_cut(lab, tmp_path, 3 * DESTAGED_S)
    assert outcome.verdict is verdict, outcome.judgement
    statuses = {item.id: item.status for item in outcome.judgement.items}
    assert statuses[ItemId.LOAD] is Status.NOT_OBSERVABLE, outcome.judgement
    assert statuses[ItemId.WITNESS_AT_CUT] is Status.NOT_OBSERVABLE


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name
)
def test_a_client_that_ends_while_its_switch_cuts_leaves_a_run_that_may_be_cut(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Its switch cuts all the same, in a process of its own, or somebody does."""
    with bench(process_lab("postgresql"), tmp_path) as here:
        port = make_url(here.lab.target_url).port
        assert port is not None
        with client_of(here.lab, tmp_path, port) as client:
            client.send_signal(number)
            client.wait()
        run = run_in(tmp_path)
        assert run.cut_asked() is not None
        load = run.load()
        if number is signal.SIGINT:
            assert load is not None
            assert load.cut_failed
            assert load.gone is Gone.UNSEEN
        else:
            assert load is None
        here.rig.site.writer.power.cut()
        here.rig.site.writer.power.restore()
        outcome = reconcile_run(with_node(here.rig, host=None), run, run.manifest())
    assert outcome.verdict is Verdict.INCONCLUSIVE
    (found,) = [item for item in outcome.judgement.items if item.id is ItemId.LOAD]
    assert found.status is Status.NOT_OBSERVABLE
    assert outcome.case.cut_asked == run.cut_asked()


@pytest.mark.parametrize("times", [1, 2])
def test_a_load_that_an_interrupt_ended_after_its_cut_saw_no_answer_to_it(
    times: int, tmp_path: Path
) -> None:
    """A host without power sends nothing that would end a connection at once."""

    class Silent(Said):
        """Interrupts the load once the switch has reported its cut, then its end."""

        def load(self, status: LoadStatus) -> None:
            if cutter.cut is not None:
                raise KeyboardInterrupt

        def phase(self, phase: Phase, text: str) -> None:
            if phase is Phase.INTERRUPT and times == 2:
                raise KeyboardInterrupt

    class Reports:
        """A switch of which the load sees nothing yet."""

        def __init__(self, real: Any) -> None:
            self._real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def cut(self) -> Cut:
            return Cut(now_us(), None)

    with bench(process_lab("postgresql"), tmp_path) as here:
        rig = with_node(here.rig, power=Reports(here.rig.site.writer.power))
        rig = replace(rig, listener=Silent())
        started = run_preflight(rig, quick(), SEED)
        cutter = Cutter(rig, started)
        with pytest.raises(KeyboardInterrupt):
            load_until_cut(rig, started, cutter)
        load = started.run.load()
    assert load is not None and any(node.cut for node in load.nodes.values())
    assert load.gone is Gone.UNSEEN
