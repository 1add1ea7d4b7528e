"""A consent that is given once reaches every campaign that it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.campaign.folder import CampaignFolder, Plan
from dbcheck.cli import FAILED, USAGE, campaign_run
from dbcheck.workload import load

INVENTORY = """\
all:
  hosts:
    h:
      ansible_connection: local
      dbcheck_ask_host: false
      dbcheck_target: postgresql+psycopg2://u@127.0.0.1:1/d
      dbcheck_wait_s: 0.01
      dbcheck_witness: file:{folder}/acks
      dbcheck_power: exec
      dbcheck_power_cut: ["true"]
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Know of no consent yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("yes", [True, False])
def test_a_yes_reaches_the_process_of_each_campaign(yes: bool, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(INVENTORY.format(folder=tmp_path))
    target = "postgresql+psycopg2://u@127.0.0.1:1/d"
    plan = ("t", "0", "h", target, 1, load("insert"), 3, 9, None, False, False)
    folder = CampaignFolder.create(tmp_path / "campaign", Plan(*plan))
    child = campaign_run._started(folder, inventory, yes=yes)
    try:
        assert child.process.wait(60) == (FAILED if yes else USAGE)
    finally:
        child.process.kill()
        child.process.wait()
    assert ("nothing was cut" in child.log.read_text()) is not yes
