"""What is fuzzed: a function of bytes that raises only where there is a defect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

FOUND = Path(__file__).parent / "found"


@dataclass(frozen=True)
class Target:
    """One reader of what comes from outside.

    attack: have it read these bytes; whatever this raises is a defect.
    seeds:  inputs to begin with, made by the real writers.
    """

    name: str
    attack: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]

    def found(self) -> list[bytes]:
        """Return the inputs that once showed a defect."""
        return [path.read_bytes() for path in sorted(FOUND.glob(f"{self.name}-*"))]
