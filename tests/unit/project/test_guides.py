"""The guides explain each item of evidence, and quote messages that dbcheck prints."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from dbcheck.judge.item import ItemId
from dbcheck.model.verdict import PPM, compute_cuts_needed, compute_loss_ppm_max
from tests.kit.syntax import ROOT, SOURCES, nodes_in, nodes_of

GUIDES = ROOT / "docs" / "guides"
TROUBLESHOOTING = GUIDES / "troubleshooting.md"
VERDICTS = GUIDES / "reading-a-verdict.md"
# A message stands in a line of its own, before its ids: **`the message`** [an-id]
_QUOTED = re.compile(r"^\*\*`([^`\n](?:[^\n]*[^`\n])?)`\*\*(?: \[[a-z0-9-]+\])*$", re.M)
_ANY = "..."  # what stands for any text in a message that a guide quotes
_FORMATTED = "\0"  # what stands for a formatted part in one of the program
_LITERAL_MIN = 12  # characters of a message that are its own


def quoted(path: Path) -> list[str]:
    """Return the messages that a guide quotes."""
    return _QUOTED.findall(path.read_text("utf-8"))


def rendered(node: ast.AST) -> str | None:
    """Return the text of a string in the program, None if *node* is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(rendered(each) or _FORMATTED for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = rendered(node.left), rendered(node.right)
        if left is not None or right is not None:
            return (left or _FORMATTED) + (right or _FORMATTED)
    return None


def texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield each string of a module; docstrings are not printed, and left out."""
    docstrings = set()
    for node in nodes:  # which come before their parts
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings.add(node.value)
        if node not in docstrings and (text := rendered(node)):
            yield text


@cache
def printed() -> str:
    """Return each string of the program, one a line."""
    found = {text for source in SOURCES for text in texts(nodes_of(source))}
    return "\n".join(" ".join(text.split("\n")) for text in sorted(found))


def is_printed(message: str) -> bool:
    """Say whether a string of the program is *message*, in which `...` is any text."""
    parts = [re.escape(part) for part in message.split(_ANY)]
    pattern = "^" + "[^\n]*".join(parts) + "$"
    return re.search(pattern, printed(), re.M) is not None


MESSAGES = [
    pytest.param(message, id=f"{guide.stem}: {message[:60]}")
    for guide in (TROUBLESHOOTING, VERDICTS)
    for message in quoted(guide)
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_that_a_guide_quotes_is_printed(message: str) -> None:
    assert len(message.replace(_ANY, "").strip()) >= _LITERAL_MIN
    assert is_printed(message), "dbcheck/ has no such message"


def test_a_message_that_is_not_printed_is_found() -> None:
    assert is_printed("the host key of ... is not known: ...")
    assert is_printed("the server kept answering: no cut")
    assert not is_printed("the host key of ... is not at home: ...")
    assert not is_printed("the server kept answering: no cuts")
    assert not is_printed("server kept answering: no cut")  # a part is no message
    # Docstrings are not printed.
    assert not is_printed("Items of evidence: what they are called, ...")
    found = {
        *texts(nodes_in('"""A module."""\nx = "a" f"{y}b" + z\nraise E("c" "d")\n'))
    }
    assert {"a\0b\0", "cd"} <= found
    assert "A module." not in found


def test_the_guides_quote_many_messages_and_none_twice() -> None:
    found = quoted(TROUBLESHOOTING)
    assert len(found) >= 40
    assert len(set(found)) == len(found)
    assert len(quoted(VERDICTS)) >= 12


def test_each_quoted_message_is_followed_by_what_to_do() -> None:
    for guide in (TROUBLESHOOTING, VERDICTS):
        for part in _QUOTED.split(guide.read_text("utf-8"))[2::2]:
            explained = part.lstrip("\n").split("\n\n")[0]
            assert len(explained.split()) >= 6, explained


def test_the_bounds_of_numbers_of_cuts_are_those_of_the_statistics() -> None:
    text = (GUIDES / "go-live.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+)% \| (?:`([\d.]+)`)? ?\|", text, re.M)
    assert len(rows) >= 5
    for cuts, percent, until in rows:
        assert math.ceil(compute_loss_ppm_max(0, int(cuts)) * 100 / PPM) == int(percent)
        assert not until or compute_cuts_needed(round(float(until) * PPM)) == int(cuts)


def test_every_item_of_evidence_is_explained() -> None:
    text = VERDICTS.read_text("utf-8").split("\n## The evidence\n")[1]
    text = text.split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| `[a-z]", line)
    ]
    explained = [row[0].strip("`") for row in rows]
    wanted = [item.value for item in ItemId]
    assert set(wanted) - set(explained) == set(), "add to reading-a-verdict.md"
    assert set(explained) - set(wanted) == set(), "remove from reading-a-verdict.md"
    assert len(set(explained)) == len(explained)
    for item, *cells in rows:
        assert len(cells) == 2, item
        assert all(len(cell.split()) >= 4 for cell in cells), item
