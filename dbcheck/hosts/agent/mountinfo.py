"""What is mounted on this host, as the kernel numbers it.

This file is sent to the target's host, see serve.py: Python 3.8, no more than the
standard library and remote/wire.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from dbcheck.remote.wire import lines, unescape

MOUNTINFO = "/proc/self/mountinfo"
NOT_OPTIONS = frozenset({"seclabel"})  # that mountinfo shows and mount(8) refuses


class Mounted:
    """One line of mountinfo (proc(5))."""

    def __init__(self, line: str) -> None:
        fields = line.split()
        kind, source, options = fields[fields.index("-") + 1 :][:3]
        own = fields[5].split(",")
        self.id, self.parent = map(int, fields[:2])
        self.device = fields[2]
        self.root = unescape(fields[3])
        self.point = unescape(fields[4])
        self.type = kind
        self.source = unescape(source)
        more = [each for each in options.split(",") if each not in own]
        self.options = ",".join(o for o in own + more if o not in NOT_OPTIONS)


def mounted() -> Iterator[Mounted]:
    """Yield all mounts, those that cover others last."""
    for line in lines(MOUNTINFO):
        yield Mounted(line)


def mount_id(fdinfo: str) -> int:
    """Return the mount that an open file is on (proc(5), fdinfo), -1 if unknown."""
    for line in lines(fdinfo):
        if line.startswith("mnt_id:"):
            return int(line.split()[1])
    return -1


def mount_of_handle(handle: int) -> int:
    """Return the mount that a descriptor of this process is on, -1 if unknown."""
    return mount_id(f"/proc/self/fdinfo/{handle}")
