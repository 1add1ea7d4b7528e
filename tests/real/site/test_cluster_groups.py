"""Groups that decide by majority, of Galera and of Group Replication.

What a majority keeps once the writer is gone, and what a cut of all nodes leaves.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.judge.diagnosis import Cause
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cluster import Promise
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import Verdict
from dbcheck.rows.loss import LossKind
from dbcheck.site.group import Group
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of
from tests.kit.clusters import (
    GROUPS,
    WORKLOAD,
    await_end_of,
    client_of,
    cycle,
    dbcheck,
    group_of,
    inventory_of,
    status,
)
from tests.kit.lab_access import execute_on
from tests.kit.waiting import wait_until

FLUSH = "innodb_flush_log_at_trx_commit"
AT_DRIVE = pytest.mark.root
TOPOLOGIES = pytest.mark.parametrize("topology", sorted(GROUPS))
# With these a session changes the rows of its own node alone.
ALONE = {
    "galera": ["set wsrep_on = 0", "set sql_log_bin = 0"],
    "group-replication": ["set global super_read_only = off", "set sql_log_bin = 0"],
}


@pytest.mark.wide
@TOPOLOGIES
def test_commits_survive_the_loss_of_the_writer(tmp_path: Path, topology: str) -> None:
    with group_of(topology, tmp_path) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    name = outcome.after.reader_name
    assert name in ("node2", "node3")
    for item in (
        *(ItemId.IN_SYNC, ItemId.WRITER_OFF, ItemId.PROMOTED),
        *(ItemId.ALL_APPLIED, ItemId.AGREE),
    ):
        assert status(outcome, item) is Status.PRESENT, item
    nodes = outcome.run.manifest().nodes
    others = tuple(sorted(nodes[each].member for each in ("node2", "node3")))
    promotion = outcome.after.promotion
    assert promotion is not None
    assert promotion.received[name].members == others
    seen = outcome.load.replication if outcome.load else None
    assert seen is not None
    assert seen.awaited() == others
    # A stored run, and its bundle, are judged the same.
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement
    assert bundle_of(outcome.run.path, tmp_path / "b.tar.gz").verdict is Verdict.PASS


def test_nodes_of_galera_come_back_from_a_cut_of_all(tmp_path: Path) -> None:
    """Each finds out first how far it was, while the lab keeps its port."""
    with group_of("galera", tmp_path, Promise.ALL) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons


@pytest.mark.wide
@AT_DRIVE
@TOPOLOGIES
def test_a_group_that_lost_its_power_has_every_commit(
    tmp_path: Path, topology: str
) -> None:
    with group_of(topology, tmp_path, Promise.ALL, DriveSpec()) as (_, rig):
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert outcome.after.reader_name == "node1"
    # The least that was seen of the three drives.
    assert outcome.result.shown_depth in (Depth.OS, Depth.DRIVE)
    for item in (ItemId.NODES_CUT, ItemId.MEMBERS, ItemId.AGREE):
        assert status(outcome, item) is Status.PRESENT, item
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement


@pytest.mark.wide
def test_nodes_that_are_cut_one_after_the_other_come_back(tmp_path: Path) -> None:
    """The first one's view of the group is then another than the last one's."""
    with group_of("group-replication", tmp_path, Promise.ALL) as (_, rig):
        kind, nodes = rig.site.kind, rig.site.nodes
        site = Group(kind, nodes, "node1", Promise.ALL, bootstrap=True, stagger_s=3.0)
        outcome = cycle(replace(rig, site=site))
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    assert "one after the other within 3 s" in outcome.judgement.reasons[0]
    load = outcome.load
    assert load is not None
    went = {
        name: node.cut.exact_us or 0 for name, node in load.nodes.items() if node.cut
    }
    first, second, third = sorted(went, key=lambda name: went[name])
    assert first == "node1"
    assert went[third] - went[first] > 2_000_000  # less what the first cut took
    assert went[first] < went[second] <= went[third]


@pytest.mark.wide
@AT_DRIVE
@TOPOLOGIES
@pytest.mark.parametrize("value", ["0", "2"])
def test_a_group_that_flushes_once_a_second_loses(
    tmp_path: Path, topology: str, value: str
) -> None:
    """A cut may come just after a flush, so it is made several times."""
    relaxed: Any = {FLUSH: value}
    for number in range(4):
        folder = tmp_path / str(number)
        made = group_of(topology, folder, Promise.ALL, DriveSpec(), **relaxed)
        with made as (_, rig):
            outcome = cycle(rig)
        if outcome.verdict is Verdict.FAIL:
            break
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert status(outcome, ItemId.MEMBERS) is Status.PRESENT
    assert outcome.result.diagnosis[0].cause is Cause.SETTING
    assert f"{FLUSH} = {value}" in str(outcome.result.diagnosis[0])


@pytest.mark.wide
@TOPOLOGIES
@pytest.mark.parametrize("promise", [Promise.WRITER_GONE, Promise.ALL])
def test_a_member_that_lacks_a_row_is_found(
    tmp_path: Path, topology: str, promise: Promise
) -> None:
    """It is no longer what the others are, although it has applied all."""
    with group_of(topology, tmp_path, promise) as (cluster, rig):
        started = run_preflight(rig, WORKLOAD, seed=1)
        epoch = started.run.manifest().epoch
        site: Any = rig.site
        looked = site.promotion

        def without_a_row() -> Any:
            """Remove one from a node alone, before it is compared."""
            name = "node3" if site.reader_name != "node3" else "node2"
            remove = f"delete from dbcheck.ledger where epoch = {epoch}"
            execute_on(
                cluster.labs[name], *ALONE[topology], f"{remove} order by id limit 1"
            )
            return looked()

        site.promotion = without_a_row
        outcome = finish_cycle(rig, started)
    assert outcome.verdict is Verdict.FAIL, outcome.judgement.reasons
    assert outcome.result.losses == {LossKind.DIVERGED.value: 1}
    assert "differ in 1 row, although" in outcome.judgement.reasons[0]
    assert status(outcome, ItemId.AGREE) is Status.CONTRADICTED
    assert "\ndiverged," in (outcome.run.path / "losses.csv").read_text()
    again = judge_run(outcome.run, FrameLogReader())
    assert again.judgement == outcome.judgement


@pytest.mark.wide
@TOPOLOGIES
def test_a_group_of_an_inventory_is_cut_as_one_cluster(
    tmp_path: Path, topology: str
) -> None:
    with group_of(topology, tmp_path, Promise.ALL) as (cluster, _):
        given = {"dbcheck_topology": topology, "dbcheck_survives": "all"}
        file = inventory_of(tmp_path, "three", cluster, **given)
        words = ("run", "three", "--inventory", file, "--json")
        done = dbcheck(*words, "--runs", tmp_path / "runs", "--seed", 3)
    result = json.loads(done.stdout)
    assert done.returncode == 0, result["reasons"]
    assert result["cluster"]["promise"] == "all"
    assert result["cluster"]["read"] == "node1"


@pytest.mark.wide_with("galera")
@TOPOLOGIES
def test_a_lab_runs_it_from_the_command_line(tmp_path: Path, topology: str) -> None:
    words = f"lab run --engine {GROUPS[topology]} --topology {topology} --nodes 3"
    words += " --promise all --cut process"
    done = dbcheck(*words.split(), "--runs", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (cycle_of_it,) = json.loads(done.stdout)["cycles"]
    assert cycle_of_it["cluster"]["standbys"] == ["node2", "node3"]


_CLIENT = """
import sys
from pathlib import Path
from tests.kit.clusters import group_of

with group_of("%s", Path(sys.argv[1])) as (cluster, rig):
    print(*(lab.name for lab in cluster.labs.values()), flush=True)
    sys.stdin.read()
"""


@pytest.mark.wide
@pytest.mark.parametrize(
    ("topology", "number"),
    [
        ("galera", signal.SIGKILL),
        ("galera", signal.SIGINT),
        ("group-replication", signal.SIGKILL),
    ],
)
def test_nothing_is_left_of_a_group_whose_client_ends(
    tmp_path: Path, topology: str, number: signal.Signals
) -> None:
    with client_of(_CLIENT % topology, tmp_path) as (client, names):
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
