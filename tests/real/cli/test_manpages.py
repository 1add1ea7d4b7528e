"""The manual pages as man shows them: without a warning, and with each option."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.kit.commandtree import contexts, options_of
from tools.docs.manpages import name_of, page

pytestmark = pytest.mark.wide

CONTEXTS = {name_of(context): context for context in contexts()}


def shown(written: str) -> str:
    """Return a page as groff renders it; fail if it warns of anything.

    Without blanks, since a line may be broken at any hyphen or slash.
    """
    if shutil.which("groff") is None:
        pytest.skip("no groff: make pages")
    done = subprocess.run(
        ("groff", "-man", "-ww", "-Tutf8", "-P-cbou"),
        input=written,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return squeezed(done.stdout)


def squeezed(text: str) -> str:
    return "".join(text.split()).replace("\u2010", "-")


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_page_has_each_option(name: str) -> None:
    context = CONTEXTS[name]
    text = shown(page(context))
    assert f"Name{name}-" in text
    assert squeezed(f"Synopsis {context.command_path} ") in text
    for _, written, means in options_of(context):
        assert squeezed(f"{written} {means}") in text, written


def test_a_page_that_is_wrong_is_refused() -> None:
    with pytest.raises(AssertionError, match="macro 'nosuchmacro' not defined"):
        shown(".TH wrong 1\n.SH Name\n.nosuchmacro\nwrong\n")
