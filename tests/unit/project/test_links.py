"""Every link from one document to another leads to a file, and to a heading in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

from tests.kit.documents import DOCUMENTS, ROOT

MARKDOWN = MarkdownIt("commonmark").enable("table")
_NAMED = re.compile(r"`((?:docs/)?[\w./-]+\.md)`")


def links(text: str) -> Iterator[str]:
    """Yield the target of each link and image, but those to other sites."""
    for block in MARKDOWN.parse(text):
        for token in block.children or ():
            target = token.attrGet("href") or token.attrGet("src")
            if target and not urlsplit(str(target)).scheme:
                yield str(target)


@cache
def anchors(document: Path) -> frozenset[str]:
    """Return the anchors of a document's headings, as forges and Sphinx name them."""
    seen: Counter[str] = Counter()
    found = []
    tokens = MARKDOWN.parse(document.read_text("utf-8"))
    for heading, inline in zip(tokens, tokens[1:], strict=False):
        if heading.type == "heading_open":
            parts = (each.content for each in inline.children or ())
            name = re.sub(r"[^\w -]", "", "".join(parts).lower()).replace(" ", "-")
            found.append(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return frozenset(found)


def problem(document: Path, target: str) -> str:
    """Return what is wrong with a link in *document*, "" if nothing is."""
    path, _, anchor = unquote(target).partition("#")
    to = (document.parent / path).resolve() if path else document
    if not to.exists():
        return f"{target}: there is no such file"
    if anchor and to.suffix == ".md" and anchor not in anchors(to):
        return f"{target}: {to.name} has no such heading"
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    found = links(document.read_text("utf-8"))
    assert not [wrong for each in found if (wrong := problem(document, each))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_that_are_named_are_there(document: Path) -> None:
    named = _NAMED.findall(document.read_text("utf-8"))
    places = (ROOT, document.parent)
    assert not [n for n in named if not any((place / n).is_file() for place in places)]


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `--b` c\n\n# A `--b` c\n\n[x](y.md), [site](https://a.b/c#d)\n"
    )
    assert list(links(page.read_text())) == ["y.md"]
    assert anchors(page) == {"a---b-c", "a---b-c-1"}
    assert not problem(page, "#a---b-c-1")
    assert problem(page, "page.md#a") == "page.md#a: page.md has no such heading"
    assert problem(page, "y.md") == "y.md: there is no such file"
