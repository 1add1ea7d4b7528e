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
# Has commits on the new writer of MySQL wait for a replica, and the other be one.
WAITS_MYSQL = """
run_statements(leads, (
    "set global rpl_semi_sync_source_enabled = on",
    "set global rpl_semi_sync_source_timeout = 4294967295"))
run_statements(lab, (
    "set global rpl_semi_sync_source_enabled = off",
    "set global rpl_semi_sync_replica_enabled = on"))
"""
# Removes the rows that the new writer of MySQL or MariaDB lacks, in no binary log.
FORGETS = """
from contextlib import closing
import mysql.connector

def open_root(lab):
    url = make_url(lab.target_url)
    return closing(mysql.connector.connect(
        host=url.host, port=url.port, user=url.username, password=lab.password,
        database=url.database, autocommit=True))

with open_root(leads) as link, closing(link.cursor()) as cursor:
    cursor.execute("select id from ledger")
    kept = [row_id for (row_id,) in cursor.fetchall()]
with open_root(lab) as link, closing(link.cursor()) as cursor:
    cursor.execute("set session sql_log_bin = 0")
    cursor.execute(f"delete from ledger where id not in ({', '.join(map(str, kept))})")
"""
# Has commits on the new writer of MariaDB wait for a replica, and the other be one.
WAITS_MARIADB = """
run_statements(leads, (
    "set global rpl_semi_sync_master_enabled = on",
    "set global rpl_semi_sync_master_timeout = 18446744073709551615"))
run_statements(lab, (
    "set global rpl_semi_sync_master_enabled = off",
    "set global rpl_semi_sync_slave_enabled = on"))
"""
# Gives a node of MySQL or MariaDB the writer's data, from its binary log.
COPIES = """
import os
from dbcheck.lab.clusters.replication import follow
lab.reassign({**lab.spec.settings, "server_id": str(os.getpid())})
lab.copy(source)
"""
REPLACED = {
    "postgresql": REWINDS + WAITS,
    "mysql": FORGETS + WAITS_MYSQL + REWINDS,
    "mariadb": FORGETS + WAITS_MARIADB + REWINDS,
}


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
