"""Partitions between the nodes of a lab's cluster, which is in a network of its own."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import mysql.connector
import pytest
from rich.console import Console

from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.clusters.network import BOTH_WAYS
from dbcheck.lab.clusters.spec import BOTH_WAYS as BOTH
from dbcheck.lab.clusters.spec import FLAPPING, FROM_WRITER, TO_WRITER, ClusterSpec
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.lab_clusters import run_cluster_cycles
from tests.kit.clusters import GROUPS as GROUP_SERVERS
from tests.kit.clusters import (
    await_end_of,
    client_of,
    cluster_of,
    cycle,
    group_of,
    status,
)
from tests.kit.lab_access import execute_on
from tests.kit.namespaces import are_networks_used
from tests.kit.rigs import quick
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root

GROUPS = pytest.mark.parametrize(
    "topology", [pytest.param(name, marks=pytest.mark.wide) for name in GROUP_SERVERS]
)
NO_SETTINGS: Mapping[str, str] = {}
NO_STANDBY = {"synchronous_standby_names": ""}  # no commit waits for one
_CLIENT = """
import os, sys
from pathlib import Path
from tests.kit.clusters import cluster_of

with cluster_of(Path(sys.argv[1]), network=True) as (cluster, rig):
    places = cluster.network.hosts.values()
    print(*(os.fstat(place.namespace).st_ino for place in places), flush=True)
    print(*(lab.name for lab in cluster.labs.values()), flush=True)
    sys.stdin.read()
