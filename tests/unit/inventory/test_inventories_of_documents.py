"""Each whole inventory that a document shows is one that dbcheck reads."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from tests.kit.inventories import hosts, loaded
from tests.kit.refusals import refused

ROOT = Path(__file__).parents[3]
SHOWN = [
    pytest.param(found[0], id=f"{path.name}:{text[: found.start()].count(chr(10)) + 1}")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for text in [path.read_text("utf-8")]
    for found in re.finditer(r"(?m)^    all:\n(?:(?:^     .*)?\n)+", text)
]


@pytest.mark.parametrize("shown", SHOWN)
def test_an_inventory_of_a_document_is_read(shown: str, tmp_path: Path) -> None:
    text = textwrap.dedent(shown)
    inventory = loaded(tmp_path, text)
    assert [inventory.entry(name).name for name in hosts(text)]


def test_a_variable_that_does_not_exist_is_found(tmp_path: Path) -> None:
    (fleet,) = [each for each in SHOWN if str(each.id).startswith("fleet.md")]
    wrong = str(fleet.values[0]).replace("power_plug", "power_plugs")
    with refused(
        ErrorId.INVENTORY_VARIABLE_UNKNOWN, UsageError, naming="dbcheck_power_plugs"
    ):
        test_an_inventory_of_a_document_is_read(wrong, tmp_path)
