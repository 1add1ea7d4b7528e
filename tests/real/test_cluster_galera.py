"""Clusters of MariaDB Galera: what a majority keeps, and what a cut of all nodes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.campaign.judging import judge_run
from dbcheck.campaign.preflight import preflight
from dbcheck.cli.lab import as_host
from dbcheck.core.depth import Depth
from dbcheck.core.promise import Promise
from dbcheck.core.verdict import Verdict
from dbcheck.errors import EngineError
from dbcheck.judge.diagnosis import Cause
from dbcheck.judge.item import ItemId, Standing
from dbcheck.lab.spec import DriveSpec
from dbcheck.ports.site import Node
from dbcheck.site.group import Group
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of
from tests.kit.clusters import (
    WORKLOAD,
    await_end_of,
    client_of,
    cycle,
    galera,
    standing,
)
from tests.kit.waiting import wait_until

FLUSH = "innodb_flush_log_at_trx_commit"
AT_DRIVE = pytest.mark.root


def test_commits_survive_the_loss_of_the_writer(tmp_path: Path) -> None:
    with galera(tmp_path) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    name = outcome.after.reader_name
    assert name in ("node2", "node3")
    items = (ItemId.IN_SYNC, ItemId.WRITER_OFF, ItemId.PROMOTED, ItemId.ALL_APPLIED)
    assert {standing(outcome, item) for item in items} == {Standing.PRESENT}
    promotion = outcome.after.promotion
    assert promotion is not None
    assert promotion.received[name].members == ("node2", "node3")
    seen = outcome.load.replication if outcome.load else None
    assert seen is not None
    assert seen.awaited == ("node2", "node3")
    # A stored run, and its bundle, are judged the same.
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement
    assert bundle_of(outcome.run.path, tmp_path / "b.tar.gz").verdict is Verdict.PASS


class Hasty(Group):
    """Reads a node that still counts the writer among its members."""

    def _without_writer(self) -> str:
        received, _ = self._asked_for("node2")
        return "node2" if received else ""


def test_a_node_that_still_counts_the_writer_proves_nothing(tmp_path: Path) -> None:
    patient: Any = {
        "wsrep_provider_options": "evs.suspect_timeout=PT30S;evs.inactive_timeout=PT1M"
    }
    with galera(tmp_path, **patient) as (_, rig):
        site = rig.site
        hasty = Hasty(site.kind, site.nodes, "node1", Promise.WRITER_GONE)
        outcome = cycle(replace(rig, site=hasty))
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert standing(outcome, ItemId.PROMOTED) is Standing.NOT_OBSERVABLE
    assert "node2 still counted node1 as a member" in str(outcome.judgement)


@AT_DRIVE
def test_a_cluster_that_lost_its_power_has_every_commit(tmp_path: Path) -> None:
    with galera(tmp_path, Promise.ALL, DriveSpec()) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.after.reader_name == "node1"
    # The least that was seen of the three drives.
    assert outcome.result.shown_depth in (Depth.OS, Depth.DRIVE)
    items = (ItemId.NODES_CUT, ItemId.MEMBERS)
    assert {standing(outcome, item) for item in items} == {Standing.PRESENT}
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement


@AT_DRIVE
@pytest.mark.parametrize("value", ["0", "2"])
def test_a_cluster_that_flushes_once_a_second_loses(tmp_path: Path, value: str) -> None:
    """A cut may come just after a flush, so it is made several times."""
    for number in range(4):
        folder = tmp_path / str(number)
        relaxed: Any = {FLUSH: value}
        with galera(folder, Promise.ALL, DriveSpec(), **relaxed) as (_, rig):
            outcome = cycle(rig)
        if outcome.verdict is Verdict.FAIL:
            break
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert standing(outcome, ItemId.MEMBERS) is Standing.PRESENT
    assert outcome.result.diagnosis[0].cause is Cause.SETTING
    assert f"{FLUSH} = {value}" in str(outcome.result.diagnosis[0])


def test_a_group_that_is_not_the_whole_cluster_is_refused(tmp_path: Path) -> None:
    """So is one with a node that is down."""
    with galera(tmp_path, nodes=4) as (cluster, rig):
        site: Any = rig.site
        known = {name: site.nodes[name] for name in ("node1", "node2", "node3")}
        part = replace(rig, site=Group(site.kind, known, "node1", Promise.WRITER_GONE))
        with pytest.raises(EngineError, match="may wait for node4, which is not one"):
            preflight(part, WORKLOAD, seed=1)
        cluster.labs["node4"].switch().cut()
        wait_until(lambda: _members(site.nodes["node1"]) == 3, "the view without it")
        with pytest.raises(EngineError, match="Can't connect"):
            preflight(rig, WORKLOAD, seed=1)


def _members(node: Node) -> int:
    engine: Any = node.engine
    return len(engine.received().members)


def test_a_group_of_an_inventory_is_cut_as_one_cluster(tmp_path: Path) -> None:
    with galera(tmp_path, Promise.ALL) as (cluster, _):
        hosts = {name: as_host(lab) for name, lab in cluster.labs.items()}
        given = {
            "dbcheck_topology": "galera",
            "dbcheck_writer": "node1",
            "dbcheck_survives": "all",
        }
        group = {"hosts": hosts, "vars": given}
        file = tmp_path / "inventory.yml"
        file.write_text(json.dumps({"all": {"children": {"galera": group}}}))
        file.chmod(0o600)
        words = ["run", "galera", "--inventory", str(file), "--json"]
        done = dbcheck(*words, "--runs", str(tmp_path / "runs"), "--seed", "3")
    result = json.loads(done.stdout)
    assert done.returncode == 0, result["reasons"]
    assert result["cluster"]["promise"] == "all"
    assert result["cluster"]["read"] == "node1"


def test_a_lab_runs_it_from_the_command_line(tmp_path: Path) -> None:
    words = "lab run --engine mariadb --topology galera --nodes 3 --rung process"
    done = dbcheck(*words.split(), "--runs", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (cycle_of_it,) = json.loads(done.stdout)["cycles"]
    assert cycle_of_it["cluster"]["standbys"] == ["node2", "node3"]


def dbcheck(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dbcheck", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


_CLIENT = """
import sys
from pathlib import Path
from tests.kit.clusters import galera

with galera(Path(sys.argv[1])) as (cluster, rig):
    print(*(lab.name for lab in cluster.labs.values()), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_cluster_whose_client_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    with client_of(_CLIENT, tmp_path) as (client, names):
        assert len(names) == 3
        assert len(_commands_with(str(tmp_path))) > 3  # the client, and the servers
        os.kill(client.pid, number)
    await_end_of(names)
    wait_until(lambda: not _commands_with(str(tmp_path)), "the end of all processes")


def _commands_with(text: str) -> list[str]:
    """Return the command lines of the processes that name *text*."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(file.read_text("utf-8", "replace"))
    return [each for each in found if text in each]
