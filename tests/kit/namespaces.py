"""Namespaces of the kernel, as a test finds whether anything of them is left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path


def are_networks_used(numbers: Sequence[str]) -> bool:
    """Return whether a process is in one of these network namespaces.

    numbers: of their inodes (namespaces(7)).
    """
    wanted = {f"net:[{number}]" for number in numbers}
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):  # it may end at any moment
            if os.readlink(link) in wanted:
                return True
    return False
