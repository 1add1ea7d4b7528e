"""Ranges in the names of hosts: db[01:03] is db01, db02 and db03."""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Iterator, Sequence

_RANGE = re.compile(r"(.*?)\[(\w*):(\w+)(?::(\d+))?\](.*)")
_NAME = re.compile(r"[\w.-]+")
_HOSTS_MAX = 10_000


def expand(pattern: str) -> list[str]:
    """Return the names that *pattern* means; raise ValueError that says what is wrong.

    As Ansible: both ends belong to the range, a leading zero fixes the width,
    letters count in ASCII's order with the small ones first, [1:9:2] takes every
    second one.
    """
    names = list(itertools.islice(_expand(pattern), _HOSTS_MAX + 1))
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no name of a host")
    if len(names) > _HOSTS_MAX:
        raise ValueError(f"{pattern} means more than {_HOSTS_MAX} hosts")
    return names


def _expand(pattern: str) -> Iterator[str]:
    found = _RANGE.fullmatch(pattern)
    if found is None:
        yield pattern
        return
    head, first, last, step, tail = found.groups()
    for middle in _steps(first or "0", last)[:: int(step or 1) or 1]:
        for rest in _expand(tail):
            yield f"{head}{middle}{rest}"


def _steps(first: str, last: str) -> Sequence[str]:
    letters = string.ascii_letters
    if first.isascii() and first.isdigit() and last.isascii() and last.isdigit():
        low, high = int(first), int(last)
        if first.startswith("0") and len(first) > 1 and len(first) != len(last):
            raise ValueError(f"{first} and {last} have not the same number of digits")
        width = len(first) if first.startswith("0") else 0
        if not 0 <= high - low < _HOSTS_MAX:
            raise ValueError(f"the range from {first} to {last} is empty or too long")
        return [f"{number:0{width}}" for number in range(low, high + 1)]
    if len(first) == len(last) == 1 and first in letters and last in letters:
        low, high = letters.index(first), letters.index(last)
        if low <= high:
            return letters[low : high + 1]
    raise ValueError(f"there is no range from {first} to {last}")
