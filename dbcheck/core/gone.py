"""How a server went out of a load's sight."""

from __future__ import annotations

import enum


class Gone(enum.Enum):
    """What a load saw of the end of its server; the value is what is stored."""

    NEVER = ""  # it went on answering
    BROKEN = "broken"  # every connection broke
    SILENT = "silent"  # no reply came any more
    STALLED = "stalled"  # it was silent, and then went on answering
    UNSEEN = "unseen"  # the client stopped looking
