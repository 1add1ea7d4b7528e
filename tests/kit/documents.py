"""The command lines that the documents show, and what they are in a real place."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))


class Shown(NamedTuple):
    """A command line in a document; is_whole: it stands in a block of its own."""

    line: str
    is_whole: bool


def shown(text: str) -> Iterator[Shown]:
    """Yield each command line of dbcheck that a document shows.

    In a block, what stands behind two blanks is an explanation.
    """
    joined = re.sub(r" *\\\n\s*", " ", text)
    fenced = "".join(re.findall(r"^```.*?^```", joined, re.M | re.S))
    for block, start in ((joined, "    "), (fenced, "")):
        for line in re.findall(rf"^{start} *(?:\$ )?(dbcheck [a-z].*)$", block, re.M):
            yield Shown(re.split(r"  |\t", line)[0], True)
    for line in re.findall(r"`(dbcheck [a-z][^`]*)`", re.sub(r"\s*\n\s*", " ", text)):
        yield Shown(line, False)


def words_of(line: str) -> list[str]:
    """Return the words of a command line, up to a pipe; `...` stands for others."""
    words = shlex.split(line, comments=True)[1:]
    end = next((at for at, word in enumerate(words) if word in ("|", ">")), len(words))
    return [word for word in words[:end] if word != "..."]
