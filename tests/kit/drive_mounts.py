"""A mount namespace of their own for tests that mount."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest

from dbcheck.lab import syscalls
from tests.kit.waiting import wait_until

MS_SLAVE = 1 << 19  # mount(2), linux/mount.h


@pytest.fixture(scope="module")
def own_mounts() -> Iterator[None]:
    """Hide what the module mounts from the rest of the machine.

    Whoever enters a new mount namespace meanwhile, such as a lab, takes a copy of
    every mount along, and an unmount here would not free the device any more.  So does
    this namespace with what a test beside it has mounted: of a shared mount, what is
    unmounted there goes here as well.
    """
    folder = os.getcwd()
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/mnt", "rb") as before:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount("none", "/", None, syscalls.MS_REC | MS_SLAVE)
        yield
        # Refused while a thread that started meanwhile shares this one's folder, and
        # the kernel ends a thread a little later than join() returns: setns(2).
        wait_until(
            lambda: libc.setns(before.fileno(), syscalls.CLONE_NEWNS) == 0,
            "the namespace is that of before",
        )
    os.chdir(folder)
