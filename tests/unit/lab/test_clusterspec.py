"""Which clusters a lab can build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.lab.clusters.rebuilding import swap_names
from dbcheck.lab.clusters.spec import ClusterSpec, choose_cluster_kind, require_possible
from dbcheck.lab.server_account import empty_folder
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


@pytest.mark.parametrize("given", [{"network": True}, {"partition_after_s": 1.0}])
@pytest.mark.parametrize("link", [{"link_delay_ms": 5.0}, {"link_down_after_s": 1.0}])
def test_servers_of_a_network_have_no_links(
    given: dict[str, Any], link: dict[str, Any]
) -> None:
    with refused(ErrorId.OPTIONS_CONFLICT, UsageError, naming="have no links"):
        require_possible(LabSpec("postgresql"), ClusterSpec(**given, **link))


def test_a_cut_in_a_fault_needs_one() -> None:
    with refused(ErrorId.OPTION_NEEDS_ANOTHER, UsageError, naming="--cut-in-fault"):
        require_possible(LabSpec("postgresql"), ClusterSpec(cut_in_fault=True))


@pytest.mark.parametrize(
    ("given", "naming"),
    [
        ({"cut_promoted_ms": 50.0, "promise": "all-writer-gone"}, "--cut-promoted"),
        ({"cut_promoted_ms": 50.0, "promise": "writer"}, "--cut-promoted"),
        ({"cut_promoted_ms": 50.0, "promoted_by": "patroni"}, "when Patroni promotes"),
        ({"old_writer_returns_s": 5.0, "promise": "all"}, "--old-writer-returns"),
    ],
)
def test_what_a_standby_that_takes_over_shows_needs_a_writer_that_is_gone(
    given: dict[str, Any], naming: str
) -> None:
    lab = LabSpec("postgresql")
    require_possible(lab, ClusterSpec(cut_promoted_ms=50.0, old_writer_returns_s=5.0))
    with refused(ErrorId.OPTIONS_CONFLICT, UsageError, naming=naming):
        require_possible(lab, ClusterSpec(**given))
    with refused(ErrorId.OPTIONS_CONFLICT, UsageError, naming="a writer that is gone"):
        group = ClusterSpec(3, topology=GALERA, old_writer_returns_s=5.0)
        require_possible(LabSpec("mariadb"), group)


STAYS_OFF: dict[str, Any] = {"cut_promoted_ms": 50.0, "promoted_stays_off": True}


@pytest.mark.parametrize(
    ("engine", "settings", "given", "id", "naming"),
    [
        ("postgresql", {}, {"cut_promoted_ms": 0.0}, ErrorId.OPTION_NEEDS_ANOTHER,
         "none is cut"),
        ("postgresql", {}, {"nodes": 2}, ErrorId.CLUSTER_TOO_SMALL, "none is left"),
        ("postgresql", {}, {"rebuild": "rewind"}, ErrorId.OPTIONS_CONFLICT,
         "does not follow"),
        ("postgresql", {"synchronous_standby_names": "ANY 1 (node2, node3)"}, {},
         ErrorId.PROMISE_NOT_TESTABLE, "once 1 of the standbys have it"),
        ("mysql", {"rpl-semi-sync-source-wait-for-replica-count": "1"}, {},
         ErrorId.PROMISE_NOT_TESTABLE, "once 1 of the standbys have it"),
        ("mariadb", {}, {}, ErrorId.PROMISE_NOT_TESTABLE, "MariaDB answers a commit"),
    ],
)  # fmt: skip
def test_a_commit_must_be_on_two_standbys_if_one_is_lost_with_the_writer(
    engine: str,
    settings: dict[str, str],
    given: dict[str, Any],
    id: ErrorId,
    naming: str,
) -> None:
    spec = ClusterSpec(**{"nodes": 3, **STAYS_OFF, **given})
    with refused(id, UsageError, naming=naming):
        require_possible(LabSpec(engine, settings=settings), spec)


@pytest.mark.parametrize(
    ("engine", "settings"),
    [
        ("postgresql", {}),
        ("postgresql", {"synchronous_standby_names": "2 (node2, node3)"}),
        ("postgresql", {"synchronous_standby_names": ""}),  # a control
        ("mysql", {}),
        ("mysql", {"rpl_semi_sync_source_wait_for_replica_count": "2"}),
    ],
)
def test_a_standby_may_be_lost_where_two_have_each_commit_or_none_is_promised(
    engine: str, settings: dict[str, str]
) -> None:
    require_possible(LabSpec(engine, settings=settings), ClusterSpec(3, **STAYS_OFF))


@pytest.mark.parametrize(
    ("topology", "engine"), [("", "postgresql"), (GALERA, "mariadb"), (GROUP, "mysql")]
)
def test_each_kind_of_cluster_can_be_parted(topology: str, engine: str) -> None:
    spec = ClusterSpec(3, topology=topology, partition_after_s=1.0, cut_in_fault=True)
    require_possible(LabSpec(engine), spec)
    require_possible(LabSpec(engine), replace(spec, rebuild="copy"))


def test_what_replicas_commit_out_of_order_is_not_compared() -> None:
    lab = LabSpec("mysql", settings={"replica-preserve-commit-order": "OFF"})
    require_possible(lab, ClusterSpec())
    with refused(
        ErrorId.REJOIN_NOT_POSSIBLE, UsageError, naming="what a replica has applied"
    ):
        require_possible(lab, ClusterSpec(rejoin=True))


@pytest.mark.parametrize(
    ("engine", "topology", "rebuild", "why"),
    [
        ("postgresql", "", "follow", "their timelines differ"),
        ("mysql", "", "rewind", "pg_rewind does not rewind a mysql server"),
        ("mariadb", GALERA, "rewind", "does not rewind a mariadb server"),
    ],
)
def test_a_node_is_not_rebuilt_by_what_its_server_lacks(
    engine: str, topology: str, rebuild: str, why: str
) -> None:
    lab = LabSpec(engine)
    require_possible(lab, ClusterSpec(3, topology=topology, rebuild="copy"))
    with refused(ErrorId.REJOIN_NOT_POSSIBLE, UsageError, naming=why):
        require_possible(lab, ClusterSpec(3, topology=topology, rebuild=rebuild))


@pytest.mark.parametrize(
    ("given", "swapped"),
    [
        ("ANY 1 (node2, node3)", "ANY 1 (node1, node3)"),
        ("FIRST 2 (node3, node22, node2)", "FIRST 2 (node3, node22, node1)"),
        ("node1, *", "node2, *"),
        ("", ""),
    ],
)
def test_a_given_list_of_standbys_fits_the_next_writer(
    given: str, swapped: str
) -> None:
    assert swap_names(given, "node1", "node2") == swapped


def test_what_is_in_a_folder_goes_and_what_links_point_at_stays(
    tmp_path: Path,
) -> None:
    folder, outside = tmp_path / "data", tmp_path / "outside"
    for made in (folder / "below", outside):
        made.mkdir(parents=True)
        (made / "file").touch()
    (folder / "link").symlink_to(outside)
    (folder / "below" / "link").symlink_to(outside)
    empty_folder(folder)
    assert list(folder.iterdir()) == []
    assert (outside / "file").exists()
    (tmp_path / "to").symlink_to(outside)
    for other in ("to", "nothing"):
        with refused(ErrorId.DATA_FOLDER_NOT_USABLE, LabError, naming=other):
            empty_folder(tmp_path / other)
    assert (outside / "file").exists()


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
