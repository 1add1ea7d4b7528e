"""Whether a program failed for a lack of resources on this machine, by its output."""

from __future__ import annotations

import errno
import os

_LACKS = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EADDRINUSE)
_MESSAGES = tuple(os.strerror(number).lower() for number in _LACKS)
_KILLED = "terminated by signal 9"  # PostgreSQL's message about its own startup process


def is_resource_shortage(output: str) -> bool:
    """Return whether *output* reports a lack of memory, processes, files or a port.

    Such a program may work at the next try, so its failure is not due to its data.
    """
    lower = output.lower()
    return _KILLED in lower or any(message in lower for message in _MESSAGES)
