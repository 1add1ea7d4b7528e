"""dbcheck power state of a host whose plug a person pulls."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from dbcheck.cli.power import command

INVENTORY = """
all:
  hosts:
    db1:
      dbcheck_target: postgresql+psycopg2://dbcheck@db1/dbcheck
      dbcheck_witness: ssh://me@witness/~/dbcheck
      dbcheck_power: manual
"""


def test_a_switch_that_is_a_person_is_not_shown_as_an_unknown_state(
    tmp_path: Path,
) -> None:
    (tmp_path / "inventory.yml").write_text(INVENTORY)
    words = ["state", "db1", "--inventory", str(tmp_path / "inventory.yml")]
    said = CliRunner().invoke(command, words, catch_exceptions=False).output
    assert "unknown" not in said and "look at the machine" in said
    shown = CliRunner().invoke(command, [*words, "--json"], catch_exceptions=False)
    assert json.loads(shown.output)["state"] == "unknown"
