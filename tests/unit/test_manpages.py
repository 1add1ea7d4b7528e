"""The manual pages are what the program gives; each command has one."""

from __future__ import annotations

import pytest

from tests.kit.commandtree import contexts
from tests.manpages import FOLDER, name_of, page

CONTEXTS = {name_of(context): context for context in contexts()}


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_page_is_what_the_program_gives(name: str) -> None:
    """Write it anew with: python -m tests.manpages."""
    assert (FOLDER / f"{name}.1").read_text("utf-8") == page(CONTEXTS[name])


def test_each_page_is_of_a_command() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(CONTEXTS)
    assert {"dbcheck", "dbcheck-lab", "dbcheck-lab-run"} <= set(CONTEXTS)
