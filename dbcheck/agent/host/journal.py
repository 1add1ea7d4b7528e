"""The host's own records: a server's messages in the journal, and orderly shutdowns.

What a cut left no time to write is absent, so only what is found counts.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dbcheck.agent.host.container import list_container_ids, list_log_accounts
from dbcheck.agent.host.servers import find_server_processes
from dbcheck.agent.wire import Refusal, read_lines

# Prefix of a data directory, used instead of a log's path; see log.mark_log().
JOURNAL = "journal:"
# Begins what stands for a container in place of a service: its id and the accounts that
# may keep its log.
CONTAINER = "container "
# systemd names the cgroup of a unit after the unit.  A cgroup's path has slices, then a
# unit of the system's manager.  If that unit is user@UID.service, the manager of a
# user, slices and a unit of this manager follow (systemd, src/basic/cgroup-util.c,
# cg_path_get_unit and cg_path_get_user_unit).
UNIT = re.compile(
    r"[A-Za-z0-9:_.\\-]+(?:@[A-Za-z0-9:_.\\@-]+)?"
    r"\.(?:service|socket|device|mount|automount|swap|target|path|timer|scope)"
)
USER_MANAGER = re.compile(r"user@([0-9]+)\.service")
CGROUP = re.compile(r"^(?:0:|[0-9]+:name=systemd):(/.*)$", re.MULTILINE)
SERVICE = ".service"
SLICE = re.compile(r"[A-Za-z0-9:_.\\-]+\.slice")
JOURNALCTL_TIMEOUT_S = 60


def mark_journal(directory: str) -> dict[str, list[int]]:
    """Return the server's unit, and from which second on its journal is to be read.

    Raise Refusal if the server is neither a systemd service nor in a container whose
    engine logs there, or if this user may see none of its messages.
    """
    try:
        unit = find_unit(directory)
    except Refusal:
        unit = find_container(directory)
        if not unit:
            raise
    if not run_journalctl(unit, "--lines=1", 1)[0]:
        raise Refusal("journal", "the journal has no message of " + unit)
    # In the form of log.mark_files(); the 0 is not used.
    return {unit: [math.ceil(time.time()), 0]}


def find_container(directory: str) -> str:
    """Return the server's container, see CONTAINER; "" if the server is in none."""
    for process in find_server_processes(directory):
        for found in list_container_ids(process)[-1:]:
            return " ".join([CONTAINER + found, *sorted(list_log_accounts(process))])
    return ""


def find_unit(directory: str) -> str:
    """Return the service of the server that works in *directory*.

    A service of a user's manager is returned behind the unit of this manager:
    user@1000.service/x.service.  Raise Refusal if the server runs in no service.
    """
    why = "the server does not run as a systemd service"
    for folder in find_server_processes(directory):
        for path in CGROUP.findall("".join(read_lines(folder + "/cgroup"))):
            units, below = parse_units(path)
            if not units:
                continue
            if not units[-1].endswith(SERVICE) or USER_MANAGER.fullmatch(units[-1]):
                why = f"the server runs in {units[-1]}, and not in a systemd service"
            elif any(part.endswith(SERVICE) for part in below):
                why = f"another systemd, in {units[-1]}, keeps the server's journal"
            else:
                return "/".join(units)
    raise Refusal("journal", why)


def parse_units(path: str) -> tuple[list[str], list[str]]:
    """Return the units that a cgroup's path names, and what is below the last one.

    The unit of the system's manager is first.  If it is a user's manager, a unit of
    this manager may follow.
    """
    parts = path.split("/")[1:]
    units: list[str] = []
    while True:
        while parts and SLICE.fullmatch(unescape_unit(parts[0])):
            parts.pop(0)
        name = unescape_unit(parts[0]) if parts else ""
        if not UNIT.fullmatch(name):
            return units, parts
        units.append(name)
        parts.pop(0)
        if len(units) > 1 or not USER_MANAGER.fullmatch(name):
            return units, parts


def unescape_unit(name: str) -> str:
    """Return a unit's name without the "_" that tells it from a file of the kernel's.

    systemd, src/basic/cgroup-util.c, cg_escape.
    """
    return name[1:] if name.startswith("_") else name


def read_journal_since(marks: dict[str, list[int]], limit: int) -> dict[str, Any]:
    """Return the service's messages since *marks*, as log.read_since() does."""
    ((unit, (start_s, _)),) = marks.items()
    text, truncated = run_journalctl(unit, "--since=@" + str(start_s), limit)
    return {
        "text": text.decode("utf-8", "replace"),
        "truncated": truncated,
        "rewound": False,
    }


def run_journalctl(unit: str, option: str, limit: int) -> tuple[bytes, bool]:
    """Return at most *limit* bytes of a service's messages, and whether it has more.

    Raise Refusal if journalctl(1) does not run.
    """
    program = shutil.which("journalctl")
    if program is None:
        raise Refusal("journal", "journalctl is not installed")
    options = ("--quiet", "--no-pager", "--output=cat", option)
    command = [program, *options, *make_unit_matches(unit)]
    try:
        printed, failure = read_output_beginning(
            command, limit + 1, JOURNALCTL_TIMEOUT_S
        )
    except OSError as error:
        raise Refusal("journal", "journalctl: " + type(error).__name__) from None
    if failure:
        raise Refusal("journal", "journalctl: " + failure)
    return printed[:limit], len(printed) > limit


