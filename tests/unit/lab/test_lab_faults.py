"""When the faults of a lab's cluster happen."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.lab.clusters.network import Way
from dbcheck.lab.clusters.spec import ClusterSpec
from dbcheck.ports.listener import LoadStatus, Phase
from dbcheck.runner import lab_faults
from dbcheck.runner.lab_cycles import adapt_workload_to_lab
from dbcheck.runner.lab_faults import extend_for_faults, inject_faults, leave_faults_out
from tests.kit.refusals import refused
from tests.kit.rigs import quick
from tests.kit.waiting import wait_until

NOW = LoadStatus(0.5, 1, 1, 1.0, {}, 1)  # of a load that runs for half a second
SITE: Any = None


class Nodes:
    """The nodes of a cluster that note what befalls them; failing: nothing can."""

    def __init__(self, spec: ClusterSpec, *, failing: bool = False) -> None:
        self.spec, self._failing = spec, failing
        self.writer = spec.names[0]
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

    def part(self, ways: Iterable[Way]) -> None:
        self.note(" ".join(["drop", *sorted(way.value for way in ways)]))

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


PARTED: dict[str, Any] = {"partition_after_s": 0.1, "partition_s": 0.2}


@pytest.mark.parametrize(
    ("partition", "dropped"),
    [("both-ways", "from to"), ("from-writer", "from"), ("to-writer", "to")],
)
def test_a_partition_begins_and_heals(partition: str, dropped: str) -> None:
    nodes: Any = Nodes(ClusterSpec(3, partition=partition, **PARTED))
    with inject_faults(nodes, rig(), seed=1) as faulty:
        faulty.listener.load(NOW)
        wait_until(lambda: len(nodes.befell) >= 2, "the partition's end")
        faulty.listener.phase(Phase.CUT, "now")
        faulty.listener.phase(Phase.GONE, "it is off")
    assert nodes.befell == [f"drop {dropped}", "drop"]


def test_one_that_flaps_is_on_and_off_until_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lab_faults, "FLAP_S", 0.05)
    spec = ClusterSpec(3, partition="flapping", partition_after_s=0.1, partition_s=0.3)
    nodes: Any = Nodes(spec)
    said: list[str] = []
    heard: Any = rig()
    heard.listener.phase = lambda _, text: said.append(text)
    with inject_faults(nodes, heard, seed=1) as faulty:
        faulty.listener.load(NOW)
        wait_until(lambda: len(said) >= 2, "its end")
    assert nodes.befell[:3] == ["drop from to", "drop", "drop from to"]
    assert nodes.befell[-1] == "drop"
    assert said == [
        "node1 is cut off from the others, on and off, for 0.3 s",
        "node1 and the others reach each other again",
    ]


def cut_in(spec: ClusterSpec) -> list[str]:
    """Return what befell the nodes, and when the cut came."""
    nodes: Any = Nodes(spec)
    with inject_faults(nodes, rig(), seed=1) as faulty:
        faulty.listener.load(NOW)
        assert nodes.happened.wait(5)
        faulty.listener.phase(Phase.CUT, "now")
        nodes.befell.append("cut")
        faulty.listener.phase(Phase.GONE, "it is off")
    return list(nodes.befell)


@pytest.mark.parametrize(
    ("promise", "after"),
    [("writer-gone", "links down"), ("all-writer-gone", "links down"), ("all", "drop")],
)
def test_a_partition_lasts_until_the_writer_is_off(promise: str, after: str) -> None:
    """One that comes back reaches the others; one that is gone sends nothing more."""
    spec = ClusterSpec(3, promise, partition_after_s=0.1, cut_in_fault=True)
    assert cut_in(spec) == ["drop from to", "cut", after]


def test_a_pause_lasts_until_the_writer_is_off() -> None:
    spec = ClusterSpec(2, pause_after_s=0.1, cut_in_fault=True)
    assert cut_in(spec) == ["pause node2", "cut", "links down", "go on node2"]


LOAD = adapt_workload_to_lab(quick())  # cut after 1.5 to 2.5 s


@pytest.mark.parametrize(
    ("given", "moments", "longer_s"),
    [
        ({}, (1.5, 2.5), 0),
        ({"pause_after_s": 1.0, "pause_s": 3.0}, (5.5, 6.5), 3),
        ({"partition_after_s": 1.0, "partition_s": 4.0}, (10.5, 11.5), 8),
        ({"partition_after_s": 1.0, "cut_in_fault": True}, (1.0, 9.0), 8),
        (
            {"partition_after_s": 1.0, "pause_after_s": 2.0, "cut_in_fault": True},
            (2.0, 10.0),
            8,
        ),
    ],
)
def test_the_cut_comes_after_the_faults_or_during_all_of_them(
    given: dict[str, Any], moments: tuple[float, float], longer_s: float
) -> None:
    limits = Limits()
    load, longer = extend_for_faults(LOAD, limits, ClusterSpec(3, **given))
    assert load == replace(LOAD, cut_after_s=moments)
    assert longer == replace(limits, silence_s=limits.silence_s + longer_s)


def test_nothing_happens_to_the_cluster_of_a_control_but_its_cut() -> None:
    kept: dict[str, Any] = {"nodes": 3, "promise": "writer-gone", "rebuild": "rewind"}
    faulty = ClusterSpec(
        **kept,
        pause_after_s=1,
        partition_after_s=1,
        cut_in_fault=True,
        cut_promoted_ms=50,
        old_writer_returns_s=6,
        rejoin=True,
    )
    assert leave_faults_out(faulty) == ClusterSpec(**kept, network=True)
    slow = ClusterSpec(**kept, link_delay_ms=3, link_down_after_s=1)
    assert leave_faults_out(slow) == ClusterSpec(**kept, link_delay_ms=3)
