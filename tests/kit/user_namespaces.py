"""A command in a container whose accounts have other numbers outside of it."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dbcheck.agent.host.servers import make_system_call

SHIFT = 1_000_000  # between the number of an account inside and outside
_ACCOUNTS = 65_536
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # asm-generic/unistd.h
_CLONE, _CLOEXEC = 1, os.O_CLOEXEC  # linux/mount.h, open_tree(2)
_HERE, _HANDLE_ITSELF = -100, 0x1000  # AT_FDCWD and AT_EMPTY_PATH, openat(2)
_FROM_HANDLE = 4  # move_mount(2)
_IDMAP = 0x100000  # MOUNT_ATTR_IDMAP

# The process that unshares has its rights in the new namespace until it executes a
# program (user_namespaces(7)), so it becomes root of it before that.
_INSIDE = """
import ctypes, os, signal, sys
tree, inside, uid, gid, *command = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def require(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
NEWNS, NEWUSER, NEWPID, DEATHSIG = 0x20000, 1 << 28, 1 << 29, 1
MOVE_MOUNT, HERE, FROM_HANDLE = 429, -100, 4
require(libc.unshare(NEWUSER | NEWNS | NEWPID))
print(flush=True)
sys.stdin.readline()
os.setgroups([])
os.setresgid(0, 0, 0)
os.setresuid(0, 0, 0)
child = os.fork()
if child:
    os._exit(os.waitpid(child, 0)[1])
top = os.path.dirname(inside)
require(libc.mount(b"none", b"/proc", b"proc", 0, None))
require(libc.mount(b"none", top.encode(), b"tmpfs", 0, b"mode=755"))
os.mkdir(inside)
require(libc.syscall(MOVE_MOUNT, int(tree), b"", HERE, inside.encode(), FROM_HANDLE))
os.close(int(tree))
os.chdir(inside)
os.setgid(int(gid))
os.setuid(int(uid))
require(libc.prctl(DEATHSIG, signal.SIGKILL, 0, 0, 0))
os.execv(command[0], command)
"""


@contextlib.contextmanager
def running_inside(
    command: Sequence[str],
    data: Path,
    inside: Path,
    uid: int,
    gid: int,
    *,
    idmapped: bool = False,
) -> Iterator[subprocess.Popen[str]]:
    """Run *command* as an account of a user namespace, until the block ends.

    It has pids and mounts of its own; *inside*, a folder of a folder that is there, is
    *data* for it.  idmapped: its account owns there what the account of the same number
    owns in *data*, as with Kubernetes' hostUsers: false.
    """
    with cloned_tree(data) as tree:
        words = (str(tree), str(inside), str(uid), str(gid), *command)
        with subprocess.Popen(
            (sys.executable, "-I", "-S", "-c", _INSIDE, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(tree,),
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdin is not None
                assert process.stdout.readline() == "\n"
                map_accounts(process.pid)
                if idmapped:
                    idmap(tree, process.pid)
                process.stdin.write("\n")
                process.stdin.flush()
                yield process
            finally:
                process.kill()


def map_accounts(process: int) -> None:
    """Give the new user namespace of a process the accounts from SHIFT on."""
    for name in ("uid_map", "gid_map"):
        mapped = Path("/proc", str(process), name)
        mapped.write_text(f"0 {SHIFT} {_ACCOUNTS}\n")


@contextlib.contextmanager
def cloned_tree(folder: Path) -> Iterator[int]:
    """Give the descriptor of a mount of *folder* that is nowhere yet (open_tree(2))."""
    tree = make_system_call(_OPEN_TREE, _HERE, str(folder).encode(), _CLONE | _CLOEXEC)
    try:
        yield tree
    finally:
        os.close(tree)


def idmap(tree: int, process: int) -> None:
    """Let a mount show owners by the user namespace of a process (mount_setattr(2))."""
    accounts = os.open(f"/proc/{process}/ns/user", os.O_RDONLY)
    try:
        how = struct.pack("=4Q", _IDMAP, 0, 0, accounts)
        make_system_call(_MOUNT_SETATTR, tree, b"", _HANDLE_ITSELF, how, len(how))
    finally:
        os.close(accounts)


@contextlib.contextmanager
def showing_other_owners(folder: Path) -> Iterator[None]:
    """Mount a folder over itself so that it shows accounts from SHIFT on."""
    with (
        subprocess.Popen(
            ("unshare", "--user", "sh", "-c", "echo; read wait"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process,
        cloned_tree(folder) as tree,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        map_accounts(process.pid)
        idmap(tree, process.pid)
        place = str(folder).encode()
        make_system_call(_MOVE_MOUNT, tree, b"", _HERE, place, _FROM_HANDLE)
        process.communicate(b"\n")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
