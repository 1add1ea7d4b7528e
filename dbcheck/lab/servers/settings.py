"""The settings of a lab's server, by name, and which of them the lab alone decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError


def standard_name(setting: str) -> str:
    """Return the name of a setting as servers show it, however it was written."""
    return setting.replace("-", "_").lower()


def require_undecided(given: Iterable[str], decided: Collection[str], of: str) -> None:
    """Raise UsageError if a setting was *given* that the lab decides by itself.

    of: whose it is, in messages.
    """
    for name in given:
        if standard_name(name) in decided:
            raise UsageError(
                f"the lab decides {name} of {of} itself",
                id=ErrorId.LAB_DECIDES_SETTING,
                hint="Leave that setting out.",
            )
