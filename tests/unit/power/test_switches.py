"""The recipes of switches: what each says, and the document that is made from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.root import root
from dbcheck.config import files
from dbcheck.inventory.load import make_inventory
from dbcheck.model.cut import CutClass
from dbcheck.power.kinds.exec import ExecConfig
from tests.kit.inventories import hosts
from tests.kit.refusals import refused
from tools.docs import switches as document

NAMES = files.list_switch_names()
# What the requirement names, each with the recipe that it has here.
WANTED = {
    *("labgrid", "uhubctl", "quarch", "ykush", "shelly", "tasmota", "redfish", "ipmi"),
    *("libvirt", "proxmox", "aws", "azure", "gcloud", "pdudaemon"),
}


def test_the_document_is_made_from_the_recipes() -> None:
    """Write it anew with: python -m tools.docs.switches."""
    assert document.FILE.read_text("utf-8") == document.text()


def test_each_switch_has_a_recipe() -> None:
    assert set(NAMES) == WANTED


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_says_what_belongs_in_it(name: str) -> None:
    text = files.read_switch_recipe(name)
    found = document.recipe(name)
    assert re.match(r"# \w[\w ]*: \w", text)
    assert tuple(found.parts) == document.PARTS
    assert found.shown in document.SHOWN
    assert all(len(part.split()) >= 3 for part in found.parts.values())
    assert max(map(len, text.splitlines())) <= 94


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_names_its_class(name: str) -> None:
    plan = document.recipe(name).plan
    assert plan.cut_class is not CutClass.UNKNOWN
    if isinstance(plan, ExecConfig):
        assert plan.declared is plan.cut_class
        # What is off until it is switched on again can be seen to be off.
        assert bool(plan.state) is bool(plan.restore)
        assert bool(plan.restore) is (plan.cut_class is not CutClass.RESET)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_whose_state_is_translated_does_not_load_without_one(
    name: str, tmp_path: Path
) -> None:
    """Above all that of pdudaemon, which answers as if it had switched."""
    plan = document.recipe(name).plan
    if not isinstance(plan, ExecConfig) or not plan.state_on:
        assert name in ("gcloud", "labgrid", "ipmi", "redfish")
        return
    variables = hosts(files.make_switch_inventory(name))
    del variables[document.HOST]["dbcheck_power_state"]
    with refused(
        ErrorId.POWER_STATE_PATTERN_INVALID,
        UsageError,
        naming="is given without a state program",
    ):
        make_inventory(tmp_path / "hosts.yml", variables).entry(document.HOST)


def test_init_writes_the_inventory_of_a_switch(tmp_path: Path) -> None:
    path = tmp_path / "switch.yml"
    done = CliRunner().invoke(root, ["init", str(path), "--switch", "ykush"])
    assert done.exit_code == 0, done.output
    assert path.read_text("utf-8") == files.make_switch_inventory("ykush")
    for line in files.read_switch_recipe("ykush").splitlines():
        assert line in path.read_text("utf-8")


def test_an_unknown_switch_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "switch.yml"
    done = CliRunner().invoke(root, ["init", str(path), "--switch", "kasa"])
    assert done.exit_code == 2
    assert all(f"'{name}'" in done.output for name in NAMES)
    assert not path.exists()