"""


def run_cycles(
    folder: Path,
    spec: ClusterSpec,
    said: io.StringIO,
    engine: str = "postgresql",
    cycles: int = 1,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> list[Outcome]:
    lab = LabSpec(engine, cut="process", settings=dict(settings))
    made = replace(lab, galera=spec.topology == "galera", network=True)
    if lacking := list_missing(made):
        pytest.skip("; ".join(lacking))
    progress = PlainProgress(Console(file=said, width=200))
    return list(run_cluster_cycles(lab, spec, quick(), 1, cycles, progress, folder))


def run(
    folder: Path,
    spec: ClusterSpec,
    said: io.StringIO,
    engine: str = "postgresql",
    **values: str,
) -> Outcome:
    (outcome,) = run_cycles(folder, spec, said, engine, settings=values)
    return outcome


def slowest_ms(outcome: Outcome) -> float:
    assert outcome.result.load is not None
    return outcome.result.load.latency_ms["max"]


@pytest.mark.parametrize(
    ("partition", "how"),
    [
        (BOTH, "is cut off from the others"),
        (FROM_WRITER, "does not reach the others"),
        (TO_WRITER, "they do not reach it"),
        (FLAPPING, "on and off"),
    ],
)
def test_commits_wait_for_a_standby_until_the_partition_heals(
    tmp_path: Path, partition: str, how: str
) -> None:
    said = io.StringIO()
    spec = ClusterSpec(partition_after_s=0.3, partition=partition, partition_s=1.5)
    outcome = run(tmp_path, spec, said)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert how in said.getvalue()
    assert "reach each other again" in said.getvalue()
    assert slowest_ms(outcome) > 900  # an honest commit takes a few


def test_a_cut_during_it_loses_what_no_standby_has(tmp_path: Path) -> None:
    """The control of the next test: these commits did not wait."""
    said = io.StringIO()
    spec = ClusterSpec(partition_after_s=0.1, partition_s=2, cut_in_fault=True)
    outcome = run(tmp_path, spec, said, **NO_STANDBY)
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert status(outcome, ItemId.PROMISED_SETTINGS) is Status.ABSENT
    assert any("left-behind: node1" in reason for reason in outcome.judgement.reasons)
    assert "until the cut" in said.getvalue()


def test_a_cut_during_it_loses_no_commit_that_waited(tmp_path: Path) -> None:
    """How long before the cut the last ack came decides if anything was at risk."""
    spec = ClusterSpec(partition_after_s=0.1, partition_s=2, cut_in_fault=True)
    outcome = run(tmp_path, spec, io.StringIO())
    assert not outcome.result.losses
    assert outcome.verdict is not Verdict.FAIL
    assert status(outcome, ItemId.WRITER_OFF) is Status.PRESENT


REBUILT = {
    "postgresql": ("", "rewind"),
    "mysql": ("", "follow"),
    "mariadb": ("", "copy"),
    "galera": ("galera", "follow"),
    "group-replication": ("group-replication", "follow"),
}


@pytest.mark.timeout(900)
@pytest.mark.wide_with("mysql", "mariadb", "galera", "group-replication")
@pytest.mark.parametrize("kind", REBUILT)
def test_a_cluster_is_parted_again_after_its_nodes_were_rebuilt(
    tmp_path: Path, kind: str
) -> None:
    """A cut comes when nothing is at risk any more; the cluster goes on."""
    topology, rebuild = REBUILT[kind]
    said, nodes = io.StringIO(), 3 if topology else 2
    spec = ClusterSpec(
        *(nodes, "writer-gone", topology),
        partition_after_s=0.5,
        partition_s=4,
        cut_in_fault=True,
        rebuild=rebuild,
    )
    engine = GROUP_SERVERS.get(kind, kind)
    # Of seed 1 and 2 the cuts come 0.5 and 3.8 s into the partition.
    cycles = 2 if topology else 3
    outcomes = run_cycles(tmp_path, spec, said, engine, cycles)
    assert len(outcomes) == cycles, outcomes[-1].judgement.reasons
    assert not any(outcome.result.losses for outcome in outcomes)
    waited = outcomes[1]
    assert waited.verdict is Verdict.INCONCLUSIVE, waited.judgement.reasons
    assert status(waited, ItemId.LOAD) is Status.ABSENT
    writers = [outcome.manifest.writer_name for outcome in outcomes]
    readers = [outcome.after.reader_name for outcome in outcomes]
    assert writers == ["node1", *readers[:-1]]
    for writer in writers:
        assert f"{writer} is cut off from the others" in said.getvalue()


def test_a_loss_ends_the_cycles_on_a_cluster(tmp_path: Path) -> None:
    """Its nodes are evidence."""
    spec = ClusterSpec(
        partition_after_s=0.1, partition_s=2, cut_in_fault=True, rebuild="rewind"
    )
    (outcome,) = run_cycles(
        tmp_path, spec, io.StringIO(), cycles=2, settings=NO_STANDBY
    )
    assert outcome.verdict is Verdict.FAIL


@pytest.mark.timeout(900)
@pytest.mark.wide
def test_a_load_that_a_group_ends_before_the_cut_is_judged(tmp_path: Path) -> None:
    """The writer was expelled and joined again: its sessions got an error (3100)."""
    spec = ClusterSpec(
        *(3, "writer-gone", "group-replication"),
        partition_after_s=0.5,
        partition_s=8,
        rebuild="follow",
    )
    said = io.StringIO()
    outcomes = run_cycles(tmp_path, spec, said, "mysql", cycles=2)
    for outcome in outcomes:
        assert outcome.found is not None
        assert not outcome.result.losses
        assert outcome.verdict is Verdict.INCONCLUSIVE
    assert len(outcomes) == 2


def test_a_cut_while_a_standby_is_paused_loses_no_commit(tmp_path: Path) -> None:
    said = io.StringIO()
    spec = ClusterSpec(pause_after_s=0.3, pause_s=0.6, cut_in_fault=True)
    outcome = run(tmp_path, spec, said)
    assert not outcome.result.losses
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert "node2 is paused until the cut" in said.getvalue()


def test_dbcheck_reaches_each_node_of_a_partition(tmp_path: Path) -> None:
    """And what waits for the other node goes on once it heals."""
    with cluster_of(tmp_path, network=True) as (cluster, _):
        writer, standby = cluster.labs.values()
        execute_on(writer, "create table numbers (n int)")
        cluster.part(BOTH_WAYS)
        insert = threading.Thread(
            target=execute_on, args=(writer, "insert into numbers values (1)")
        )
        insert.start()
        waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"
        wait_until(lambda: execute_on(writer, waits) == [(1,)], "the commit waits")
        assert execute_on(standby, "select count(*) from numbers") == [(0,)]
        assert insert.is_alive()
        cluster.part(())
        insert.join(60)
        assert not insert.is_alive()
        wait_until(
            lambda: execute_on(standby, "select count(*) from numbers") == [(1,)],
            "the row on the standby",
        )


@pytest.mark.wide_with("2")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_network_whose_client_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    with client_of(_CLIENT, tmp_path) as (client, networks):
        assert are_networks_used(networks)
        assert client.stdout is not None
        names = client.stdout.readline().decode().split()
        os.kill(client.pid, number)
        wait_until(lambda: not are_networks_used(networks), "the networks' end")
    await_end_of(names)
    # Its devices would be named host1 and host2; other tests make others meanwhile.
    assert not [name for _, name in socket.if_nameindex() if name.startswith("host")]


@pytest.mark.wide
@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_semi_synchronous_servers_are_a_cluster_in_a_network(
    tmp_path: Path, engine: str
) -> None:
    with cluster_of(tmp_path, engine=engine, network=True) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons


@GROUPS
def test_a_majority_excludes_a_writer_that_is_cut_off(
    tmp_path: Path, topology: str
) -> None:
    """The old writer answers no commit meanwhile, and the others have none of it."""
    with group_of(topology, tmp_path, network=True) as (cluster, rig):
        writer, *others = cluster.labs.values()
        execute_on(writer, "create table numbers (n int primary key)")
        committed: list[int] = []

        def commit(number: int) -> None:
            with contextlib.suppress(mysql.connector.Error):
                execute_on(writer, f"insert into numbers values ({number})")
                committed.append(number)

        commit(1)
        cluster.part(BOTH_WAYS)
        waiting = threading.Thread(target=commit, args=(2,))
        waiting.start()
        engines = [rig.site.nodes[name].engine for name in rig.site.nodes][1:]
        wait_until(
            lambda: all(len(each.received().members) == 2 for each in engines),
            "the others' view without the writer",
            120,
        )
        assert committed == [1]
        for lab in others:
            assert execute_on(lab, "select n from numbers") == [(1,)]
    waiting.join(60)
    assert committed == [1]


@GROUPS
@pytest.mark.parametrize("partition", [BOTH, FROM_WRITER, TO_WRITER, FLAPPING])
def test_a_group_keeps_what_it_acknowledged_before_and_during_a_partition(
    tmp_path: Path, topology: str, partition: str
) -> None:
    spec = ClusterSpec(
        *(3, "writer-gone", topology),
        partition_after_s=0.5,
        partition=partition,
        partition_s=3,
        cut_in_fault=True,
    )
    outcome = run(tmp_path, spec, io.StringIO(), GROUP_SERVERS[topology])
    assert not outcome.result.losses
    assert outcome.verdict is not Verdict.FAIL
    assert status(outcome, ItemId.WRITER_OFF) is Status.PRESENT
    assert status(outcome, ItemId.ALL_APPLIED) is Status.PRESENT
