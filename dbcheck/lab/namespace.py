"""Namespaces in which a lab's daemon runs, so that nothing outlives it.

With a mount, pid and ipc namespace of its own (namespaces(7)), the kernel itself
ends the processes, mounts, System V segments and loop devices of a lab when its
daemon dies, however it dies.  The network stays shared.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import programs, syscalls
from dbcheck.lab.programs import CAP_SYS_ADMIN, has_capability
from dbcheck.lab.server_account import Account

BASE = Path("/run/dbcheck-lab")  # of all labs; each has a /run of its own
_MS_BIND = 4096  # mount(2)
_LOOP_MAJOR = "7:"  # Linux, Documentation/admin-guide/devices.txt
_ESCAPED = re.compile(r"\\([0-7]{3})")
# Where servers and programs are, or what they need.
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/nix", "/opt", "/proc"),
    *("/run", "/sbin", "/snap", "/sys", "/usr", "/var"),
)
# Copies of the files that name accounts, with one more line (passwd(5), group(5)).
_NAMES = Path("/run/dbcheck-names")
_ENTRIES = {
    "/etc/passwd": "{name}:x:{id}:{id}:server of a lab:/nonexistent:/usr/sbin/nologin",
    "/etc/group": "{name}:x:{id}:",
}
_MASKED = (Path("/dev/shm"), Path("/run"))


def are_available() -> bool:
    """Return True if this process may make namespaces."""
    return has_capability(CAP_SYS_ADMIN) and programs.find("unshare") is not None


def command_prefix() -> list[str]:
    """Return the words before a command line that run it in new namespaces.

    The command becomes process 1 there, and is killed if `unshare` is killed.  What
    it mounts is seen by no other process; what others unmount goes there too, so that a
    lab does not keep their devices busy.
    """
    namespaces = ["--mount", "--pid", "--ipc", "--propagation=slave"]
    ends = ["--fork", "--kill-child=SIGKILL"]
    return [str(programs.require("unshare")), *namespaces, *ends, "--mount-proc"]


def leave_init_behind() -> None:
    """Return in a child; stay behind as process 1 until the child is dead.

    Process 1 inherits orphans, such as the children of a killed server, and must
    reap them; it also is deaf to signals from within.  When it ends, the kernel
    kills all others in the namespace.
    """
    child = os.fork()
    if child == 0:
        return
    while True:
        with contextlib.suppress(InterruptedError):
            if os.wait()[0] == child:
                os._exit(0)


def mask_system_folders(*visible: Path) -> None:
    """Cover /dev/shm and /run with empty memory filesystems.

    Servers leave shared memory in the one and want sockets and folders in the
    other.  The folders *visible* can still be reached by their paths.
    """
    held = {folder: os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in visible}
    for place in _MASKED:
        mode = "1777" if place.name == "shm" else "755"
        syscalls.mount("dbcheck-lab", str(place), "tmpfs", 0, f"mode={mode}")
    for folder, descriptor in held.items():
        if any(folder.is_relative_to(place) for place in _MASKED):
            folder.mkdir(parents=True)
            bind_mount(Path(f"/proc/self/fd/{descriptor}"), folder)
        os.close(descriptor)


def name_account(account: Account) -> None:
    """Have the account have a name, in this namespace alone; /run must be masked.

    initdb and postgres refuse an account without one.  Raise LabError if the C library
    does not find it: nsswitch.conf(5) may leave these files out.
    """
    _NAMES.mkdir(mode=0o755)
    try:
        for file, line in _ENTRIES.items():
            names = Path(file).read_bytes()
            copy = _NAMES / Path(file).name
            entry = line.format(name=account.name, id=account.uid)
            copy.write_bytes(names.rstrip(b"\n") + f"\n{entry}\n".encode())
            bind_mount(copy, Path(file))
        named = pwd.getpwuid(account.uid).pw_name
    except (OSError, KeyError):
        named = ""
    if named != account.name:
        raise LabError(
            f"the user id {account.uid} of the lab's server has no name here",
            id=ErrorId.UNPRIVILEGED_ACCOUNT_MISSING,
            hint='Have "files" among the sources of passwd and group in'
            f" /etc/nsswitch.conf, and have {' and '.join(_ENTRIES)}.",
        )


def drop_loop_mounts(*needed: Path) -> None:
    """Unmount, in this namespace alone, what other programs mounted from loop devices.

    Where / is not shared, their unmount does not come here, and would leave their
    device busy until the lab ends.  What holds one of the paths *needed* stays, and all
    in the folders of the system.
    """
    kept = [path.resolve() for path in (*needed, *map(Path, _SYSTEM))]
    for point in _parse_loop_mounts(Path("/proc/self/mountinfo").read_text()):
        holds = any(path.is_relative_to(point) for path in kept)
        system = any(point.is_relative_to(path) for path in map(Path, _SYSTEM))
        if not holds and not system:
            with contextlib.suppress(OSError):  # gone with the one that it was below
                syscalls.umount(str(point), syscalls.MNT_DETACH)


def _parse_loop_mounts(table: str) -> list[Path]:
    """Return the mount points of loop devices (proc(5), /proc/PID/mountinfo)."""
    lines = map(str.split, table.splitlines())
    found = [line[4] for line in lines if line[2].startswith(_LOOP_MAJOR)]
    return [Path(_ESCAPED.sub(lambda m: chr(int(m[1], 8)), point)) for point in found]


def bind_mount(source: Path, target: Path) -> None:
    """Make the folder or file *source* appear as *target*, one of its kind, too."""
    syscalls.mount(str(source), str(target), None, _MS_BIND)
