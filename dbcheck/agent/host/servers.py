"""Finds the processes of a database server on this host, and ends one of them.

Packages and users name a server's program as they like, so it is known by its usual
names, or by what it holds.  All of that is read in /proc, and none of it from the
drive, which may have no power.
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

# Their numbers on all machines but Alpha and MIPS (linux/asm-generic/unistd.h); Python
# has both calls since 3.9.
PIDFD_SEND_SIGNAL, PIDFD_OPEN = 424, 434
NUMBERED_OTHERWISE = ("alpha", "mips")
PROCESSES = "/proc"
# Names of their programs: Red Hat's services run the link postmaster, EDB's server has
# a name of its own, NixOS wraps programs, and several versions share a folder.  No
# exporter, nor the script that starts a server, has one of them.
SERVER = re.compile(
    r"\.?(?:edb-)?(?:postgres|postmaster|mysqld|mariadbd)"
    r"(?:-debug|-wrapped|-?[0-9][0-9.]*)?"
)
# The script that starts it again whenever it ends otherwise than by a shutdown.
GUARD = re.compile(r"(?:mysqld|mariadbd)[_-]safe")
GUARDS_MAX = 8  # it may start the server by a shell of its own
DELETED = " (deleted)"  # proc(5), exe: a package was upgraded since
# Files of the data that InnoDB and Aria keep open to write, below the directory.
HELD = re.compile(
    r"ibdata[0-9]+|ib_logfile[0-9]+|#innodb_redo/#ib_redo[0-9]+|undo_?[0-9]+"
    r"|mysql\.ibd|aria_log_control|aria_log\.[0-9]+"
)
# PostgreSQL's first process keeps none open.  It locks the directory by a segment of
# System V's memory (sysv_shmem.c, PGSharedMemoryCreate), which its children share.
SEGMENT = "/SYSV"  # proc(5), maps
STATE, PARENT = 0, 1  # proc(5), stat, counted from the field after the name
ENDED = ("Z", "X", "")


def kill_if_meant(pid: int, is_meant: Callable[[int], bool]) -> None:
    """Send SIGKILL to a process if *is_meant* says that it is the one that is meant.

    A process that ends meanwhile may leave its number to another one.  So it is looked
    at once it is held (pidfd_open(2)); Linux before 5.3 holds none, and there the
    moment between the look and the signal stays.  Raise OSError.
    """
    try:
        handle = make_system_call(PIDFD_OPEN, pid, 0)
    except ProcessLookupError:
        return
    except OSError:  # not known, or forbidden in a container
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


def make_system_call(number: int, *arguments: int | None) -> int:
    """Make a system call and return its result; raise OSError if it fails."""
    if os.uname().machine.startswith(NUMBERED_OTHERWISE):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    found: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


def find_server_processes(directory: str) -> Iterator[str]:
    """Yield the folder in /proc of each process of the server of *directory*.

    PostgreSQL, MySQL and MariaDB all change to their data directory (proc(5), cwd),
    which only their own account and root may see.  Any account may give a process their
    name, and change to a directory that it may search; so the process must belong to
    the directory's owner.  That of one which changed its account is root's (proc(5)).
    That in a container may work in another folder of the same path.
    """
    wanted = os.path.realpath(directory)
    try:
        own = os.stat(wanted)
    except OSError:
        return
    for folder in find_account_processes(wanted, own.st_uid):
        try:
            works_there = os.path.samestat(os.stat(folder + "/cwd"), own)
        except OSError:  # it ended
            continue
        if works_there:
            yield folder


def find_account_processes(directory: str, account: int) -> Iterator[str]:
    """Find a server's processes, for a directory that may be on a dead drive.

    In the order of their ids: the process that started the others is mostly the first.
    directory: with links followed; that of a process has the same path, and may be
    another one, see works_elsewhere().  account: of its owner.
    """
    for name in sorted(filter(str.isdigit, os.listdir(PROCESSES)), key=int):
        folder = os.path.join(PROCESSES, name)
        if is_account_process(folder, directory, account):
            yield folder


def is_account_process(process: str, directory: str, account: int) -> bool:
    """Return True if the process with that folder in /proc is of that account."""
    if not works_in(process, directory, account):
        return False
    program = read_program_path(process)
    names = read_first_line(process + "/comm"), os.path.basename(program)
    if any(map(SERVER.fullmatch, names)):
        return True
    if holds_data(process, directory):
        return True
    # PostgreSQL's logger lets go of what it was started with.
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

    Other than its name (comm), it stays as it is if the process renames itself.
    """
    try:
        path = os.readlink(process + "/exe")
    except OSError:
        return ""
    return path[: -len(DELETED)] if path.endswith(DELETED) else path


def read_parent(process: str) -> str:
    """Return the id of the process that started it, "" if it ended."""
    return read_stat_fields(process)[PARENT]


def read_stat_fields(process: str) -> list[str]:
    """Return the first fields after its name in proc(5), stat; "" if it ended."""
    return [*read_first_line(process + "/stat").rpartition(")")[2].split(), "", ""]


def holds_data(process: str, directory: str) -> bool:
    """Return True if a process keeps open what only a server does.

    What copies or restores a server's files opens some of them as well, and PostgreSQL
    is not told from that by them.
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
        inside = path[len(top) :] if path.startswith(top) else ""
        if HELD.fullmatch(inside) and is_writable(f"{process}/fdinfo/{number}"):
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

    known: st_dev and st_ino of the server's.  Its drive may have come back under
    another number, so it is also the one that is there now.  On a dead filesystem
    nothing is sure.
    """
    try:
        found = os.stat(process + "/cwd")
    except OSError:
        return False
    if [found.st_dev, found.st_ino] == list(known):
        return False
    try:
        return not os.path.samestat(found, os.stat(directory))
    except OSError:
        return True


def find_guards(pid: int, account: int) -> Iterator[int]:
    """Yield the processes above that of a server that would start it again."""
    process = str(pid)
    for _ in range(GUARDS_MAX):
        process = read_parent(os.path.join(PROCESSES, process))
        if not is_guard(process, account):
            return
        yield int(process)


def is_guard(pid: str, account: int) -> bool:
    """Return True if it is mysqld_safe, run by that account or by root.

    A shell that was given the script has another name, and the script as an argument.
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
