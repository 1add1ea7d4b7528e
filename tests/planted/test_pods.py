"""A server in a pod that comes back elsewhere, or on another volume.

Kubernetes is made up here; the server, its data and their copies are real.  A copy from
the middle of the load, as a storage system's snapshot is, has the server's id and its
tables, and lacks rows that the server had acknowledged: nothing in it tells it from
what a drive kept that lost its newest writes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, UsageError
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.recovery import pods_again
from dbcheck.model.pods import Pod, PodRole
from dbcheck.ports.connection import Session
from tests.kit.nodes import with_node
from tests.kit.pods import OTHER_UID, REPLICA, Pods, showing, with_data, with_volume
from tests.kit.pods import POD as SAMPLE
from tests.kit.refusals import refused
from tests.kit.rigs import CUTS_MAX, SEED, quick, witness_lagged
from tests.planted.fault import FAIL, INCONCLUSIVE, PASS, Fault, engines, faults
from tests.planted.site import LIMITS, Site
from tests.planted.wrapped import Meanwhile, wrapped

pytestmark = pytest.mark.planted

PATIENT = replace(LIMITS, silence_s=60.0, cut_s=60.0)  # a copy takes time
POD = with_data(SAMPLE, paths=("/",))  # the server's data are anywhere
SOON = replace(LIMITS, return_s=0.5)
AGAIN = replace(POD, container_id="e0" * 32)
ANEW = replace(AGAIN, uid=OTHER_UID)
ELSEWHERE = replace(ANEW, node="node-b", machine_id="m2")
FRESH = with_volume(
    with_data(ANEW, claim_uid="0c0c0c0c-0000-4000-8000-000000000009"),
    name="pvc-9",
    uid="9",
    handle="vol-9",
)
RESTORED = with_volume(ANEW, name="pvc-9", uid="9", handle="vol-from-snapshot")
SECOND = replace(REPLICA, role=PodRole.PRIMARY)
NO_API = HostError("connection refused", id=ErrorId.HOST_UNREACHABLE)
OTHER_VOLUME = "same pod and volume pod prod/orders-1"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an API that does not answer be given up at once."""
    monkeypatch.setattr(pods_again, "API_S", 0.1)
    monkeypatch.setattr(pods_again, "POLL_S", 0.01)


@dataclass
class Cluster:
    """What the API shows: one pod until the cut, then something else."""

    later: Sequence[Pod] | HostError
    was_cut: bool = False

    def read(self) -> Sequence[Pod]:
        """Return the pods, or fail."""
        if not self.was_cut:
            return [POD]
        if isinstance(self.later, HostError):
            raise self.later
        return self.later


def data_kept(*later: Pod, fails: HostError | None = None) -> Callable[..., Outcome]:
    """Return what has a cycle after which the data are those from before."""

    def plant(site: Site) -> Outcome:
        cluster = Cluster(fails or later)

        def restore() -> None:
            cluster.was_cut = True
            site.server.start()

        for _ in range(CUTS_MAX):
            cluster.was_cut = False
            outcome = site.cycle(restore=restore, pods=Pods(cluster.read))
            if not witness_lagged(outcome.judgement):
                break
            site.put_back()
        return outcome

    return plant


def rows_gone(*later: Pod, fails: HostError | None = None) -> Callable[..., Outcome]:
    """Return what has a cycle after which rows of the load are gone."""

    def plant(site: Site) -> Outcome:
        copy = site.clean.parent / "snapshot"
        cluster = Cluster(fails or later)
        went_on = threading.Event()  # commits were acknowledged that the copy lacks

        def kill() -> None:
            assert went_on.wait(60)
            site.server.kill()

        def restore() -> None:
            cluster.was_cut = True
            site.replace_data(copy)
            site.server.start()

        def copying(opened: Session) -> Session:
            copies = Meanwhile(opened, 1, 20, lambda: copy_at_once(site))
            return Meanwhile(copies, 1, 100, went_on.set)

        return site.cycle(
            kill,
            restore,
            engine=wrapped(site.rig.site.writer.engine, copying),
            limits=PATIENT,
            pods=Pods(cluster.read),
        )

    return plant


def table_gone(*later: Pod) -> Callable[..., Outcome]:
    """Return what has a cycle after which the data are those of a new database."""

    def plant(site: Site) -> Outcome:
        cluster = Cluster(later)

        def restore() -> None:
            cluster.was_cut = True
            site.replace_data(site.clean)
            site.server.start()

        return site.cycle(restore=restore, pods=Pods(cluster.read))

    return plant


