"""A rig of whose parts only those are there that a test is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbcheck.campaign.rig import Rig


class Told:
    """A listener that remembers the phases."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, str]] = []

    def phase(self, name: str, detail: str) -> None:
        self.phases.append((name, detail))

    def load(self, status: object) -> None:
        raise AssertionError("there is no load")


def rig_of(told: Told, *, engine: Any = None, host: Any = None) -> Rig:
    """Return a rig that has nothing else."""
    nothing: Any = None
    return Rig(engine, nothing, nothing, nothing, told, Path(), host=host)
