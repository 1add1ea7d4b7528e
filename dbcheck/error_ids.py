"""The stable names of what dbcheck refuses, and of what can fail in its operations.

An id stands for one cause with one remedy; sites that mean the same share it.  Scripts
and tests compare ids; messages and hints may be reworded at any time.
"""

from __future__ import annotations

from enum import StrEnum


class ErrorId(StrEnum):
    """The id of an expected failure, in the order of the alphabet."""

    RECORD_OF_ANOTHER_VERSION = "record-of-another-version"
    UNNAMED = "unnamed"