def copy_at_once(site: Site) -> None:
    """Copy the data as they are at one moment, of a server that runs."""
    process = site.server._process
    assert process is not None
    pids = [process.pid]
    for pid in pids:  # one that is stopped has no more children
        send(pid, signal.SIGSTOP)
        await_stop(pid)
        pids += children_of(pid)
    try:
        site.copy_data("snapshot")
    finally:
        for pid in reversed(pids):
            send(pid, signal.SIGCONT)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, which may have ended by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def children_of(pid: int) -> Iterator[int]:
    """Yield the processes that another one started."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        _, _, rest = read_stat(stat)
        if rest and int(rest.split()[1]) == pid:
            yield int(stat.parent.name)


def await_stop(pid: int) -> None:
    """Return once a process is stopped, or has ended and waits for its parent."""
    for _ in range(10_000):
        threads = Path(f"/proc/{pid}/task").glob("*/stat")
        if all(read_stat(each)[2][:2] in ("", " T", " Z") for each in threads):
            return
        time.sleep(0.001)  # between two looks
    raise AssertionError(f"process {pid} does not stop")


def read_stat(path: Path) -> tuple[str, str, str]:
    """Return what stands before, at and after the name's end; "" of one that ended."""
    try:
        return path.read_text().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return "", "", ""


PODS = (
    Fault("nothing moved", data_kept(AGAIN), PASS, says="same pod and volume"),
    Fault("a new pod in its place", data_kept(ANEW), PASS, says="it was made anew"),
    Fault("beside a replica", data_kept(AGAIN, REPLICA), PASS, says="data-orders-1"),
    Fault("rows lost", rows_gone(AGAIN), FAIL, {"missing-tail": -1}, "acknowledged"),
    Fault(
        "rows lost, a new pod", rows_gone(ANEW), FAIL, {"missing-tail": -1}, "node-a"
    ),
    *(
        Fault(f"{where}, {what}", plant(*pods), INCONCLUSIVE, says=says)
        for where, pods, says in (
            ("on another node", (ELSEWHERE,), "the power of node-b was not cut"),
            ("on a fresh volume", (FRESH,), "was deleted and made anew"),
            ("on a restored volume", (RESTORED,), "bound to another volume: pvc-9"),
            ("two primaries", (AGAIN, SECOND), "more than one pod is a primary now"),
            ("another primary", (replace(AGAIN, role=PodRole.REPLICA), SECOND), "came"),
        )
        for what, plant in (
            ("data kept", data_kept),
            ("rows gone", rows_gone),
            ("table gone", table_gone),
        )
    ),
    Fault(
        "no API, data kept",
        data_kept(fails=NO_API),
        INCONCLUSIVE,
        says="could not be asked after the cut: connection refused",
    ),
    Fault(
        "no API, rows gone",
        rows_gone(fails=NO_API),
        INCONCLUSIVE,
        {"missing-tail": -1},
        "acknowledged commits were lost; but nothing shows that the pod that was read",
    ),
    Fault(
        "its volume cannot be read any more, rows gone",
        rows_gone(with_data(AGAIN, volume=None, unread={"volume": "forbidden"})),
        INCONCLUSIVE,
        {"missing-tail": -1},
        "could not be read after the cut: forbidden",
    ),
    Fault("no pod, data kept", data_kept(), INCONCLUSIVE, says="there is no such pod"),
)


@pytest.mark.wide_with("mariadb")
@faults(PODS)
@engines("own_site")
def test_pods(site: Site, fault: Fault) -> None:
    fault.require(fault.plant(site), site.name)


@engines("own_site", "postgresql")
def test_a_run_that_is_reconciled_later_asks_again(site: Site) -> None:
    """What the API shows then counts, as the rows are read then."""
    for later, verdict in ((AGAIN, PASS), (RESTORED, INCONCLUSIVE)):
        for _ in range(CUTS_MAX):
            site.put_back()
            left = site.cycle(restore=lambda: None, limits=SOON, pods=showing(POD))
            assert left.verdict is INCONCLUSIVE
            assert not left.run.was_read()
            site.server.start()
            rig = with_node(site.rig, pods=showing(later))
            judgement = reconcile_run(rig, left.run, left.manifest).judgement
            if not witness_lagged(judgement):
                break
        assert judgement.verdict is verdict, judgement


@engines("own_site", "postgresql")
def test_a_witness_on_the_node_of_the_database_is_refused_before_the_load(
    site: Site,
) -> None:
    name = site.rig.witness.facts().hostname
    beside = replace(REPLICA, name=name, node=POD.node)
    rig = with_node(
        replace(site.rig, witness_pods=showing(beside)), pods=showing(POD, beside)
    )
    runs = list(site.rig.witness.runs())  # of other tests
    with refused(ErrorId.WITNESS_ON_TARGET, UsageError, naming=name):
        run_preflight(rig, quick(), SEED)
    assert list(site.rig.witness.runs()) == runs
