"""A cluster whose nodes are rebuilt for the writer that took over, and cut again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.clusters.spec import COPY, FOLLOW, PATRONI, REWIND
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cluster import Promise
from dbcheck.model.verdict import Verdict
from tests.kit.clusters import GROUPS, cluster_of, cycle, group_of, rebuilt, status
from tests.kit.lab_access import execute_on

pytestmark = pytest.mark.wide

ROWS = "select epoch, id, checksum from dbcheck.ledger order by epoch, id"


def require_same_rows(cluster: ClusterLab) -> int:
    """Assert that all nodes hold the same rows; return their number."""
    rows = {name: execute_on(lab, ROWS) for name, lab in cluster.labs.items()}
    of_writer = rows[cluster.writer]
    differing = [name for name, found in rows.items() if found != of_writer]
    assert not differing
    return len(of_writer)


def cut_repeatedly(cluster: ClusterLab, rig: Any, cuts: int) -> list[str]:
    """Cut the writer, rebuild the rest, and so on; return the nodes that were cut."""
    writers, rows, known = [], 0, NOTHING_KNOWN
    for _ in range(cuts):
        outcome = cycle(rig, known=known)
        assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
        assert status(outcome, ItemId.IN_SYNC) is Status.PRESENT
        assert outcome.after.reader_name != rig.site.writer_name
        writers.append(rig.site.writer_name)
        known = known.with_outcome(outcome)
        rig = rebuilt(rig, cluster, outcome.after.reader_name)
        now = require_same_rows(cluster)
        assert now > rows
        rows = now
    return writers


@pytest.mark.parametrize(
    ("engine", "nodes", "method", "cuts"),
    [
        ("postgresql", 2, REWIND, 3),
        ("postgresql", 3, REWIND, 2),
        ("postgresql", 3, COPY, 2),
        ("mysql", 2, COPY, 3),
        ("mysql", 3, FOLLOW, 2),
        ("mariadb", 2, COPY, 3),
        ("mariadb", 3, FOLLOW, 3),
    ],
)
def test_each_writer_in_turn_is_cut(
    tmp_path: Path, engine: str, nodes: int, method: str, cuts: int
) -> None:
    with cluster_of(
        tmp_path, nodes, drive=DriveSpec(), engine=engine, rebuild=method
    ) as (cluster, rig):
        writers = cut_repeatedly(cluster, rig, cuts)
    assert len(set(writers)) == 2


@pytest.mark.parametrize(
    ("engine", "method"),
    [("postgresql", REWIND), ("mysql", FOLLOW)],
)
def test_a_rebuilt_node_keeps_what_it_acknowledged_when_it_is_cut(
    tmp_path: Path, engine: str, method: str
) -> None:
    """The former writer is promoted then.  MariaDB's cannot keep that promise."""
    promise = Promise.ALL_WRITER_GONE
    with cluster_of(tmp_path, 2, promise, DriveSpec(), engine, rebuild=method) as (
        cluster,
        rig,
    ):
        writers = cut_repeatedly(cluster, rig, 2)
    assert writers == ["node1", "node2"]


@pytest.mark.parametrize("topology", sorted(GROUPS))
@pytest.mark.parametrize("method", [FOLLOW, COPY])
def test_each_node_of_a_group_is_cut(
    tmp_path: Path, topology: str, method: str
) -> None:
    with group_of(topology, tmp_path, drive=DriveSpec(), rebuild=method) as made:
        cluster, rig = made
        writers = cut_repeatedly(cluster, rig, 2)
    assert len(set(writers)) == 2


@pytest.mark.parametrize("method", [REWIND, COPY])
def test_each_leader_of_patroni_is_cut(tmp_path: Path, method: str) -> None:
    with cluster_of(
        tmp_path, 3, drive=DriveSpec(), promoted_by=PATRONI, rebuild=method
    ) as (cluster, rig):
        writers = cut_repeatedly(cluster, rig, 2)
    assert len(set(writers)) == 2


# Statements for an old source, which then holds other commits than the new one.
_TABLE = "dbcheck.ledger"
ALONE = {
    "mysql": "set global rpl_semi_sync_source_enabled = off",
    "mariadb": "set global rpl_semi_sync_master_enabled = off",
}
OF_ITS_OWN = (
    f"insert into {_TABLE} (id, epoch, session, seq, part, payload, checksum)"
    " select id + 1000000, epoch, session, seq + 1000000, part, payload, checksum"
    f" from {_TABLE} order by id desc limit 1",
)
FORGETS = {
    "mysql": "reset binary logs and gtids",
    "mariadb": "reset master",
}


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
@pytest.mark.parametrize("lost", [False, True], ids=["extra", "lost"])
def test_a_source_with_other_commits_gets_new_data(
    tmp_path: Path, engine: str, lost: bool
) -> None:
    """A replica skips what it once committed, so what it lost never comes back."""
    with cluster_of(tmp_path, engine=engine, rebuild=FOLLOW) as (cluster, rig):
        outcome = cycle(rig)
        assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
        old = cluster.labs["node1"]
        number = execute_on(old, "select @@server_id")
        if lost:
            execute_on(*(old, ALONE[engine], f"delete from {_TABLE}", FORGETS[engine]))
        else:
            execute_on(old, ALONE[engine], *OF_ITS_OWN)
        rebuilt(rig, cluster, "node2")
        assert require_same_rows(cluster) > 0
        assert execute_on(old, "select @@server_id") != number


def test_a_member_that_its_group_refuses_gets_new_data(tmp_path: Path) -> None:
    with group_of("group-replication", tmp_path, rebuild=FOLLOW) as (cluster, rig):
        outcome = cycle(rig)
        assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
        old = cluster.labs["node1"]
        old.switch().restore()
        execute_on(old, "set global super_read_only = off", *OF_ITS_OWN)
        rebuilt(rig, cluster, outcome.after.reader_name)
        assert require_same_rows(cluster) > 0
        assert execute_on(old, "select @@server_id") != [(1,)]
