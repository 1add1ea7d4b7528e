"""Explained enumerations, lists as words, moments, and foreign text made safe.

Servers, witnesses, hosts, inventories and stored runs may hold any character, and a
terminal obeys some of them (ECMA-48, control functions): it clears the screen, moves
text, takes over the clipboard.
"""

from __future__ import annotations

import enum
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Self


class Explained(enum.Enum):
    """An enumeration whose members are written as a name and what that means.

    value: the name, as files, results and the command line have it.
    means: one or two sentences; docs/reference.md is made from them.
    """

    _value_: str
    means: str

    def __new__(cls, name: str, means: str = "", *_: object) -> Self:
        """Return the member of that name; the rest is for a subclass's __init__()."""
        member = object.__new__(cls)
        member._value_ = name
        member.means = means
        return member


def parse_utc(text: str) -> datetime | None:
    """Return a moment of ISO 8601 in UTC; None if *text* is none.

    A record without a zone counts as UTC, in which dbcheck stores all of them.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.astimezone(UTC)


def join_words(words: Iterable[str], before_last: str) -> str:
    """Return a list as a sentence has it, as "a, b and c"; at least one word."""
    *first, last = words
    return f"{', '.join(first)} {before_last} {last}" if first else last


_QUOTE = "\n  | "


def visible(text: str) -> str:
    r"""Return *text* as one line in which every character can be seen.

    Control characters, line ends, marks that turn the direction of writing, characters
    without a width and halves of surrogate pairs become escapes, e.g. \x1b or \u202e;
    tabs become blanks.
    """
    if text.isprintable():
        return text
    return "".join(map(_escape, text.expandtabs()))


def quoted(text: str) -> str:
    """Return visible() text that keeps its lines; each after the first is marked.

    So no line of a foreign text can pass for one of dbcheck's own.
    """
    return _QUOTE.join(map(visible, text.split("\n")))


def _escape(character: str) -> str:
    # Spaces other than " " are not printable to Python, yet harmless and in use.
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()
