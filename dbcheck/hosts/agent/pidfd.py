"""Ends a process, and no other that got its number.

This file is sent to the target's host, see serve.py: Python 3.8, no more than the
standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from collections.abc import Callable

# Their numbers on all machines but Alpha and MIPS (linux/asm-generic/unistd.h); Python
# has both calls since 3.9.
PIDFD_SEND_SIGNAL, PIDFD_OPEN = 424, 434
NUMBERED_OTHERWISE = ("alpha", "mips")


def end(pid: int, is_meant: Callable[[int], bool]) -> None:
    """Send SIGKILL to a process if *is_meant* says that it is the one that is meant.

    A process that ends meanwhile may leave its number to another one.  So it is looked
    at once it is held (pidfd_open(2)); Linux before 5.3 holds none, and there the
    moment between the look and the signal stays.  Raise OSError.
    """
    try:
        handle = syscall(PIDFD_OPEN, pid, 0)
    except ProcessLookupError:
        return
    except OSError:  # not known, or forbidden in a container
        handle = -1
    try:
        if not is_meant(pid):
            return
        with contextlib.suppress(ProcessLookupError):
            if handle < 0:
                os.kill(pid, signal.SIGKILL)
            else:
                syscall(PIDFD_SEND_SIGNAL, handle, signal.SIGKILL, None, 0)
    finally:
        if handle >= 0:
            os.close(handle)


def syscall(number: int, *arguments: int | None) -> int:
    """Return what the kernel does; raise OSError."""
    if os.uname().machine.startswith(NUMBERED_OTHERWISE):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    found: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found
