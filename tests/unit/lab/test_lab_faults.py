"""When the faults of a lab's cluster happen."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.cycle.rig import Rig
from dbcheck.lab.clusters.spec import ClusterSpec
from dbcheck.ports.listener import LoadStatus, Phase
from dbcheck.runner.lab_clusters import inject_faults
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

NOW = LoadStatus(0.5, 1, 1, 1.0, {}, 1)  # of a load that runs for half a second
SITE: Any = None


class Nodes:
    """The nodes of a cluster that note what befalls them; failing: nothing can."""

    def __init__(self, spec: ClusterSpec, *, failing: bool = False) -> None:
        self.spec, self._failing = spec, failing
        self.befell: list[str] = []
        self.labs = {
            name: SimpleNamespace(
                freeze_server=lambda name=name: self.note(f"pause {name}"),
                thaw_server=lambda name=name: self.note(f"go on {name}"),
            )
            for name in spec.names
        }
        self.happened = threading.Event()

    def take_links_down(self) -> None:
        self.note("links down")

    def note(self, what: str) -> None:
        if self._failing and what.startswith("pause"):
            raise LabError("it cannot be paused", id=ErrorId.LAB_DAEMON_FAILED)
        self.befell.append(what)
        self.happened.set()  # a node goes on after a failure, too


def rig() -> Rig:
    listener: Any = SimpleNamespace(
        phase=lambda *_: None, load=lambda _: None, progress=lambda _: None
    )
    return Rig(SITE, SITE, SITE, listener, SITE)


def test_they_come_in_their_order() -> None:
    spec = ClusterSpec(3, link_down_after_s=0.3, pause_after_s=0.2, pause_s=0.2)
    nodes: Any = Nodes(spec)
    with inject_faults(nodes, rig(), seed=1) as faulty:
        faulty.listener.load(NOW)
        wait_until(lambda: len(nodes.befell) >= 3, "the faults")
    (paused,) = {each.split()[-1] for each in nodes.befell if "node" in each}
    assert paused in ("node2", "node3")
    first = [f"pause {paused}", "links down", f"go on {paused}"]
    assert nodes.befell[:3] == first


def test_none_comes_after_the_cut_and_none_is_left_paused() -> None:
    nodes: Any = Nodes(ClusterSpec(2, link_down_after_s=60, pause_after_s=0.1))
    with inject_faults(nodes, rig(), seed=1) as faulty:
        faulty.listener.load(NOW)
        assert nodes.happened.wait(5)
        faulty.listener.phase(Phase.CUT, "now")
    assert nodes.befell == ["pause node2", "go on node2"]


def test_without_a_load_nothing_happens() -> None:
    nodes: Any = Nodes(ClusterSpec(2, link_down_after_s=0.1))
    with inject_faults(nodes, rig(), seed=1):
        pass
    assert nodes.befell == []


def test_one_that_cannot_be_made_is_an_error_at_the_end() -> None:
    nodes: Any = Nodes(ClusterSpec(2, pause_after_s=0.1), failing=True)
    error = refused(ErrorId.LAB_DAEMON_FAILED, LabError, naming="it cannot be paused")
    with error, inject_faults(nodes, rig(), seed=1) as faulty:
        faulty.listener.load(NOW)
        assert nodes.happened.wait(5)
        nodes.befell.append("the cycle went on")
    assert nodes.befell == ["go on node2", "the cycle went on"]


def test_the_seed_draws_which_node_is_paused() -> None:
    paused = set()
    for seed in range(20):
        nodes: Any = Nodes(ClusterSpec(3, pause_after_s=0.1))
        with inject_faults(nodes, rig(), seed) as faulty:
            faulty.listener.load(NOW)
            assert nodes.happened.wait(5)
        paused.add(nodes.befell[0])
    assert paused == {"pause node2", "pause node3"}
