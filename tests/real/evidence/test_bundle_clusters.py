"""A bundle of a real cluster whose nodes are called like hosts, for others to check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from tests.kit.bundles import contents
from tests.kit.clusters import cluster_of, dbcheck, inventory_of

LACKING = list_missing(LabSpec("postgresql", cut="process"))
pytestmark = [
    pytest.mark.skipif(bool(LACKING), reason="; ".join(LACKING)),
    pytest.mark.wide,
]
NAMES = {"node1": "berlin-pg1", "node2": "paris-pg2"}


def test_a_redacted_bundle_of_a_cluster_verifies_and_names_no_node(
    tmp_path: Path,
) -> None:
    with cluster_of(tmp_path) as (cluster, _):
        given = {"dbcheck_topology": "streaming", "dbcheck_writer": NAMES["node1"]}
        file = inventory_of(tmp_path, "pair", cluster, **given)
        written = json.loads(file.read_text())
        group = written["all"]["children"]["pair"]
        group["hosts"] = {NAMES[name]: host for name, host in group["hosts"].items()}
        file.write_text(json.dumps(written))
        words = ("run", "pair", "--inventory", file, "--json", "--seed", 3)
        done = dbcheck(*words, "--runs", tmp_path / "runs")
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs" / json.loads(done.stdout)["run"]
    assert "berlin-pg1" in (run / "manifest.json").read_text()
    made = dbcheck("bundle", run, "--redact", "-o", tmp_path / "b.tar")
    assert made.returncode == 0, made.stderr
    found = dbcheck("verify", tmp_path / "b.tar", "--json")
    assert found.returncode == 0, found.stdout + found.stderr
    shown = json.loads(found.stdout)
    assert (shown["verdict"], shown["same"]) == ("PASS", True)
    for name, content in contents(tmp_path / "b.tar"):
        text = (name.encode() + content).lower()
        assert not any(one.encode() in text for one in NAMES.values()), name
