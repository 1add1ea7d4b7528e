"""A command in a container whose accounts have other numbers outside of it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

SHIFT = 1_000_000  # between the number of an account inside and outside

# The process that unshares has its rights in the new namespace until it executes a
# program (user_namespaces(7)), so it becomes root of it before that.
_INSIDE = """
import ctypes, os, signal, sys
data, inside, uid, gid, *command = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def require(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
NEWNS, NEWUSER, NEWPID, BIND, DEATHSIG = 0x20000, 1 << 28, 1 << 29, 4096, 1
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
require(libc.mount(data.encode(), inside.encode(), None, BIND, None))
os.chdir(inside)
os.setgid(int(gid))
os.setuid(int(uid))
require(libc.prctl(DEATHSIG, signal.SIGKILL, 0, 0, 0))
os.execv(command[0], command)
"""


@contextlib.contextmanager
def running_inside(
    command: Sequence[str], data: Path, inside: Path, uid: int, gid: int
) -> Iterator[subprocess.Popen[str]]:
    """Run *command* as an account of a user namespace, until the block ends.

    It has pids and mounts of its own; *inside*, a folder of a folder that is there, is
    *data* for it.
    """
    words = (str(data), str(inside), str(uid), str(gid), *command)
    with subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", _INSIDE, *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "\n"
            for name in ("uid_map", "gid_map"):
                mapped = Path("/proc", str(process.pid), name)
                mapped.write_text(f"0 {SHIFT} 65536\n")
            process.stdin.write("\n")
            process.stdin.flush()
            yield process
        finally:
            process.kill()
