"""Whatever the text, a terminal obeys none of it."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from dbcheck.base.text import quoted, visible


@given(st.text())
def test_no_text_keeps_what_a_terminal_obeys(text: str) -> None:
    line = visible(text)
    assert all(c.isprintable() or unicodedata.category(c) == "Zs" for c in line)
    assert visible(line) == line
    first, *rest = quoted(text).split("\n")
    assert all(part.startswith("  | ") for part in rest)
    assert visible("".join((first, *rest))) == "".join((first, *rest))
