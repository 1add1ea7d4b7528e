"""Networks of a lab's servers: namespaces without a name, gone with their last user.

A network namespace lasts as long as it is open or a process is in it, and its devices
last as long as it does (network_namespaces(7), veth(4)).  So nothing of them is left,
however a lab ends, and no name of them clashes with one of the host.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from dbcheck.lab import namespace, programs, syscalls
from dbcheck.lab.programs import CAP_NET_ADMIN, has_capability

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1  # netdevice(7), linux/sockios.h
_IFREQ = struct.Struct("16sh14x")


LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Source:
    """The server that a standby follows: its port, and how to log in.

    member: the name by which that server lists the standby.
    host:   its address.
    """

    port: int
    password: str
    member: str
    host: str = LOOPBACK


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a server in its cluster's network.

    namespace: its network namespace, opened.  address: of IPv4.
    """

    namespace: int
    address: str


def open_network() -> int:
    """Make a network namespace with nothing but a loopback device; return it, opened.

    It lasts as long as it is open, or a process is in it.
    """
    with keeping_namespaces():
        syscalls.unshare(syscalls.CLONE_NEWNET)
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, _IFREQ.pack(b"lo", _IFF_UP))
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def inside(network: int) -> Iterator[None]:
    """Have this thread, and the processes that it starts, be in that network."""
    with keeping_namespaces():
        syscalls.setns(network)
        yield


@contextlib.contextmanager
def keeping_namespaces() -> Iterator[None]:
    """Take this thread back to its network, and its children to its pid namespace."""
    with contextlib.ExitStack() as back:
        for name in ("net", "pid"):
            own = os.open(f"/proc/thread-self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
            back.callback(os.close, own)
            back.callback(syscalls.setns, own)
        yield


def list_missing_for_network() -> list[str]:
    """List what this machine lacks for a cluster's network, each as a clause."""
    reasons = []
    if not namespace.are_available():
        reasons.append(
            "a network needs namespaces of its own (run dbcheck as root with"
            " CAP_SYS_ADMIN)"
        )
    elif not has_capability(CAP_NET_ADMIN):
        reasons.append("root lacks CAP_NET_ADMIN here (a container?)")
    if programs.find("ip") is None:
        reasons.append(programs.lacking("ip"))
    return reasons
