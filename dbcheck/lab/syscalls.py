"""The system calls of the lab that Python does not wrap, as functions that raise.

Each raises OSError with the number that the kernel gave.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

MS_NOSUID = 2  # mount(2), linux/mount.h
MS_NODEV = 4
MS_REC = 1 << 14
MS_PRIVATE = 1 << 18
MNT_DETACH = 2  # umount2(2)
CLONE_NEWNS = 0x00020000  # unshare(2)
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1  # prctl(2), linux/prctl.h
PR_SET_TIMERSLACK = 29
PR_SET_IO_FLUSHER = 57
# Number of the system call keyctl(2), by the bits of this program and by the machine;
# the program may have 32 bits on a kernel of 64 (the kernel's arch/*/**/syscall*.tbl,
# and asm-generic/unistd.h).
_KEYCTL_NUMBERS = {
    32: {
        **dict.fromkeys(("i686", "x86_64"), 288),
        **dict.fromkeys(("armv6l", "armv7l", "armv8l", "aarch64"), 311),
    },
    64: {
        **{"x86_64": 250, "ppc64le": 271, "s390x": 280},
        **dict.fromkeys(("aarch64", "loongarch64", "riscv64"), 219),
    },
}
_KEYCTL_JOIN_SESSION_KEYRING = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _raise_on_failure(result: int, path: str | None = None) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def mount(
    source: str, target: str, kind: str | None, flags: int, options: str = ""
) -> None:
    """Mount *source* on *target*, as mount(2) does."""
    result = _libc.mount(
        source.encode(),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _raise_on_failure(result, target)


def umount(target: str, flags: int = 0) -> None:
    """Unmount what is mounted on *target*, as umount2(2) does."""
    _raise_on_failure(_libc.umount2(os.fsencode(target), flags), target)


def unshare(flags: int) -> None:
    """Move to new namespaces of the kinds in *flags*, as unshare(2) does."""
    _raise_on_failure(_libc.unshare(flags))


def setns(namespace: int) -> None:
    """Move this thread, or for pids its children, to an opened namespace (setns(2))."""
    _raise_on_failure(_libc.setns(namespace, 0))


def prctl(option: int, value: int) -> None:
    """Set one property of this process, as prctl(2) does."""
    zero = ctypes.c_ulong(0)
    _raise_on_failure(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero))


def leave_keyring() -> None:
    """Give this thread, and the processes that it starts now, a new session keyring.

    Every process inherits the old keyring, whatever its account becomes, and can read
    the keys of the user who logged in (session-keyring(7)).  Nothing happens where the
    system has no keyrings, or lets no process here use them; nor on a machine that is
    not in _KEYCTL_NUMBERS: there the processes still have the old keyring.
    """
    bits = 8 * struct.calcsize("P")
    number = _KEYCTL_NUMBERS[bits].get(os.uname().machine)
    if number is None or _libc.syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None) >= 0:
        return
    if ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        _raise_on_failure(-1)
