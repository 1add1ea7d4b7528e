"""Records and rigs of a single server, whose one node is not spelled out."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from dbcheck.cycle.rig import Rig
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import Cut
from dbcheck.model.host import HostAfter
from dbcheck.model.records import (
    AfterRecord,
    LoadRecord,
    Manifest,
    NodeAfter,
    NodeAtTheCut,
    NodeBefore,
)
from dbcheck.model.server import ServerFacts
from dbcheck.ports.site import Node
from dbcheck.site.single import SingleServer

Record = TypeVar("Record", Manifest, LoadRecord, AfterRecord)


def having(record: Record, **changed: Any) -> Record:
    """Return *record* with other values; a node's fields are those of its only node."""
    node = record.nodes[ONLY_NODE]
    names = {field.name for field in fields(node)} & changed.keys()
    of_node: Any = {name: changed.pop(name) for name in names}
    nodes: Any = {ONLY_NODE: replace(node, **of_node)}
    return replace(record, nodes=nodes, **changed)


def at_the_cut(load: LoadRecord) -> NodeAtTheCut:
    """Return what was seen of the only node."""
    return load.nodes[ONLY_NODE]


def host_after(after: AfterRecord) -> HostAfter:
    """Return what the host of the only node reported; it must have been asked."""
    host = after.nodes[ONLY_NODE].host
    assert host is not None
    return host


def cut_of(load: LoadRecord) -> Cut:
    """Return how the only node was cut; it must have been."""
    cut = at_the_cut(load).cut
    assert cut is not None
    return cut


def after_of(
    facts: ServerFacts | None = None, host: HostAfter | None = None, **changed: Any
) -> AfterRecord:
    """Return what was found of a server that came back with no row, or did not."""
    values = {"failure": "", "survivors": {}, "canary": None, **changed}
    return AfterRecord({ONLY_NODE: NodeAfter(facts, host)}, ONLY_NODE, **values)


def one(node: NodeBefore) -> dict[str, NodeBefore]:
    """Return the nodes of a single server."""
    return {ONLY_NODE: node}


def with_node(rig: Rig, **changed: Any) -> Rig:
    """Return *rig* with another engine, switch or host; see ports.site.Node."""
    site = rig.site.with_writer(replace(rig.site.writer, **changed))
    return replace(rig, site=site)


def site_of(
    engine: Any = None, power: Any = None, host: Any = None, pods: Any = None
) -> SingleServer:
    """Return a site of one server; what is None must not be used."""
    return SingleServer(Node(engine, power, host, pods=pods))
