"""The inventories and the selectors that the guides for Kubernetes show."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

import dbcheck
from dbcheck.inventory.load import load_inventory
from dbcheck.model.cluster import SiteKind
from dbcheck.power.kinds.fence import FenceConfig
from tests.kit.kubernetes.recorded import SOURCES, read_objects
from tests.kit.kubernetes.selectors import fits, parse_selector

ROOT = Path(dbcheck.__file__).resolve().parent.parent
GUIDE = (ROOT / "docs" / "guides" / "kubernetes.md").read_text()
BLOCKS = re.findall(r"^( *)```yaml\n(.*?)^ *```$", GUIDE, re.DOTALL | re.MULTILINE)
STATEFUL_SET, CLUSTER = (textwrap.dedent(block) for _, block in BLOCKS)
ROWS = re.findall(r"^\| ([^|]+) \| `([^`]+=[^`]+)` \| ([^|]+) \|$", GUIDE, re.MULTILINE)
# What is recorded -> what the table calls its operator.
NAMES = {
    "cloudnative_pg": "CloudNativePG",
    "zalando": "Zalando",
    "crunchy": "Crunchy",
    "percona_postgresql": "Percona for PostgreSQL",
    "percona_server": "Percona for MySQL",
    "percona_xtradb": "Percona XtraDB Cluster",
    "mariadb_operator": "mariadb-operator",
    "mysql_operator": "MySQL Operator",
}


def write(folder: Path, text: str) -> Path:
    (path := folder / "inventory.yml").write_text(text)
    return path


def test_the_inventory_of_a_stateful_set_has_its_nodes(tmp_path: Path) -> None:
    found = load_inventory(write(tmp_path, STATEFUL_SET))
    assert found.entry("orders").kubernetes is not None
    for name in ("worker-1", "worker-2"):
        assert found.machine(name).host == f"ssh://root@{name}"


def test_the_entry_of_a_cluster_is_one(tmp_path: Path) -> None:
    text = f"all:\n  hosts:\n{textwrap.indent(CLUSTER, '    ')}"
    entry = load_inventory(write(tmp_path, text)).entry("orders")
    assert entry.topology == SiteKind.STREAMING.value
    assert entry.promoted_by == "auto"


def test_the_inventory_of_the_manifests_has_a_switch_for_each_node(
    tmp_path: Path,
) -> None:
    text = (ROOT / "container" / "kubernetes" / "inventory.yml").read_text()
    found = load_inventory(write(tmp_path, text))
    entry = found.entry("orders")
    assert entry.kubernetes is not None and entry.witness_pods is not None
    assert entry.witness == "ssh://witness@dbcheck-witness:2222/~/acks/orders"
    assert found.others.keys() == {"node-1", "node-2", "node-3"}
    for name in found.others:
        assert isinstance(found.machine(name).power, FenceConfig)


def test_each_recorded_operator_is_in_the_table() -> None:
    assert NAMES.keys() == {name for name in SOURCES if "statefulset" not in name}
    for _, _, topologies in ROWS:
        for name in re.findall("`([^`]+)`", topologies):
            assert SiteKind(name).is_cluster


@pytest.mark.parametrize("recorded", NAMES)
def test_a_selector_of_the_table_finds_the_servers(recorded: str) -> None:
    (selector,) = [row[1] for row in ROWS if NAMES[recorded] in row[0]]
    wanted = parse_selector(selector.replace("NAME", "orders"))
    for pod in read_objects(recorded)["pods"]:
        assert fits(wanted, pod["metadata"]["labels"])
    others = parse_selector(selector.replace("NAME", "other"))
    for pod in read_objects(recorded)["pods"]:
        assert not fits(others, pod["metadata"]["labels"])
