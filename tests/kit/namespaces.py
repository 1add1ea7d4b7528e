"""Namespaces of the kernel, as a test finds whether anything of them is left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def call_within(network: str, call: Callable[[], T]) -> T:
    """Return what *call* returns in the network namespace of that name."""
    found: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()

    def run() -> None:  # in a thread, since a namespace is a thread's
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            with open(f"/run/netns/{network}") as namespace:
                if libc.setns(namespace.fileno(), 0):
                    raise OSError(ctypes.get_errno(), "setns")
            found.put(call())
        except BaseException as error:
            found.put(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    got = found.get()
    if isinstance(got, BaseException):
        raise got
    return got


def are_networks_used(numbers: Sequence[str]) -> bool:
    """Return whether a process is in one of these network namespaces.

    numbers: of their inodes (namespaces(7)).
    """
    wanted = {f"net:[{number}]" for number in numbers}
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):  # it may end at any moment
            if os.readlink(link) in wanted:
                return True
    return False
