"""Names that users meet, each with a sentence on what it means."""

from __future__ import annotations

import enum
from typing import Self


class Explained(enum.Enum):
    """An enumeration whose members are written as a name and what that means.

    value: the name, as files, results and the command line have it.
    means: one or two sentences; docs/reference.md is made from them.
    """

    _value_: str
    means: str

    def __new__(cls, name: str, means: str = "") -> Self:
        """Return the member of that name."""
        member = object.__new__(cls)
        member._value_ = name
        member.means = means
        return member
