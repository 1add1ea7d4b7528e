"""Characters that a terminal obeys, and what is shown in their place."""

from __future__ import annotations

import pytest

from dbcheck.base.text import join_words, quoted, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\r\x07\x08\x7f", r"a\r\x07\x08\x7f"),
        ("\x9b31m", r"\x9b31m"),
        ("one\ntwo\u2028three", r"one\ntwo\u2028three"),
        ("\u202eSSAP\u2069", r"\u202eSSAP\u2069"),
        ("PA\u200bSS\ufeff\U000e0041", r"PA\u200bSS\ufeff\U000e0041"),
        ("\ud800", r"\ud800"),
        ("LOG:\tready", "LOG:    ready"),
        ("«\u00a0é\u00a0» 測試\u3000[/x]", "«\u00a0é\u00a0» 測試\u3000[/x]"),
    ],
)
def test_what_cannot_be_seen_becomes_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_that_follow_are_marked() -> None:
    assert quoted("it said:\ndbcheck: all is well\x1b") == (
        "it said:\n  | dbcheck: all is well\\x1b"
    )


def test_a_list_is_written_as_a_sentence_has_it() -> None:
    assert join_words(["a", "b", "c"], "or") == "a, b or c"
    assert join_words(("a", "b"), "and") == "a and b"
    assert join_words(iter("a"), "and") == "a"
