"""Clusters of MariaDB Galera that are not what they should be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.cluster import Promise
from dbcheck.model.verdict import Verdict
from dbcheck.ports.site import Node
from dbcheck.site.group import Group
from tests.kit.clusters import WORKLOAD, cycle, group_of, status
from tests.kit.lab_access import execute_on
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.wide


class Hasty(Group):
    """Reads a node that still counts the writer among its members."""

    def _find_node_without_writer(self) -> tuple[str, str]:
        received, why = self._ask_received("node2")
        return ("node2", "") if received else ("", why or "not yet")


def test_a_node_that_still_counts_the_writer_proves_nothing(tmp_path: Path) -> None:
    patient: Any = {
        "wsrep_provider_options": "evs.suspect_timeout=PT30S;evs.inactive_timeout=PT1M"
    }
    with group_of("galera", tmp_path, **patient) as (_, rig):
        site = rig.site
        hasty = Hasty(site.kind, site.nodes, "node1", Promise.WRITER_GONE)
        outcome = cycle(replace(rig, site=hasty))
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert status(outcome, ItemId.PROMOTED) is Status.NOT_OBSERVABLE
    assert "node2 still counted node1 as a member" in str(outcome.judgement)


def test_a_group_that_is_not_the_whole_cluster_is_refused(tmp_path: Path) -> None:
    """So is one with a node that is down."""
    with group_of("galera", tmp_path, nodes=4) as (cluster, rig):
        site: Any = rig.site
        known = {name: site.nodes[name] for name in ("node1", "node2", "node3")}
        part = replace(rig, site=Group(site.kind, known, "node1", Promise.WRITER_GONE))
        with refused(ErrorId.COMMITS_WAIT_FOR_STRANGER, EngineError, naming="node4"):
            run_preflight(part, WORKLOAD, seed=1)
        cluster.labs["node4"].switch().cut()
        wait_until(lambda: _members(site.nodes["node1"]) == 3, "the view without it")
        with refused(ErrorId.CONNECTION_FAILED, EngineError, naming="Can't connect"):
            run_preflight(rig, WORKLOAD, seed=1)


def test_a_node_is_seen_as_one_when_it_keeps_its_commits(tmp_path: Path) -> None:
    """The others' commits go on to reach it with wsrep_on = OFF."""
    with group_of("galera", tmp_path) as (cluster, rig):
        engine: Any = rig.site.nodes["node1"].engine
        execute_on(cluster.labs["node1"], "set global wsrep_on = off")
        with refused(
            ErrorId.SERVER_IN_CLUSTER, EngineError, naming="wsrep_connected is ON"
        ) as at:
            engine.require_alone()
        refill = engine.refill((), 0)
    assert at.value.id is ErrorId.SERVER_IN_CLUSTER
    assert refill is not None and refill.replaces


def _members(node: Node) -> int:
    engine: Any = node.engine
    return len(engine.received().members)
