"""Which clusters a lab can build."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.lab.clusters.spec import ClusterSpec, choose_cluster_kind, require_possible
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cluster import SiteKind
from tests.kit.refusals import refused

GALERA, GROUP = "galera", "group-replication"


@pytest.mark.parametrize(
    ("topology", "engine", "given", "why"),
    [
        (GALERA, "postgresql", {}, "servers cannot be a cluster of the topology"),
        (GALERA, "myrocks", {}, "a lab has no clusters of myrocks servers"),
        (GROUP, "mariadb", {}, "servers cannot be a cluster of the topology"),
        (GALERA, "mariadb", {"nodes": 2}, "needs 3 nodes or more"),
        (GROUP, "mysql", {"nodes": 2}, "needs 3 nodes or more"),
        (GALERA, "mariadb", {"promise": "writer"}, "writer cannot be tested"),
        (GROUP, "mysql", {"promise": "writer"}, "writer cannot be tested"),
        (GALERA, "mariadb", {"promise": "all-writer-gone"}, "all of them are back"),
        (GROUP, "mysql", {"promise": "all-writer-gone"}, "has flushed it"),
        (GALERA, "mariadb", {"link_delay_ms": 5.0}, "have no links that a lab can"),
        (GALERA, "mariadb", {"link_down_after_s": 1.0}, "have no links that a lab"),
        (GROUP, "mysql", {"link_down_after_s": 1.0}, "have no links that a lab can"),
        (GROUP, "mysql", {"stagger_s": 1.0}, "writer-gone cannot be staggered"),
        (GROUP, "mysql", {"rejoin": True}, "that another node has replaced"),
        ("", "mysql", {"rejoin": True, "promise": "all"}, "another node has replaced"),
    ],
)
def test_clusters_that_a_lab_cannot_build_are_refused(
    topology: str, engine: str, given: dict[str, object], why: str
) -> None:
    values: dict[str, object] = {"nodes": 3, "topology": topology, **given}
    spec = ClusterSpec(**values)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=why):
        require_possible(LabSpec(engine), spec)


@pytest.mark.parametrize(
    ("engine", "promise", "id"),
    [
        ("mysql", "writer-gone", ErrorId.TOPOLOGY_NOT_FOR_ENGINE),
        ("postgresql", "all", ErrorId.PROMISE_NOT_TESTABLE),
        ("postgresql", "writer", ErrorId.PROMISE_NOT_TESTABLE),
    ],
)
def test_what_patroni_cannot_show_is_refused(
    engine: str, promise: str, id: ErrorId
) -> None:
    spec = ClusterSpec(2, promise, promoted_by="patroni")
    with refused(id, UsageError, naming="Patroni"):
        require_possible(LabSpec(engine), spec)


def test_servers_in_containers_are_no_cluster() -> None:
    spec = LabSpec("postgresql", container="volume")
    with refused(ErrorId.TOPOLOGY_NOT_FOR_ENGINE, UsageError, naming="no network"):
        require_possible(spec, ClusterSpec())


def test_what_replicas_commit_out_of_order_is_not_compared() -> None:
    lab = LabSpec("mysql", settings={"replica-preserve-commit-order": "OFF"})
    require_possible(lab, ClusterSpec())
    with refused(
        ErrorId.REJOIN_NOT_POSSIBLE, UsageError, naming="what a replica has applied"
    ):
        require_possible(lab, ClusterSpec(rejoin=True))


@pytest.mark.parametrize(
    ("engine", "topology", "kind"),
    [
        ("postgresql", "", SiteKind.STREAMING),
        ("mysql", "", SiteKind.SEMI_SYNC),
        ("mariadb", "", SiteKind.SEMI_SYNC),
        ("mariadb", GALERA, SiteKind.GALERA),
        ("mysql", GROUP, SiteKind.GROUP_REPLICATION),
    ],
)
def test_the_topology_is_the_server_s_own_by_default(
    engine: str, topology: str, kind: SiteKind
) -> None:
    spec = ClusterSpec(3, "all", topology)
    assert choose_cluster_kind(LabSpec(engine), spec) is kind
    require_possible(LabSpec(engine), spec)
