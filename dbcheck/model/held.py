"""The session that a crash canary depends on."""

from __future__ import annotations

from typing import Protocol


class HeldCanary(Protocol):
    """A session whose orderly end commits the canary that it planted."""

    def is_held(self) -> bool:
        """Say whether the session is still open, as far as is known without a query."""

    def close(self) -> None:
        """End the session; never raises."""