def make_unit_matches(unit: str) -> list[str]:
    """Return journalctl's matches of a service (systemd.journal-fields(7)).

    unit: as find_unit() returns it.  Units of several users may have one name.

    Docker's journald driver and conmon, of Podman and CRI-O, put CONTAINER_ID_FULL to
    each line (Docker documentation, journald logging driver; conmon,
    src/ctr_logging.c).  Anybody could, and only root the _UID of another account.
    """
    if unit.startswith(CONTAINER):
        found, *accounts = unit[len(CONTAINER) :].split()
        return [f"CONTAINER_ID_FULL={found}", *(f"_UID={each}" for each in accounts)]
    manager, _, name = unit.rpartition("/")
    if not manager:
        return ["_SYSTEMD_UNIT=" + name]
    owner = re.sub(USER_MANAGER, r"\1", manager)
    return ["_SYSTEMD_USER_UNIT=" + name, "_SYSTEMD_OWNER_UID=" + owner]


def read_output_beginning(
    command: Sequence[str], limit: int, timeout_s: float
) -> tuple[bytes, str]:
    """Return a program's output, *limit* bytes at most, and its failure or "".

    Any account may have logged far more, so the program is ended once it has printed
    *limit* bytes.  Raise OSError if it cannot be run.
    """
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=null, stdout=pipe, stderr=pipe) as running:
        assert running.stdout and running.stderr
        kill_timer = threading.Timer(timeout_s, running.kill)
        kill_timer.start()
        try:
            printed = running.stdout.read(limit)
            if len(printed) == limit:
                running.kill()
                return printed, ""
            printed_error = (
                running.stderr.read(1000).decode(errors="replace").strip()[:200]
            )
            code = running.wait()
        finally:
            kill_timer.cancel()
            running.kill()
    if code < 0:
        return printed, f"ended after {timeout_s:.0f} s"
    return printed, (printed_error or str(code)) if code else ""


WTMP = "/var/log/wtmp"
WTMP_READ_BYTES = 1 << 18
# struct utmp of utmp(5) with 32-bit times, as x86-64 and most others have it, and with
# 64-bit times, as aarch64 has it: size, and where ut_user and ut_tv begin.
UTMP_LAYOUTS = ((384, 44, "ii", 340), (400, 44, "qq", 344))
RUN_LEVEL, BOOT = 1, 2  # ut_type
SHUTDOWN_USER = b"shutdown"  # of the record that shutdown writes, see utmp(5), last(1)
# systemd's ids of messages (sd-messages.h): logind begins a shutdown; the journal is
# stopped, as the last service of all.
SHUTDOWN_IDS = (
    "98268866d1d54a499c4e98921d93bc40",
    "d93fb3c9c24d451a97cea615ce59c00b",
)
SHUTDOWN_TIMEOUT_S = 20
LINE_BYTES_MAX = 1000


def find_shutdown_record(boot_id: str, since_us: int) -> str:
    """Describe the record that shows an orderly shutdown, "" if none does.

    boot_id: of the kernel that took the load.  since_us: the host's own clock
    before the load, in microseconds since the epoch.
    """
    if is_shutdown_in_wtmp(WTMP, since_us):
        return "wtmp records the shutdown"
    line = find_shutdown_in_journal(boot_id, since_us)
    return "the journal reports: " + line if line else ""


def is_shutdown_in_wtmp(path: str, since_us: int) -> bool:
    """Return True if a shutdown is the first change of state since *since_us*.

    If a boot comes first, the kernel before it recorded no shutdown.
    """
    try:
        size = os.stat(path).st_size
        layout = next(known for known in UTMP_LAYOUTS if size % known[0] == 0)
        with open(path, "rb") as file:
            file.seek(max(0, size - WTMP_READ_BYTES // layout[0] * layout[0]))
            content = file.read(WTMP_READ_BYTES)
    except (OSError, StopIteration):
        return False
    for kind, user, moment_us in parse_wtmp_records(content, layout):
        if moment_us < since_us:
            continue
        if kind == RUN_LEVEL and user == SHUTDOWN_USER:
            return True
        if kind == BOOT:
            return False
    return False


def parse_wtmp_records(
    content: bytes, layout: tuple[int, int, str, int]
) -> Iterator[tuple[int, bytes, int]]:
    """Yield type, user and moment in microseconds of each whole record."""
    size, user_at, time_format, time_at = layout
    for at in range(0, len(content) - size + 1, size):
        (kind,) = struct.unpack_from("<h", content, at)
        user = content[at + user_at : at + user_at + 32].split(b"\0")[0]
        seconds, micro = struct.unpack_from("<" + time_format, content, at + time_at)
        yield kind, user, seconds * 1000000 + micro


def find_shutdown_in_journal(boot_id: str, since_us: int) -> str:
    """Return the line of that boot's journal that reports its shutdown, "" if none."""
    program = shutil.which("journalctl")
    if program is None or not boot_id:
        return ""
    matches = [
        f"MESSAGE_ID={SHUTDOWN_IDS[0]}",
        "+",
        f"MESSAGE_ID={SHUTDOWN_IDS[1]}",
    ]
    command = [
        *(program, "--quiet", "--no-pager", "--output=cat"),
        *("--boot=" + boot_id.replace("-", ""), f"--since=@{since_us // 1000000}"),
        *matches,
    ]
    try:
        printed, failure = read_output_beginning(
            command, LINE_BYTES_MAX, SHUTDOWN_TIMEOUT_S
        )
    except OSError:
        return ""
    lines = printed.decode(errors="replace").strip().splitlines()
    return lines[0][:200] if lines and not failure else ""
