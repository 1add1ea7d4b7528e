"""Namespaces in which a lab's daemon runs, so that nothing of the lab outlives it.

As the daemon has its own mount, pid and ipc namespaces (namespaces(7)), the kernel
itself ends the processes, mounts, System V segments and loop devices of a lab when its
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

# The mount point of every lab is below this folder; each lab has its own /run.
BASE = Path("/run/dbcheck-lab")
_MS_BIND = 4096  # mount(2)
_LOOP_MAJOR = "7:"  # Linux, Documentation/admin-guide/devices.txt
_ESCAPED_CHARACTER = re.compile(r"\\([0-7]{3})")
# The folders of the system: programs, and what they need.
_SYSTEM_FOLDERS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/nix", "/opt", "/proc"),
    *("/run", "/sbin", "/snap", "/sys", "/usr", "/var"),
)
# Copies of the files that name accounts, with one more line (passwd(5), group(5)).
_NAME_FILES_FOLDER = Path("/run/dbcheck-names")
_ACCOUNT_LINES = {
    "/etc/passwd": "{name}:x:{id}:{id}:server of a lab:/nonexistent:/usr/sbin/nologin",
    "/etc/group": "{name}:x:{id}:",
}
_MASKED_FOLDERS = (Path("/dev/shm"), Path("/run"))


def are_available() -> bool:
    """Return True if this process may make namespaces."""
    return has_capability(CAP_SYS_ADMIN) and programs.find("unshare") is not None


def command_prefix() -> list[str]:
    """Return the words before a command line that run it in new namespaces.

    The command becomes process 1 of its pid namespace, and is killed if `unshare` is
    killed.  Other processes do not see what it mounts; what they unmount is unmounted
    in its namespace as well, so that a lab does not keep their devices busy.
    """
    namespaces = ["--mount", "--pid", "--ipc", "--propagation=slave"]
    ends = ["--fork", "--kill-child=SIGKILL"]
    return [str(programs.require("unshare")), *namespaces, *ends, "--mount-proc"]


def leave_init_behind() -> None:
    """Return in a child; stay behind as process 1 until the child is dead.

    Process 1 inherits orphans, such as the children of a killed server, and must reap
    them; it also ignores signals from within the namespace.  When it ends, the kernel
    kills all other processes of the namespace.
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

    Servers leave shared memory in /dev/shm, and want sockets and folders in /run.  The
    folders *visible* can still be reached by their paths.
    """
    descriptors = {
        folder: os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in visible
    }
    for masked in _MASKED_FOLDERS:
        mode = "1777" if masked.name == "shm" else "755"
        syscalls.mount("dbcheck-lab", str(masked), "tmpfs", 0, f"mode={mode}")
    for folder, descriptor in descriptors.items():
        if any(folder.is_relative_to(masked) for masked in _MASKED_FOLDERS):
            folder.mkdir(parents=True)
            bind_mount(Path(f"/proc/self/fd/{descriptor}"), folder)
        os.close(descriptor)


def name_account(account: Account) -> None:
    """Give the account its name, in this namespace alone; /run must be masked before.

    initdb and postgres refuse an account without a name.  Raise LabError if the C
    library does not find the name: nsswitch.conf(5) may leave these files out.
    """
    _NAME_FILES_FOLDER.mkdir(mode=0o755)
    try:
        for file, line in _ACCOUNT_LINES.items():
            content = Path(file).read_bytes()
            copy = _NAME_FILES_FOLDER / Path(file).name
            entry = line.format(name=account.name, id=account.uid)
            copy.write_bytes(content.rstrip(b"\n") + f"\n{entry}\n".encode())
            bind_mount(copy, Path(file))
        name = pwd.getpwuid(account.uid).pw_name
    except (OSError, KeyError):
        name = ""
    if name != account.name:
        raise LabError(
            f"the user id {account.uid} of the lab's server has no name here",
            id=ErrorId.UNPRIVILEGED_ACCOUNT_MISSING,
            hint='Have "files" among the sources of passwd and group in'
            f" /etc/nsswitch.conf, and have {' and '.join(_ACCOUNT_LINES)}.",
        )


def drop_loop_mounts(*needed: Path) -> None:
    """Unmount, in this namespace alone, what other programs mounted from loop devices.

    Where / is not a shared mount, an unmount by those programs does not reach this
    namespace, so that their device would stay busy until the lab ends.  A mount that
    holds one of the paths *needed* stays, and so does each in the system's folders.
    """
    kept = [path.resolve() for path in (*needed, *map(Path, _SYSTEM_FOLDERS))]
    for point in _parse_loop_mounts(Path("/proc/self/mountinfo").read_text()):
        holds_kept = any(path.is_relative_to(point) for path in kept)
        is_system = any(
            point.is_relative_to(path) for path in map(Path, _SYSTEM_FOLDERS)
        )
        if not holds_kept and not is_system:
            # It may have gone with the mount that it was below.
            with contextlib.suppress(OSError):
                syscalls.umount(str(point), syscalls.MNT_DETACH)


def _parse_loop_mounts(table: str) -> list[Path]:
    """Return the mount points of loop devices (proc(5), /proc/PID/mountinfo)."""
    lines = map(str.split, table.splitlines())
    points = [line[4] for line in lines if line[2].startswith(_LOOP_MAJOR)]
    return [
        Path(_ESCAPED_CHARACTER.sub(lambda match: chr(int(match[1], 8)), point))
        for point in points
    ]


def bind_mount(source: Path, target: Path) -> None:
    """Make *source* appear as *target* as well; both are folders, or both are files."""
    syscalls.mount(str(source), str(target), None, _MS_BIND)
