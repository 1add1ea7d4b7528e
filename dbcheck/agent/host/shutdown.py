"""An orderly shutdown in a host's own records.

What a cut left no time to write is absent, so only what is found counts.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator

from dbcheck.agent.host.journal import beginning

WTMP = "/var/log/wtmp"
WTMP_READ_BYTES = 1 << 18
# struct utmp of utmp(5) with 32-bit times, as x86-64 and most others have it, and with
# 64-bit times, as aarch64 has it: size, and where ut_user and ut_tv begin.
LAYOUTS = ((384, 44, "ii", 340), (400, 44, "qq", 344))
RUN_LEVEL, BOOT = 1, 2  # ut_type
SHUTDOWN_USER = b"shutdown"  # of the record that shutdown writes, see utmp(5), last(1)
# systemd's own ids (sd-messages.h): logind begins a shutdown; the journal is stopped,
# which it is last of all.
MESSAGES = ("98268866d1d54a499c4e98921d93bc40", "d93fb3c9c24d451a97cea615ce59c00b")
JOURNALCTL_TIMEOUT_S = 20
LINE_BYTES_MAX = 1000


def shutdown_record(boot_id: str, since_us: int) -> str:
    """Describe the record that shows an orderly shutdown, "" if none does.

    boot_id: of the kernel that took the load.  since_us: the host's own clock then,
    microseconds since the epoch.
    """
    if from_wtmp(WTMP, since_us):
        return "wtmp records the shutdown"
    line = from_journal(boot_id, since_us)
    return "the journal reports: " + line if line else ""


def from_wtmp(path: str, since_us: int) -> bool:
    """Return whether a shutdown is the first change of state since then.

    A boot that comes first shows that the kernel before it wrote none.
    """
    try:
        size = os.stat(path).st_size
        layout = next(one for one in LAYOUTS if size % one[0] == 0)
        with open(path, "rb") as file:
            file.seek(max(0, size - WTMP_READ_BYTES // layout[0] * layout[0]))
            content = file.read(WTMP_READ_BYTES)
    except (OSError, StopIteration):
        return False
    for kind, user, moment_us in records(content, layout):
        if moment_us < since_us:
            continue
        if kind == RUN_LEVEL and user == SHUTDOWN_USER:
            return True
        if kind == BOOT:
            return False
    return False


def records(
    content: bytes, layout: tuple[int, int, str, int]
) -> Iterator[tuple[int, bytes, int]]:
    """Yield type, user and moment in microseconds of each whole record."""
    size, user_at, time_format, time_at = layout
    for at in range(0, len(content) - size + 1, size):
        (kind,) = struct.unpack_from("<h", content, at)
        user = content[at + user_at : at + user_at + 32].split(b"\0")[0]
        seconds, micro = struct.unpack_from("<" + time_format, content, at + time_at)
        yield kind, user, seconds * 1000000 + micro


def from_journal(boot_id: str, since_us: int) -> str:
    """Return the line of that boot's journal that reports its shutdown, "" if none."""
    program = shutil.which("journalctl")
    if program is None or not boot_id:
        return ""
    matches = [f"MESSAGE_ID={MESSAGES[0]}", "+", f"MESSAGE_ID={MESSAGES[1]}"]
    command = [
        *(program, "--quiet", "--no-pager", "--output=cat"),
        *("--boot=" + boot_id.replace("-", ""), f"--since=@{since_us // 1000000}"),
        *matches,
    ]
    try:
        printed, failure = beginning(command, LINE_BYTES_MAX, JOURNALCTL_TIMEOUT_S)
    except OSError:
        return ""
    lines = printed.decode(errors="replace").strip().splitlines()
    return lines[0][:200] if lines and not failure else ""
