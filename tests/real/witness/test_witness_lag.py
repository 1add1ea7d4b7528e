"""A witness that lags when the cut is due: what is told, and what proves nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cut import Cut, Gone, PowerState, SwitchKind
from dbcheck.model.verdict import Verdict
from dbcheck.ports.power import PowerSwitch
from dbcheck.remote.address import Address, SshOptions
from dbcheck.remote.ssh import SshHost
from tests.kit.far_host import far_sshd
from tests.kit.labs import process_lab
from tests.kit.nodes import with_node
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Bench, bench, quick
from tests.kit.waiting import wait_until
from tests.kit.witnesses import Place


class Late:
    """A switch that does something in between being told and cutting."""

    kind, attended = SwitchKind.LAB, False

    def __init__(self, real: PowerSwitch, meanwhile: Callable[[], None]) -> None:
        self._real, self._meanwhile = real, meanwhile
        self.cut_class = real.cut_class

    def state(self) -> PowerState:
        """Ask the real one."""
        return self._real.state()

    def cut(self) -> Cut:
        """Do it, then cut."""
        self._meanwhile()
        return self._real.cut()

    def restore(self) -> None:
        """Have the real one restore."""
        self._real.restore()

    def failure(self) -> str | None:
        """Ask the real one."""
        return self._real.failure()


@contextmanager
def beside(here: Bench, folder: Path) -> Iterator[tuple[Bench, Place]]:
    """Give the lab a witness whose agents are our children."""
    place = Place(folder / "logs", None)
    with closing(place.witness()) as witness:
        yield replace(here, rig=replace(here.rig, witness=witness)), place


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def loads(here: Bench) -> bool:
    """Say whether acks come in, as far as was shown."""
    shown = here.said._last
    return shown is not None and shown.acked > 0


def behind_s(here: Bench) -> float:
    """Return what was shown last."""
    shown = here.said._last
    return shown.behind_s if shown else 0.0


@pytest.mark.wide_with("lying")
@pytest.mark.root
@pytest.mark.parametrize("personality", ["lying", "honest"])
def test_a_witness_that_is_never_heard_again_before_the_cut_proves_nothing(
    tmp_path: Path, personality: str
) -> None:
    """All that it holds is older than what such a drive loses."""
    drive = DriveSpec(personality=personality, destage_age_s=0.3)
    with (
        bench(LabSpec("postgresql", drive=drive), tmp_path) as lab,
        beside(lab, tmp_path) as (here, place),
    ):
        started = run_preflight(here.rig, replace(quick(), rate=200.0), SEED)

        def stop() -> None:
            signal_all(place.agents(), signal.SIGSTOP)
            wait_until(lambda: started.log.behind_s() > 1.3, "it lags")

        rig = with_node(here.rig, power=Late(here.rig.site.writer.power, stop))
        ending = threading.Thread(target=_end_agents_after_the_cut, args=(here, place))
        ending.start()
        outcome = finish_cycle(rig, started)
        ending.join()
    assert outcome.load is not None and outcome.load.gone == Gone.BROKEN
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    (item,) = [
        one for one in outcome.judgement.items if one.id is ItemId.WITNESS_AT_CUT
    ]
    assert item.status is Status.ABSENT
    assert "it lagged" in item.reason


def _end_agents_after_the_cut(here: Bench, place: Place) -> None:
    """Have the witness gone before it can confirm what it never held."""
    wait_until(lambda: "server gone" in here.said.text, "the cut")
    signal_all(place.agents(), signal.SIGKILL)


@pytest.mark.wide_with("2-5.0-5.0")
@pytest.mark.parametrize(
    ("processes", "due_s", "lag_s"), [(1, 1.5, 2.0), (2, 5.0, 5.0)]
)
def test_a_cut_waits_for_the_witness_and_says_so(
    tmp_path: Path, processes: int, due_s: float, lag_s: float
) -> None:
    """Else it would come while all sessions wait, and nobody would know why not.

    It becomes due just after the one log is late, whose answer the cut waits for; or
    long after the logs of two processes are, of which log 0, the cutter's, is none.
    """
    with (
        bench(process_lab("postgresql"), tmp_path) as lab,
        beside(lab, tmp_path) as (here, place),
    ):
        chosen = replace(quick(), processes=processes, cut_after_s=(due_s, due_s))
        started = run_preflight(here.rig, chosen, SEED)
        # The agent of log 0, in which one process alone keeps its acks.
        cutters = place.agents() if processes > 1 else []
        outcomes = []

        def run() -> None:
            outcomes.append(finish_cycle(here.rig, started))

        running = threading.Thread(target=run)
        running.start()
        try:
            wait_until(lambda: loads(here), "it loads")
            late = [pid for pid in place.agents() if pid not in cutters]
            assert late
            signal_all(late, signal.SIGSTOP)
            told = "behind; the load waits for it"
            wait_until(
                lambda: behind_s(here) > lag_s and told in here.said.text, "it lags"
            )
            assert "server gone" not in here.said.text
        finally:
            signal_all(late, signal.SIGCONT)
            running.join()
    assert "confirms again" in here.said.text
    assert outcomes[0].verdict is Verdict.PASS, outcomes[0].judgement


@pytest.mark.root
def test_a_host_that_is_gone_is_not_blamed_for_a_refusal(tmp_path: Path) -> None:
    with far_sshd(tmp_path / "sshd") as sshd:
        options = SshOptions(
            identity_file=sshd.identity_file,
            known_hosts=sshd.known_hosts,
        )
        host = SshHost("far", Address(sshd.host, sshd.user, sshd.port), options)
        with closing(host):
            host.run(b"pass").close()
            host._options = replace(options, connect_timeout_s=2.0)
            sshd.pull()
            with refused(
                ErrorId.HOST_NOT_ANSWERING, HostError, naming="no longer answers"
            ) as caught:
                host.run(b"pass")
            assert "network" in caught.value.hint
