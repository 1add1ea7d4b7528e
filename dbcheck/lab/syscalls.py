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
PR_SET_PDEATHSIG = 1  # prctl(2), linux/prctl.h
PR_SET_TIMERSLACK = 29
PR_SET_IO_FLUSHER = 57
# keyctl(2): its number, by the machine and the bits of this program, which may be 32
# on a kernel of 64 (the kernel's arch/*/**/syscall*.tbl, and asm-generic/unistd.h).
_KEYCTL = {
    32: {
        **dict.fromkeys(("i686", "x86_64"), 288),
        **dict.fromkeys(("armv6l", "armv7l", "armv8l", "aarch64"), 311),
    },
    64: {
        **{"x86_64": 250, "ppc64le": 271, "s390x": 280},
        **dict.fromkeys(("aarch64", "loongarch64", "riscv64"), 219),
    },
}
_JOIN_SESSION_KEYRING = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, path: str | None = None) -> None:
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
    _check(result, target)


def umount(target: str, flags: int = 0) -> None:
    """Unmount what is mounted on *target*, as umount2(2) does."""
    _check(_libc.umount2(os.fsencode(target), flags), target)


def unshare(flags: int) -> None:
    """Leave the namespaces that *flags* names for new ones, as unshare(2) does."""
    _check(_libc.unshare(flags))


def prctl(option: int, value: int) -> None:
    """Set one property of this process, as prctl(2) does."""
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero))


def leave_keyring() -> None:
    """Have a new session keyring, in this thread and in what it starts from now on.

    The old one is inherited by every process, whatever its account becomes, and lets it
    read the keys of whoever logged in (session-keyring(7)).  Nothing happens where the
    system has no keyrings, or lets no process here use them; nor on a machine that is
    not in _KEYCTL: there what is started still has the keyring.
    """
    bits = 8 * struct.calcsize("P")
    number = _KEYCTL[bits].get(os.uname().machine)
    if number is None or _libc.syscall(number, _JOIN_SESSION_KEYRING, None) >= 0:
        return
    if ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        _check(-1)
