"""Who restarts a server that runs; the docstring is the contract."""

from __future__ import annotations

from typing import Protocol


class Restarter(Protocol):
    """Shuts a server down in an orderly way, and starts it again."""

    def restart(self) -> None:
        """Return once it was started; it may still take no queries.

        Raise PowerError if that could not be done, or took too long.
        """
