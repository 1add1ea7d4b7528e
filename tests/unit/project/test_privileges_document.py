"""docs/privileges.md shows what `dbcheck grants` prints: both come from one list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dbcheck.cli.grants import Server, list_statements
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
    return re.findall(r"```p?sql\n(.*?)```", re.split(r"\n##", text)[0], re.S)


def statements_in(text: str) -> list[str]:
    """Return the statements of a block, without the comments behind them."""
    lines = [re.sub(r" +-- .*", "", line) for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(("--", "\\"))]


@pytest.mark.parametrize("product", list(Product))
def test_the_block_begins_with_what_the_command_says_is_required(
    product: Product,
) -> None:
    result = list_statements(
        Server(product), load(WORKLOAD), control=False, required_only=True
    )
    (block,) = blocks_below(f"## {product}")
    required, *_ = re.split("^-- (?:REQUIRED|OPTIONAL)", block, flags=re.M)
    assert statements_in(required) == [
        *result.create,
        *(right.statement for right in result.rights),
    ]


@pytest.mark.parametrize("product", list(Product))
def test_a_block_has_each_right_that_any_workload_can_need(product: Product) -> None:
    """But for those on the tables, which the table at the top has by workload."""
    name = product.lower()
    wanted = {
        *statements(name, workload=WORKLOAD),
        *statements(name, optional=True, workload=WORKLOAD),
    }
    on_tables = re.compile(r"grant select, insert, .*create, drop on dbcheck\.\*")
    (block,) = blocks_below(f"## {product}")
    shown = statements_in(block)
    assert len(set(shown)) == len(shown)
    assert {each for each in wanted if not on_tables.match(each)} == {
        each for each in shown if not on_tables.match(each)
    }


@pytest.mark.parametrize("product", [Product.MYSQL, Product.MARIADB])
def test_a_block_says_what_the_control_and_two_phase_require(product: Product) -> None:
    (block,) = blocks_below(f"## {product}")
    optional = block.split("-- OPTIONAL")[1]
    always, also = (
        {right.statement for right in result.rights}
        for result in (
            list_statements(
                Server(product), load(name), control=control, required_only=True
            )
            for name, control in ((WORKLOAD, False), ("two-phase", True))
        )
    )
    extra = {each for each in also - always if "create, drop" not in each}
    shown = block.split("-- OPTIONAL")[0]
    assert extra
    assert extra <= set(statements_in(shown))
    assert not extra & set(statements_in(optional))


@pytest.mark.parametrize("name", list(CLUSTERS))
def test_a_section_has_the_rights_of_a_cluster(name: str) -> None:
    shown = statements_in("".join(blocks_below(f"### {TITLES[name]}")))
    assert set(shown) == set(of_a_cluster(name, cut=True))


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
