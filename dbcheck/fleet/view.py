"""What the client shows of a fleet; the docstrings are the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dbcheck.report.fleet import RigStatus


class FleetView(Protocol):
    """Receives what goes on; must return at once and never raise."""

    def line(self, title: str, detail: str) -> None:
        """Note an event of one target, or of the fleet."""

    def show(self, rigs: Sequence[RigStatus]) -> None:
        """Note how far each target is, a few times a second."""
