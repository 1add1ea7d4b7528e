"""What dbcheck demo says that it would run."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dbcheck.cli import PASS
from dbcheck.cli.demo import command


@pytest.mark.parametrize(("cut", "only_killed"), [("process", True), ("drive", False)])
def test_a_pass_of_a_killed_process_is_named_so(cut: str, only_killed: bool) -> None:
    done = CliRunner().invoke(command, ["--list", "--cut", cut])
    assert done.exit_code == PASS
    passed = [line for line in done.output.splitlines() if "  PASS" in line]
    assert passed
    assert all(line.endswith("PASS (kill only)") is only_killed for line in passed)
