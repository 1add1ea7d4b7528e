"""Finds the processes of a database server on this host, and kills a process.

Packages and users name a server's program as they like, so a server is recognised by
its usual names, or by the files that it holds open.  All of this is read from /proc,
and nothing from the drive, which may have no power.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence

from dbcheck.agent.wire import read_first_line, read_lines

# Numbers of system calls on all machines but Alpha and MIPS
# (linux/asm-generic/unistd.h); Python has both calls only since 3.9.
PIDFD_SEND_SIGNAL, PIDFD_OPEN = 424, 434
NUMBERED_OTHERWISE = ("alpha", "mips")
PROCESSES = "/proc"
# Names of servers' programs: Red Hat's services run the link postmaster, EDB's server
# has its own name, NixOS wraps programs, and several versions share a folder.  No
# exporter and no script that starts a server has such a name.
SERVER = re.compile(
    r"\.?(?:edb-)?(?:postgres|postmaster|mysqld|mariadbd)"
    r"(?:-debug|-wrapped|-?[0-9][0-9.]*)?"
)
# The script that starts a server again unless it was shut down.
GUARD = re.compile(r"(?:mysqld|mariadbd)[_-]safe")
GUARDS_MAX = 8  # levels: the script may start the server through another shell
DELETED = " (deleted)"  # proc(5), exe: shown after a package was upgraded
# Files below the data directory that InnoDB and Aria keep open to write.
HELD = re.compile(
    r"ibdata[0-9]+|ib_logfile[0-9]+|#innodb_redo/#ib_redo[0-9]+|undo_?[0-9]+"
    r"|mysql\.ibd|aria_log_control|aria_log\.[0-9]+"
)
# PostgreSQL's first process keeps no file open.  It locks the directory by a segment of
# System V memory (sysv_shmem.c, PGSharedMemoryCreate), which its children share.
SEGMENT = "/SYSV"  # proc(5), maps
STATE, PARENT = 0, 1  # proc(5), stat, counted from the field after the name
ENDED = ("Z", "X", "")


def kill_if_meant(pid: int, is_meant: Callable[[int], bool]) -> None:
    """Send SIGKILL to the process *pid* if *is_meant* returns True for it.

    A process that ends meanwhile may leave its id to another process.  So *is_meant* is
    called once a pidfd holds the process (pidfd_open(2)).  Linux before 5.3 has no
    pidfds, so there the id may change hands before the signal.  Raise OSError.
    """
    try:
        handle = make_system_call(PIDFD_OPEN, pid, 0)
    except ProcessLookupError:
        return
    except OSError:  # the call is unknown, or forbidden in a container
        handle = -1
    try:
        if not is_meant(pid):
            return
        with contextlib.suppress(ProcessLookupError):
            if handle < 0:
                os.kill(pid, signal.SIGKILL)
            else:
                make_system_call(PIDFD_SEND_SIGNAL, handle, signal.SIGKILL, None, 0)
    finally:
        if handle >= 0:
            os.close(handle)


def make_system_call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call and return its result; raise OSError if it fails."""
    if os.uname().machine.startswith(NUMBERED_OTHERWISE):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def find_server_processes(directory: str) -> Iterator[str]:
    """Yield the folder in /proc of each process of the server of *directory*.

    PostgreSQL, MySQL and MariaDB all work in their data directory (proc(5), cwd), which
    only their own account and root may see.  Any account may start a process of that
    name in a directory that it may search, so the process must belong to the
    directory's owner, or to root, as a process that changed its account does (proc(5)).
    A server in a container may have another path to the directory, and through its
    mounts another owner (mount_setattr(2), idmapped mounts); but see
    container.find_contained_servers().
    """
    real_directory = os.path.realpath(directory)
    try:
        directory_status = os.stat(real_directory)
    except OSError:
        return
    for folder in list_processes():
        try:
            path = os.readlink(folder + "/cwd")
            if path != real_directory and not has_own_mounts(folder):
                continue
            status = find_server_folder(folder, path)
        except OSError:  # it ended, or is another account's
            continue
        if status and os.path.samestat(status, directory_status):
            yield folder


def has_own_mounts(process: str) -> bool:
    """Return True if a process has another mount namespace; raise OSError."""
    return os.readlink(process + "/ns/mnt") != os.readlink("/proc/self/ns/mnt")


def find_server_folder(process: str, path: str) -> os.stat_result | None:
    """Return the status of the folder that a server's process works in; raise OSError.

    Return None for a process of another program, and for one whose account does not own
    the folder.
    path: of the folder, as the process's "cwd" shows it.
    """
    account = os.stat(process).st_uid
    if not is_account_process(process, path, account):
        return None
    status = os.stat(process + "/cwd")  # only of servers: any other may be on dead NFS
    return status if account in (status.st_uid, 0) else None


