"""What lsblk(8) shows of block devices, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def edges(tree: Sequence[Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield each device of the tree, and the one that it is made of, "" for none."""
    for each in tree:
        yield each["kname"], above
        yield from edges(each.get("children", []), each["kname"])


def below(name: str, made_of: Sequence[tuple[str, str]]) -> set[str]:
    """Return *name* and all that it is made of."""
    found, queue = {name}, [name]
    for each in queue:  # grows while it is walked
        new = {under for top, under in made_of if top == each and under} - found
        found |= new
        queue += new
    return found
