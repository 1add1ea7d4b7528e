"""The manual pages are what the program gives; each command has one."""

from __future__ import annotations

import pytest

from tests.kit.commandtree import contexts
from tools.docs.manpages import FOLDER, name_of, page

CONTEXTS = {name_of(context): context for context in contexts()}


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_page_is_what_the_program_gives(name: str) -> None:
    """Write it anew with: python -m tools.docs.manpages."""
    assert (FOLDER / f"{name}.1").read_text("utf-8") == page(CONTEXTS[name])


def test_each_page_is_of_a_command() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(CONTEXTS)
    assert {"dbcheck", "dbcheck-lab", "dbcheck-lab-run"} <= set(CONTEXTS)


def test_a_command_below_another_is_summed_up_by_its_own_help() -> None:
    """One at the top may have the same name, as verify."""
    shown = page(CONTEXTS["dbcheck-witness-verify"])
    assert r"dbcheck-witness-verify \- Check that all logs of a run are intact" in shown