def list_processes() -> Iterator[str]:
    """Yield the folder in /proc of each process, in the order of their ids.

    Mostly the process that started the others is the first.
    """
    for name in sorted(filter(str.isdigit, os.listdir(PROCESSES)), key=int):
        yield os.path.join(PROCESSES, name)


def find_account_processes(directory: str, account: int) -> Iterator[str]:
    """Find a server's processes, for a directory that may be on a dead drive.

    directory: with links followed; a process may work in another directory of this
    path, see works_elsewhere().  account: the directory's owner.
    """
    for folder in list_processes():
        if is_account_process(folder, directory, account):
            yield folder


def is_account_process(process: str, directory: str, account: int) -> bool:
    """Return True if a process, by its folder in /proc, is of the account's server."""
    if not works_in(process, directory, account):
        return False
    program = read_program_path(process)
    names = read_first_line(process + "/comm"), os.path.basename(program)
    if any(map(SERVER.fullmatch, names)):
        return True
    if holds_data(process, directory):
        return True
    # PostgreSQL's logger detaches from the memory segment, so its parent is looked at.
    parent = os.path.join(PROCESSES, read_parent(process))
    return (
        works_in(parent, directory, account)
        and program != ""
        and read_program_path(parent) == program
        and holds_data(parent, directory)
    )


def works_in(process: str, directory: str, account: int) -> bool:
    """Return True if a process of that account, or root's, works in *directory*."""
    try:
        if os.readlink(process + "/cwd") != directory:
            return False
        return os.stat(process).st_uid in (account, 0)
    except OSError:  # it ended, or is another account's
        return False


def read_program_path(process: str) -> str:
    """Return the path of a process's program, "" if it is not shown (proc(5), exe).

    Unlike its name (comm), the path stays if the process renames itself.
    """
    try:
        path = os.readlink(process + "/exe")
    except OSError:
        return ""
    return path[: -len(DELETED)] if path.endswith(DELETED) else path


def read_parent(process: str) -> str:
    """Return the id of a process's parent, "" if the process ended."""
    return read_stat_fields(process)[PARENT]


def read_stat_fields(process: str) -> list[str]:
    """Return the fields after the name in proc(5), stat, and "" for missing ones."""
    return [*read_first_line(process + "/stat").rpartition(")")[2].split(), "", ""]


def holds_data(process: str, directory: str) -> bool:
    """Return True if a process has a segment, or files open to write, of a server.

    A program that copies or restores a server's files opens them as well, so files that
    are open only to be read, and files of PostgreSQL, do not count.
    """
    if any(" " + SEGMENT in line for line in read_lines(process + "/maps")):
        return True
    top = directory.rstrip("/") + "/"
    try:
        numbers = os.listdir(process + "/fd")
    except OSError:
        return False
    for number in numbers:
        try:
            path = os.readlink(f"{process}/fd/{number}")
        except OSError:
            continue
        path_in_directory = path[len(top) :] if path.startswith(top) else ""
        if HELD.fullmatch(path_in_directory) and is_writable(
            f"{process}/fdinfo/{number}"
        ):
            return True
    return False


def is_writable(fdinfo: str) -> bool:
    """Return True if a file is open to be written (proc(5), fdinfo: flags)."""
    for line in read_lines(fdinfo):
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def works_elsewhere(process: str, directory: str, known: Sequence[int]) -> bool:
    """Return True if one of the account's processes surely works in another directory.

    known: st_dev and st_ino of the server's directory before the cut.  Its drive may
    have come back under another number, so the directory that *directory* is now counts
    as well.  On a dead filesystem nothing is sure.
    """
    try:
        status = os.stat(process + "/cwd")
    except OSError:
        return False
    if [status.st_dev, status.st_ino] == list(known):
        return False
    try:
        return not os.path.samestat(status, os.stat(directory))
    except OSError:
        return True


def find_guards(pid: int, account: int) -> Iterator[int]:
    """Yield the parents of a server's process that would start the server again."""
    process = str(pid)
    for _ in range(GUARDS_MAX):
        process = read_parent(os.path.join(PROCESSES, process))
        if not is_guard(process, account):
            return
        yield int(process)


def is_guard(pid: str, account: int) -> bool:
    """Return True if a process is mysqld_safe, run by *account* or by root.

    A shell that runs the script has another name, and the script as its first argument.
    """
    process = os.path.join(PROCESSES, pid)
    try:
        owner = os.stat(process).st_uid
    except OSError:
        return False
    script = read_first_line(process + "/cmdline").split("\0")[1:2]
    names = [read_first_line(process + "/comm"), *map(os.path.basename, script)]
    if read_stat_fields(process)[STATE] in ENDED:
        return False
    return owner in (account, 0) and any(map(GUARD.fullmatch, names))


def pid_of(process: str) -> int:
    """Return the id of a process, by its folder in /proc."""
    return int(os.path.basename(process))
