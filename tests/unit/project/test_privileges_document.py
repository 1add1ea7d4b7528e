"""docs/privileges.md shows what `dbcheck grants` prints: both come from one list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dbcheck.cli.grants import Server, draw_statements, list_statements
from dbcheck.config.files import list_workload_names
from dbcheck.config.workload_file import load
from dbcheck.rows.plans.registry import usage_of
from dbcheck.runner.campaign_plan import WORKLOAD
from dbcheck.server_log import Product
from tests.kit.accounts import CLUSTERS, of_a_cluster, statements

DOCUMENT = Path(__file__).parents[3] / "docs" / "privileges.md"
TITLES = {
    "postgresql": "Streaming replication of PostgreSQL",
    "mysql": "Replication of MySQL",
    "mariadb": "Replication of MariaDB",
    "galera": "MariaDB Galera Cluster",
    "group-replication": "MySQL Group Replication",
}


def blocks_below(heading: str) -> list[str]:
    """Return the blocks of SQL of a section, down to the next heading."""
    _, text = DOCUMENT.read_text("utf-8").split(f"\n{heading}\n")
    return re.findall(r"```sql\n(.*?)```", re.split(r"\n##", text)[0], re.S)


def statements_in(blocks: list[str]) -> set[str]:
    lines = "".join(blocks).splitlines()
    return {line for line in lines if line and not line.startswith(("--", "\\"))}


@pytest.mark.parametrize("product", list(Product))
def test_the_first_block_is_what_the_command_prints(product: Product) -> None:
    result = list_statements(Server(product), load(WORKLOAD), control=False)
    first, *_ = blocks_below(f"## {product}")
    assert first.splitlines() == list(draw_statements(result))


@pytest.mark.parametrize("product", list(Product))
def test_a_section_has_each_right_that_any_workload_can_need(product: Product) -> None:
    """But for those on the tables, which the table at the top has by workload."""
    name = product.lower()
    wanted = {
        *statements(name, workload=WORKLOAD),
        *statements(name, optional=True, workload=WORKLOAD),
    }
    on_tables = re.compile(r"grant select, insert, .*create, drop on dbcheck\.\*")
    shown = statements_in(blocks_below(f"## {product}"))
    assert {each for each in wanted if not on_tables.match(each)} == {
        each for each in shown if not on_tables.match(each)
    }


@pytest.mark.parametrize("name", list(CLUSTERS))
def test_a_section_has_the_rights_of_a_cluster(name: str) -> None:
    shown = statements_in(blocks_below(f"### {TITLES[name]}"))
    assert shown == set(of_a_cluster(name, cut=True))


def test_the_table_has_each_workload_with_what_it_requires() -> None:
    text = DOCUMENT.read_text("utf-8").split("\n## What each workload needs\n")[1]
    rows = re.findall(r"^\| (`.+?) \| (.+?) \| (.+?) \|$", text, re.M)
    shown = {
        workload: (cell.split(";")[0].replace(" ", ""), "XA_RECOVER_ADMIN" in cell)
        for names, _, cell in rows
        for workload in re.findall(r"`([a-z-]+)`", names)
    }
    assert shown == {
        name: (
            ",".join(("SELECT", *(verb.name for verb in usage.all_verbs)))
            + ",CREATE,DROP",
            usage.prepares,
        )
        for name in list_workload_names()
        if (usage := usage_of(load(name)))
    }
