"""What leads to a path: each folder and link that the kernel passes on the way.

This file is sent to the witness and to the target's host with their agents: Python 3.8,
and no import of dbcheck's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_LINKS_MAX = 40  # as the kernel follows (path_resolution(7))


def steps(path: Path) -> Iterator[Path]:
    """Yield each component of *path*, from the root on, and of the links on the way.

    The folder of each is named without a link, so it is the one that the component
    lies in.  Raise OSError if a component cannot be inspected.
    """
    at, links = Path("/"), _LINKS_MAX
    # The current folder may have been deleted; an absolute path does not need it.
    left = _reversed_parts(path if path.is_absolute() else Path.cwd() / path)
    while left:
        part = left.pop()
        if part == "..":
            at = at.parent
            continue
        step = at / part
        yield step
        if not (links and step.is_symlink()):
            at = step
            continue
        links -= 1
        target = Path(os.readlink(step))
        if target.is_absolute():
            at = Path("/")
        left += _reversed_parts(target)


def _reversed_parts(path: Path) -> list[str]:
    return [part for part in reversed(path.parts) if part.strip("/")]
