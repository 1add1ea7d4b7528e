"""The account of docs/privileges.md is enough for a cluster."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from dbcheck.engines.registry import open_engine
from dbcheck.lab.lab import Lab
from dbcheck.model.cluster import Promise
from dbcheck.model.verdict import Verdict
from dbcheck.site.cluster import Cluster
from dbcheck.site.group import Group
from tests.kit.accounts import ACCOUNT, CLUSTERS, connect_to, of_a_cluster, statements
from tests.kit.clusters import GROUPS, cluster_of, cycle
from tests.kit.servers import skip_without_server

PASSWORD = "only-of-this-test"


def run(lab: Lab, name: str, words: Sequence[str]) -> None:
    """Make the account on the writer, under a name of its own."""
    url = make_url(lab.target_url)
    for statement in words:
        text = statement.replace("CHANGE-ME", PASSWORD)
        text = re.sub(r"\bdbcheck@'%'", f"{ACCOUNT}@'%'", text)
        text = re.sub(r"(to|role) dbcheck\b", rf"\1 {ACCOUNT}", text)
        text = text.replace("create database", "create database if not exists")
        if name == "postgresql":
            text = text.replace(" if not exists", "")
        database = "dbcheck" if "function" in text else url.database
        link = connect_to(lab.target_url, lab.password, database or "")
        with contextlib.closing(link):
            link.cursor().execute(text)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("engine", "promise"),
    [
        *((engine, Promise.WRITER_GONE) for engine in sorted(CLUSTERS)),
        ("group-replication", Promise.ALL),  # the account forms it again
    ],
)
def test_the_documented_account_is_enough_for_a_cluster(
    tmp_path: Path, engine: str, promise: Promise
) -> None:
    server = GROUPS.get(engine, engine)
    skip_without_server(server)
    given: Any = {"nodes": 3, "topology": engine} if engine in GROUPS else {}
    with cluster_of(tmp_path, engine=server, promise=promise, **given) as made:
        cluster, rig = made
        words = of_a_cluster(engine, cut=promise.cuts_all)
        run(cluster.labs["node1"], server, [*statements(server), *words])
        site = rig.site
        nodes = {}
        for name, node in site.nodes.items():
            url = make_url(node.engine.target).set(username=ACCOUNT, database="dbcheck")
            own = open_engine(url.render_as_string(), PASSWORD)
            nodes[name] = replace(node, engine=own, host=None)
        kind, writer = site.kind, site.writer_name
        if kind.is_group:
            limited: Cluster = Group(kind, nodes, writer, promise, bootstrap=True)
        else:
            limited = Cluster(kind, nodes, writer, promise, brings_back=True)
        outcome = cycle(replace(rig, site=limited))
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
