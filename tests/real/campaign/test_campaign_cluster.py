"""dbcheck campaign GROUP: a cluster that is cut, rebuilt, and cut again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.kit.clusters import cluster_of, dbcheck, inventory_of

CLUSTER: dict[str, Any] = {
    "dbcheck_topology": "streaming",
    "dbcheck_survives": "writer-gone",
    "dbcheck_sessions": 4,
    "dbcheck_workload": "insert",
    "dbcheck_rebuilt_by": "command",
}
# Rewinds the lab NODE to the lab WRITER, and has commits there wait for it.
REBUILDS = """
import json, sys
from sqlalchemy.engine import make_url
from dbcheck.lab.clusters.replication import rejoin, run_statements
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import Source

names, node, writer = json.loads(sys.argv[1]), *sys.argv[2:]
lab, leads = Lab.find(names[node]), Lab.find(names[writer])
rejoin(lab, leads, Source(make_url(leads.target_url).port, leads.password, node))
others = ", ".join(name for name in names if name != writer)
wait = f"alter system set synchronous_standby_names = 'ANY 1 ({others})'"
run_statements(leads, (wait, "select pg_reload_conf()"))
"""


def test_the_writer_is_followed_from_cut_to_cut(tmp_path: Path) -> None:
    with cluster_of(tmp_path) as (cluster, _):
        labs = json.dumps({name: lab.name for name, lab in cluster.labs.items()})
        words = [sys.executable, "-c", REBUILDS, labs]
        given = {**CLUSTER, "dbcheck_rebuild": words}
        file = inventory_of(tmp_path, "pair", cluster, **given)
        done = dbcheck(
            *("campaign", "pair", "--cuts", 3, "--seed", 3, "--json"),
            *("--inventory", file, "--folder", tmp_path / "pair"),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(done.stdout)["targets"]
    assert result["name"] == "pair"
    nodes = [(cycle["writer"], cycle["reader"]) for cycle in result["cycles"]]
    assert nodes == [("node1", "node2"), ("node2", "node1"), ("node1", "node2")]
    assert all(cycle["verdict"] == "PASS" for cycle in result["cycles"])
