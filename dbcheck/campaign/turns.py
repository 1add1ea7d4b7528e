"""Whose turn it is to lose its power, where several targets are cut at once."""

from __future__ import annotations


class Turns:
    """Turns without end: this target is cut whenever its cycle comes to that."""

    def take(self) -> None:
        """Return once the target may be without power, from now until over()."""

    def over(self) -> None:
        """Note that it has its power, and keeps it; a second call changes nothing."""
