"""How a group of MySQL is formed again once all its members were cut, and is not."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mysql.connector
import pytest

from dbcheck.base.errors import EngineError
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.diagnosis import Cause
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.replication import count_gtids
from dbcheck.model.verdict import Verdict
from dbcheck.rows.loss import LossKind
from dbcheck.site.cluster import Cluster
from dbcheck.site.group import Group
from tests.kit.clusters import WORKLOAD, cycle, group_of, status
from tests.kit.lab_access import execute_on
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.wide

AT_DRIVE = pytest.mark.root
group = partial(group_of, "group-replication")


def test_the_writer_may_return_as_a_secondary(tmp_path: Path) -> None:
    """Another member may have formed the group, and the members elect who writes."""
    with group(tmp_path, Promise.ALL) as (cluster, rig):
        site: Any = rig.site
        ready, elected = site.ready, list[Any]()

        def after_an_election() -> str | None:
            """Have node2 elected before the writer is read."""
            why: str | None = ready()
            if why is None and not elected:
                other = site.nodes["node2"].engine.membership().name
                elect = f"select group_replication_set_as_primary('{other}')"
                elected.extend(execute_on(cluster.labs["node1"], elect))
                return "an election"
            return why

        site.ready = after_an_election
        outcome = cycle(rig)
        ((read_only,),) = execute_on(
            cluster.labs["node1"], "select @@global.super_read_only"
        )
    assert read_only
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert status(outcome, ItemId.SAME_SETTINGS) is Status.PRESENT


def test_no_member_is_left_to_form_a_second_group(tmp_path: Path) -> None:
    with group(tmp_path, Promise.ALL) as (cluster, rig):
        outcome = cycle(rig)
        left = {
            execute_on(lab, "select @@group_replication_bootstrap_group")[0][0]
            for lab in cluster.labs.values()
        }
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert left == {0}


def test_members_that_join_at_their_start_are_waited_for(tmp_path: Path) -> None:
    """Each tries for a minute, as there is no group to join.

    MySQL Shell has members do so (group_replication_start_on_boot); here each is asked
    to, once it is back.
    """
    with group(tmp_path, Promise.ALL) as (cluster, rig), ThreadPoolExecutor(3) as pool:
        site: Any = rig.site
        bootstrap = site._bootstrap
        restored, formed = site.restore, bootstrap.step
        tries: list[Future[Any]] = []
        said: list[str] = []

        def restore() -> Any:
            done = restored()
            for lab in cluster.labs.values():
                tries.append(pool.submit(execute_on, lab, "start group_replication"))
            return done

        def form() -> str:
            said.append(formed())
            return said[-1]

        site.restore, bootstrap.step = restore, form
        limits = replace(rig.limits, return_s=150)
        outcome = cycle(replace(rig, limits=limits))
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert any("still tries to join the group by itself" in each for each in said)
    assert {type(each.exception()) for each in tries} <= {mysql.connector.DatabaseError}


def test_no_group_is_formed_that_would_lack_a_transaction(
    tmp_path: Path,
) -> None:
    """So no row is read, and no loss is claimed: what it has may be what is missed."""
    with group(tmp_path, Promise.ALL) as (cluster, rig):
        started = run_preflight(rig, WORKLOAD, seed=1)
        site: Any = rig.site
        bootstrap = site._bootstrap
        formed = bootstrap.step

        def astray() -> str:
            """Give node3 a transaction before the group begins."""
            bootstrap.step = formed
            node, step = cluster.labs["node3"], formed()
            execute_on(
                node, "set global super_read_only = off", "create database astray"
            )
            return str(step)

        bootstrap.step = astray
        limits = replace(rig.limits, return_s=20)
        outcome = finish_cycle(replace(rig, limits=limits), started)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "it lacks " in str(outcome.judgement.reasons)


@AT_DRIVE
def test_members_that_flush_late_hold_other_rows(tmp_path: Path) -> None:
    """Each counts as applied what its binary log has, which it flushes at each commit.

    What a cut leaves of the redo log is chance, so several cuts are made.
    """
    late: Any = {"innodb_flush_log_at_trx_commit": "2"}
    for number in range(8):
        folder = tmp_path / str(number)
        with group(folder, Promise.ALL, DriveSpec(), **late) as (_, rig):
            outcome = cycle(rig)
        if LossKind.DIVERGED.value in (outcome.result.losses or {}):
            break
    assert LossKind.DIVERGED.value in (outcome.result.losses or {})
    assert outcome.verdict is Verdict.FAIL
    assert status(outcome, ItemId.MEMBERS) is Status.PRESENT
    assert outcome.result.diagnosis[0].cause is Cause.SETTING


@AT_DRIVE
@pytest.mark.timeout(3600)  # up to eight cuts, after which a minute may be waited
def test_without_its_binary_log_no_member_can_join_again(tmp_path: Path) -> None:
    """What a cut leaves of it is chance, so several cuts are made.

    Recovery rolls back what InnoDB has prepared and the binary log lacks, so a cut may
    lose commits as well (MySQL 9.4 manual, 7.4.4, The Binary Log).
    """
    for number in range(8):
        folder = tmp_path / str(number)
        with group(folder, Promise.ALL, DriveSpec(), sync_binlog="0") as (_, rig):
            # A member that is asked to join is waited for up to 75 s before that fails.
            limits = replace(rig.limits, return_s=150)
            outcome = cycle(replace(rig, limits=limits))
        reasons = str(outcome.judgement.reasons)
        if outcome.verdict is Verdict.FAIL:
            assert outcome.result.diagnosis[0].cause is Cause.SETTING, reasons
        if "joined the group and left it" in reasons:
            break
    assert "joined the group and left it" in reasons
    assert outcome.verdict is Verdict.INCONCLUSIVE


def test_a_member_that_was_refused_may_be_let_in_later(tmp_path: Path) -> None:
    """Of this docs/clusters.md warns: what it alone has is then on no other member."""
    with group(tmp_path) as (cluster, _):
        writer, stray = cluster.labs["node1"], cluster.labs["node3"]
        ((name,),) = execute_on(writer, "select @@group_replication_group_name")
        ((held,),) = execute_on(writer, "select @@gtid_executed")
        following = count_gtids(held).get(name, 0) + 1
        execute_on(
            stray,
            "stop group_replication",
            "set global super_read_only = off",
            f"set gtid_next = '{name}:{following}'",
            "create database astray",
        )
        with pytest.raises(mysql.connector.Error, match="not configured properly"):
            execute_on(stray, "start group_replication")
        execute_on(stray, "stop group_replication")
        execute_on(writer, "create database another")  # has the same GTID
        execute_on(stray, "start group_replication")
        wait_until(lambda: _online(writer) == 3, "the third member")
        assert execute_on(stray, "show databases like 'astray'")
        assert not execute_on(stray, "show databases like 'another'")
        assert execute_on(writer, "show databases like 'another'")


def _online(lab: Lab) -> int:
    ((found,),) = execute_on(
        lab,
        "select count(*) from performance_schema.replication_group_members"
        " where member_state = 'ONLINE'",
    )
    return int(found)


def test_groups_that_are_not_as_declared_are_refused(tmp_path: Path) -> None:
    with group(tmp_path, nodes=4) as (_, rig):
        site: Any = rig.site

        def refused(changed: Cluster, why: str) -> str:
            with pytest.raises(EngineError, match=why) as at:
                run_preflight(replace(rig, site=changed), WORKLOAD, seed=1)
            return str(at.value.hint)

        gone = Promise.WRITER_GONE
        galera = Group(SiteKind.GALERA, site.nodes, "node1", gone)
        semi_sync = Cluster(SiteKind.SEMI_SYNC, site.nodes, "node1", gone)
        for other in (galera, semi_sync):
            hint = refused(other, "node1 is in a cluster of the topology group-repl")
            assert hint.startswith("Set dbcheck_topology: group-replication, or ")
        known = {name: site.nodes[name] for name in ("node1", "node2", "node3")}
        part = Group(site.kind, known, "node1", gone)
        assert "MEMBER_HOST" in refused(part, "which is not one of the nodes")
        secondary = Group(site.kind, site.nodes, "node2", gone)
        hint = refused(secondary, "the server is read-only")
        assert "Set dbcheck_writer to the primary" in hint
