"""Whether it was this machine that kept a program from its work, by what it said."""

from __future__ import annotations

import errno
import os

_LACKS = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EADDRINUSE)
_WORDS = tuple(os.strerror(number).lower() for number in _LACKS)
_KILLED = "terminated by signal 9"  # PostgreSQL's words of its own startup process


def is_resource_shortage(said: str) -> bool:
    """Say whether *said* tells of a lack of memory, processes, files or a port.

    Such a program may work at the next try, so its failure says nothing of its data.
    """
    lower = said.lower()
    return _KILLED in lower or any(words in lower for words in _WORDS)
