"""Finds what the documents say about an id that dbcheck prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from dbcheck.config.files import find_data_folder

_ID = r"[a-z0-9-]+"
_ID_OF_ERROR = re.compile(rf"\[({_ID})\](?!\()")
_ITEM = re.compile(r"^\| `([a-z].*?)` \| (.+?) \| (.+?) \|$", re.M)
# A link to a file of the documents: its text, and the path beside the document.
_LINK = re.compile(r"\[([^]\n]+)\]\((?!https?:)([^)#\s]*)(?:#[^)\s]*)?\)")


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of a document that explains some ids.

    subject: heading of the section.  text: Markdown, with links written out.
    """

    ids: tuple[str, ...]
    subject: str
    text: str


def id_of(words: str) -> str:
    """Return the id that is meant: in brackets, or the name of an item of evidence."""
    return words.strip(" []").lower().replace("'", "").replace(" ", "-")


@cache
def passages() -> tuple[Passage, ...]:
    """Return all passages about ids, in the order of the documents.

    An error that has several messages may have a passage for each.
    """
    return (*_errors(), *_items(), *_losses(), *_rules())


def _errors() -> Iterator[Passage]:
    """Yield each entry of troubleshooting.md that bears ids.

    An entry begins with lines in bold: the messages, each with its ids in brackets.
    """
    for subject, body in _sections(_document("guides/troubleshooting.md"), 2):
        for entry in re.split(r"\n\n(?=\*\*)", body.strip()):
            heading = "".join(re.findall(r"\A(?:\*\*.*\n)*", entry))
            if ids := _ID_OF_ERROR.findall(heading):
                text = f"{heading}\n{entry.removeprefix(heading)}"
                yield Passage(tuple(ids), subject, text)


def _items() -> Iterator[Passage]:
    """Yield each row of the table of evidence in reading-a-verdict.md."""
    document = dict(_sections(_document("guides/reading-a-verdict.md"), 2))
    for name, what, remedy in _ITEM.findall(document["The evidence"]):
        heading = f"**{name}**, an item of evidence"
        text = f"{heading}\n\n{what}\n\nIf it is missing: {remedy}"
        yield Passage((id_of(name),), "Evidence of a verdict", text)


def _losses() -> Iterator[Passage]:
    """Yield each section of losses.md that is about one kind of loss."""
    for title, body in _sections(_document("losses.md"), 2):
        if re.fullmatch(_ID, title):
            text = f"**{title}**, a kind of loss\n\n{body.strip()}"
            yield Passage((title,), "Kinds of loss", text)


def _rules() -> Iterator[Passage]:
    """Yield each rule of rules.md."""
    for subject, rules in _sections(_document("rules.md"), 2):
        for rule, body in _sections(rules, 3):
            text = f"**{rule}**, a rule of the audit\n\n{body.strip()}"
            yield Passage((rule,), f"Rules of the audit: {subject}", text)


def _document(path: str) -> str:
    """Return a document, with the path in docs/ in the place of each link."""
    text = find_data_folder("docs").joinpath(path).read_text("utf-8")
    beside = path.rpartition("/")[0]

    def written(link: re.Match[str]) -> str:
        name, to = link.groups()
        return _beside(beside, to, name) if to else name

    return _LINK.sub(written, text)


def _beside(place: str, to: str, name: str) -> str:
    """Return the text of a link in a document of docs/PLACE, then its target's path.

    The path alone if it ends with the text.
    """
    path = f"docs/{to[3:]}" if to.startswith("../") else f"docs/{place}/{to}"
    path = path.replace("//", "/")
    return path if path.endswith(name) else f"{name} ({path})"


def _sections(text: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each section under a heading of that depth."""
    _, *parts = re.split(rf"^{'#' * depth} ", text, flags=re.M)
    for part in parts:
        title, _, body = part.partition("\n")
        yield title, body
