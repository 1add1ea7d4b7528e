"""The threads of this process that a test may not leave behind.

A library's threads may outlive the test that used it, and end at any time, in the same
process as the tests of other files: distributed keeps one named "Dask-Offload".  So a
test counts no threads; it asks for those it knows, or for new ones.
"""

from __future__ import annotations

import threading


def threads_named(name: str) -> list[str]:
    """Return the names of the threads called *name*, or that and a number of a pool."""
    names = (thread.name for thread in threading.enumerate())
    return [found for found in names if found == name or found.startswith(f"{name}_")]


def new_threads(before: list[threading.Thread]) -> list[threading.Thread]:
    """Return the threads that are not among *before*, of threading.enumerate()."""
    return [thread for thread in threading.enumerate() if thread not in before]
