"""The scripts and recordings of docs/findings, each of which shows one finding."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "findings"
SCRIPTS = {path.stem: path for path in sorted(FOLDER.glob("m*-*.py"))}
REPLAY = FOLDER / "replay.py"
RECORDINGS = {path.stem: path for path in sorted(FOLDER.glob("recordings/*.xz"))}
SEEN, UNSEEN, CANNOT_RUN = 0, 1, 2  # their exit codes


def loads(said: str) -> int:
    """Return how many loads a script says it took to meet its state."""
    found = re.findall(r"^load (\d+)$", said, re.M)
    return int(found[-1]) if found else 1
