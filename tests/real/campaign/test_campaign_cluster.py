"""dbcheck campaign GROUP: a cluster that is cut, rebuilt, and cut again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbcheck.campaign.folder import CampaignFolder
from dbcheck.lab.clusters.cluster import ClusterLab
from tests.kit.clusters import cluster_of, dbcheck, inventory_of

CLUSTER: dict[str, Any] = {
    "dbcheck_survives": "writer-gone",
    "dbcheck_sessions": 4,
    "dbcheck_workload": "insert",
    "dbcheck_rebuilt_by": "command",
}
TOPOLOGIES = {"postgresql": "streaming", "mysql": "semi-sync", "mariadb": "semi-sync"}
# Makes the lab NODE follow the lab WRITER.
FOLLOWS = """
import json, sys
from sqlalchemy.engine import make_url
from dbcheck.lab.clusters.replication import rejoin, run_statements
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import Source

names, node, writer = json.loads(sys.argv[1]), *sys.argv[2:]
lab, leads = Lab.find(names[node]), Lab.find(names[writer])
source = Source(make_url(leads.target_url).port, leads.password, node)
"""
REWINDS = "rejoin(lab, leads, source)\n"
# Has commits on the new writer of PostgreSQL wait for the other nodes.
WAITS = """
others = ", ".join(name for name in names if name != writer)
wait = f"alter system set synchronous_standby_names = 'ANY 1 ({others})'"
run_statements(leads, (wait, "select pg_reload_conf()"))
"""
# Has commits on the new writer of MySQL wait for a replica, and the other be one.
WAITS_MYSQL = """
run_statements(leads, (
    "set global rpl_semi_sync_source_enabled = on",
    "set global rpl_semi_sync_source_timeout = 4294967295"))
run_statements(lab, (
    "set global rpl_semi_sync_source_enabled = off",
    "set global rpl_semi_sync_replica_enabled = on"))
"""
# Gives the old writer of MySQL a row that no other node has.
ADDS = """
run_statements(lab, ("set global super_read_only = off", "set global read_only = off"))
ledger = make_url(lab.target_url).database + ".ledger"
run_statements(lab, (
    f"insert into {ledger} (epoch, session, seq, part, payload, checksum)"
    " select epoch, session, seq + 1000000, part, payload, checksum"
    f" from {ledger} limit 1",))
"""


def write_inventory(
    folder: Path, cluster: ClusterLab, program: str, wait_s: int = 60, **given: object
) -> Path:
    """Return an inventory whose group pair is rebuilt by *program*."""
    labs = json.dumps({name: lab.name for name, lab in cluster.labs.items()})
    words = [sys.executable, "-c", FOLLOWS + program, labs]
    topology = TOPOLOGIES[cluster.lab.engine]
    made = {**CLUSTER, "dbcheck_topology": topology, "dbcheck_rebuild": words, **given}
    file = inventory_of(folder, "pair", cluster, **made)
    inventory = json.loads(file.read_text())
    for host in inventory["all"]["children"]["pair"]["hosts"].values():
        host["dbcheck_wait_s"] = wait_s
    file.write_text(json.dumps(inventory))
    return file


def campaign(file: Path, folder: Path, cuts: int) -> subprocess.CompletedProcess[str]:
    return dbcheck(
        *("campaign", "pair", "--cuts", cuts, "--seed", 3, "--json"),
        *("--inventory", file, "--folder", folder),
    )


def list_nodes(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    """Return the writer and the reader of each cycle, all of which passed."""
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(done.stdout)["targets"]
    assert result["name"] == "pair"
    assert {cycle["verdict"] for cycle in result["cycles"]} == {"PASS"}
    return [(cycle["writer"], cycle["reader"]) for cycle in result["cycles"]]


def test_the_writer_is_followed_from_cut_to_cut(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (cluster, _):
        file = write_inventory(tmp_path, cluster, REWINDS + WAITS)
        done = campaign(file, tmp_path / "pair", 3)
        nodes = list_nodes(done)
        assert nodes == [("node1", "node2"), ("node2", "node1"), ("node1", "node2")]
        # A later campaign begins with the node that takes writes now.
        done = campaign(file, tmp_path / "later", 1)
    assert list_nodes(done) == [("node2", "node1")]


@pytest.mark.parametrize(
    ("engine", "program", "why"),
    [
        ("postgresql", "sys.exit('no room')", "ended with 1; its output: no room"),
        ("postgresql", "", r"node1 \(.*\) follows no other server"),
        ("postgresql", REWINDS, "no commit on node2 waits for a standby"),
        (
            "mysql",
            ADDS + WAITS_MYSQL + REWINDS,
            "node1 has .* rows in ledger, and node2 has",
        ),
    ],
)
def test_no_cut_follows_until_the_cluster_is_whole(
    tmp_path: Path, engine: str, program: str, why: str
) -> None:
    folder = tmp_path / "pair"
    with cluster_of(tmp_path, engine=engine) as (cluster, _):
        file = write_inventory(tmp_path, cluster, program, wait_s=15)
        done = campaign(file, folder, 2)
        assert done.returncode == 4, done.stdout + done.stderr
        assert re.search(why, done.stderr.replace("\n", " ")), done.stderr
        assert len(CampaignFolder.open(folder).cycles()) == 1
        if "no room" not in program:
            return
        write_inventory(tmp_path, cluster, REWINDS + WAITS)
        done = dbcheck("campaign", "--resume", folder, "--json")
    assert list_nodes(done) == [("node1", "node2"), ("node2", "node1")]
