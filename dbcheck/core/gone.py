"""How a load saw its server end."""

from __future__ import annotations

import enum


class Gone(enum.Enum):
    """What a load saw of the end of its server; the value is what is stored."""

    NEVER = ""  # it kept answering
    BROKEN = "broken"  # every connection broke
    SILENT = "silent"  # no reply came any more
    STALLED = "stalled"  # it was silent, then answered again
    UNSEEN = "unseen"  # the client stopped watching
