"""The settings of a lab's server, by name, and which of them the lab alone decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError

# A program's option may begin with one (MySQL 8.4 manual, 6.2.2.4).
_MODIFIERS = ("skip_", "disable_", "enable_", "maximum_", "loose_")


def standard_name(setting: str) -> str:
    """Return the name of a setting as servers show it, however it was written."""
    return setting.replace("-", "_").lower()


def possible_names(setting: str) -> Iterator[str]:
    """Yield the standard name of a setting, and those without a modifier before it."""
    name = standard_name(setting)
    yield name
    while name.startswith(_MODIFIERS):
        name = name.partition("_")[2]
        yield name


def require_undecided(given: Iterable[str], decided: AbstractSet[str], of: str) -> None:
    """Raise UsageError if a setting was *given* that the lab decides by itself.

    of: whose it is, in messages.
    """
    for name in given:
        if not decided.isdisjoint(possible_names(name)):
            raise UsageError(
                f"the lab decides {name} of {of} itself",
                id=ErrorId.LAB_DECIDES_SETTING,
                hint="Leave that setting out.",
            )
