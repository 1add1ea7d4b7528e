"""Clusters of a lab as an inventory names them, with programs that rebuild a node."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dbcheck.lab.clusters.cluster import ClusterLab
from tests.kit.clusters import inventory_of

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
from dbcheck.lab.network import Source

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
# Gives a node of MySQL or MariaDB the writer's data, from its binary log: what an old
# writer alone has, as a commit that the cut caught, is gone.  The settings of both are
# in force after a restart, too.
COPIES = """
import os
from dbcheck.lab.clusters.rebuilding import lead
from dbcheck.lab.clusters.replication import follow, make_node_settings

def make_settings(number, is_writer):
    return make_node_settings(
        lab.spec.engine, number, [node], {}, is_writer=is_writer, cuts_all=True)

lead(leads, make_settings(leads.spec.settings["server_id"], True))
lab.reassign(make_settings(os.getpid(), False))
lab.copy(source)
follow(lab, source)
"""
REPLACED = {"postgresql": REWINDS + WAITS, "mysql": COPIES, "mariadb": COPIES}


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
