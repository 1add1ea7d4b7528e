"""The nodes of a cluster in pods, which are found again before they are rebuilt."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import TargetChanged
from dbcheck.cycle import rebuild
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.cut import PowerState
from dbcheck.model.pods import Pod
from dbcheck.ports.site import Node
from tests.kit.bare_engine import BareEngine
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.pods import POD, REPLICA, showing
from tests.kit.refusals import refused
from tests.kit.samples import FACTS, MANIFEST

OLD, NEW = POD.name, REPLICA.name
STARTED = replace(POD, container_id="e0" * 32, addresses=("192.0.2.77",))
NODES = {pod.name: replace(MANIFEST.writer, pod=pod) for pod in (POD, REPLICA)}
OF_PAIR = replace(
    MANIFEST,
    nodes=NODES,
    writer_name=OLD,
    site=SiteKind.STREAMING,
    promise=Promise.WRITER_GONE,
)
OFF, ON, UNKNOWN = PowerState.OFF, PowerState.ON, PowerState.UNKNOWN


class Pair:
    """Two nodes in pods, the first of which was cut; and what was done to them."""

    def __init__(self, state: PowerState, shown: Pod, *, system: str = "") -> None:
        """system: the identifier of the server that leads now, "" for the same."""
        self.did = list[str]()
        self._state, self._shown = state, showing(shown, REPLICA)
        facts = replace(FACTS, identity={"system_identifier": system})
        self._facts = facts if system else MANIFEST.writer.facts
        self.before, self.now = self._make(), self._make()

    def _make(self) -> Any:
        nodes = {}
        for name in (OLD, NEW):
            power: Any = SimpleNamespace(
                state=lambda name=name: self._state if name == OLD else ON,
                restore=lambda name=name: self.did.append(f"power of {name}"),
            )
            host: Any = SimpleNamespace(
                close=lambda name=name: self.did.append(f"host of {name} closed")
            )
            engine: Any = BareEngine(
                target=name, facts=lambda: self._facts, accepts=lambda: False
            )
            nodes[name] = Node(engine, power, host, pods=self._shown)
        return SimpleNamespace(nodes=nodes, writer=nodes[NEW])

    def find(self) -> Any:
        """Return the site that is found after a run whose cut was made."""

        def find_nodes(leads: str) -> Any:
            self.did.append(f"found, led by {leads}")
            return self.now

        cut = {OLD: SimpleNamespace(cut=True), NEW: SimpleNamespace(cut=None)}
        last: Any = SimpleNamespace(
            manifest=lambda: OF_PAIR,
            after=lambda: SimpleNamespace(reader_name=NEW, tables={}),
            load=lambda: SimpleNamespace(nodes=cut),
        )
        rig = replace_rig(find_nodes, self.before)
        return rebuild._find_nodes(rig, last).site


def replace_rig(find_nodes: Any, site: Any) -> Any:
    rig = rig_of(RecordingListener())
    limits = replace(rig.limits, return_s=0.0)
    return replace(rig, site=site, find_nodes=find_nodes, limits=limits)


@pytest.mark.parametrize(
    ("state", "shown", "is_restored"),
    [
        (OFF, STARTED, True),
        (ON, STARTED, False),
        (UNKNOWN, STARTED, False),  # somebody restored it
    ],
)
def test_a_node_has_power_before_its_pod_is_looked_for(
    state: PowerState, shown: Pod, *, is_restored: bool
) -> None:
    pair = Pair(state, shown)
    assert pair.find() is pair.now
    power, *found = [f"power of {OLD}", f"found, led by {NEW}"]
    ends = [f"host of {name} closed" for name in (OLD, NEW)]
    assert pair.did == [*([power] if is_restored else []), *found, *ends]


@pytest.mark.parametrize("state", [OFF, ON, UNKNOWN])
def test_the_address_of_before_the_cut_is_not_taken(state: PowerState) -> None:
    pair = Pair(state, POD)
    with refused(ErrorId.NODE_NOT_REBUILT, naming="from before the cut"):
        pair.find()
    assert pair.did == ([] if state is ON else [f"power of {OLD}"])


def test_the_nodes_of_another_cluster_are_not_rebuilt() -> None:
    pair = Pair(ON, STARTED, system="of another one")
    with refused(ErrorId.TARGET_CHANGED, TargetChanged, naming="system_identifier"):
        pair.find()


def test_hosts_stay_where_they_are() -> None:
    rig = replace_rig(None, Pair(OFF, STARTED).before)
    nothing: Any = None
    assert rebuild._find_nodes(rig, nothing) is rig
