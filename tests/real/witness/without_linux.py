"""Takes away from a Python process what POSIX does not have, as far as that goes.

Runs before everything else: in front of an agent's program, and as sitecustomize in a
client and in its processes.  Python 3.8 and its standard library.
"""

import fcntl
import os
import select
import selectors
import signal
import socket
import sys
import sysconfig
from typing import Any

_PREFIXES = {
    os: ("CLONE_", "EFD_", "MFD_", "O_DIRECT", "O_NOATIME", "O_PATH", "O_TMPFILE")
    + ("RWF_", "SCHED_", "SPLICE_", "TFD_", "XATTR_", "copy_file_range", "eventfd")
    + ("fdatasync", "getrandom", "getresuid", "getxattr", "memfd_", "pidfd_", "pipe2")
    + ("posix_fadvise", "posix_fallocate", "sched_", "setns", "splice", "timerfd_")
    + ("unshare",),
    select: ("EPOLL", "epoll"),
    signal: ("pidfd_", "sigtimedwait", "sigwaitinfo"),
    socket: ("SO_DOMAIN", "SO_PASS", "SO_PEERCRED", "SOCK_CLOEXEC", "SOCK_NONBLOCK")
    + ("TCP_INFO", "TCP_KEEPIDLE", "TCP_USER_TIMEOUT"),
    fcntl: ("F_OFD_", "F_SETPIPE_SZ"),
}
for _module, _prefixes in _PREFIXES.items():
    for _name in list(vars(_module)):
        if _name.startswith(_prefixes) and not _name.startswith("O_DIRECTORY"):
            delattr(_module, _name)
del selectors.EpollSelector
selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc,assignment]
sysconfig.get_config_vars()  # looks for a file named after the platform
sys.platform = "freebsd14"


def _in_proc(path: object) -> bool:
    if not isinstance(path, (str, bytes, os.PathLike)):  # a descriptor
        return False
    return os.fsdecode(path).startswith("/proc")


def _refuse_proc(event: str, arguments: Any) -> None:
    if event in ("open", "os.listdir", "os.scandir") and _in_proc(arguments[0]):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


def _stat(path: Any, **more: Any) -> os.stat_result:
    if _in_proc(path):
        raise FileNotFoundError(2, "No such file or directory", path)
    return _real_stat(path, **more)


_real_stat, os.stat = os.stat, _stat
sys.addaudithook(_refuse_proc)
