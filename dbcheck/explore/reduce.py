"""Reduces a crash state that fails to one that lacks as little as possible.

Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE
Transactions on Software Engineering 28(2), 2002: ddmin.  The result is 1-minimal: with
any one of its parts on the drive, the state no longer fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a subset of *parts* that still fails, of which no part can be left out.

    parts: with which it fails, as the caller knows; so they are not tried again.
    fails: whether a subset fails; it is asked about many.  It may end the search by
    returning False for all that follow: what was found by then is returned.
    """
    left, pieces = list(parts), 2
    while len(left) > 1:
        size = -(-len(left) // pieces)
        chunks = [left[at : at + size] for at in range(0, len(left), size)]
        smaller = next((chunk for chunk in chunks if fails(chunk)), None)
        if smaller is not None:
            left, pieces = smaller, 2
            continue
        rests = (
            [part for chunk in chunks if chunk is not gone for part in chunk]
            for gone in (chunks if len(chunks) > 2 else [])
        )
        smaller = next((rest for rest in rests if fails(rest)), None)
        if smaller is not None:
            left, pieces = smaller, max(len(chunks) - 1, 2)
        elif size == 1:
            break
        else:
            pieces = min(len(left), 2 * len(chunks))
    return left
