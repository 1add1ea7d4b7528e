"""A cluster's network: a namespace for each host, and a router that drops packets.

Each host has one device, a veth whose other end is in the router's namespace
(veth(4)).  The router forwards, and its rules decide what it drops (ip-rule(8),
"blackhole"): neither end learns of that, as in a network that fails.  No rule and no
device is in the host's own network, and dbcheck reaches each server by its published
port, whatever the router drops.
"""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Iterable
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import programs
from dbcheck.lab.network import Place, inside, open_network

_DEVICE = "eth0"
# Read and written by a thread in the router's network (Linux, ip-sysctl.rst).
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


class Way(enum.Enum):
    """Direction in which the router drops a host's packets; the value is of ip-rule."""

    FROM = "from"
    TO = "to"


BOTH_WAYS = frozenset(Way)


class Network:
    """See the module.

    hosts: name of each host -> its place.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Join the hosts of these names; raise LabError if this machine cannot."""
        self._dropped: set[tuple[Way, str]] = set()
        self._opened = contextlib.ExitStack()
        self.hosts: dict[str, Place] = {}
        try:
            self._make(names)
        except BaseException as error:
            self.close()
            if not isinstance(error, OSError):
                raise
            raise LabError(
                f"cannot make the cluster's network: {error.strerror}",
                id=ErrorId.LAB_NOT_BUILDABLE,
                hint="The kernel must have network namespaces and veth, and"
                f" {_FORWARD} must be writable.",
            ) from None

    def drop(self, name: str, ways: Iterable[Way]) -> None:
        """Drop the packets of that host these ways, and no others; raise LabError."""
        wanted = {(way, self.hosts[name].address) for way in ways}
        with inside(self._router):
            for way, address in wanted - self._dropped:
                _ip("rule", "add", way.value, address, "blackhole")
                self._dropped.add((way, address))
            for way, address in self._dropped - wanted:
                _ip("rule", "del", way.value, address, "blackhole")
                self._dropped.remove((way, address))

    def heal(self) -> None:
        """Drop nothing; raise LabError."""
        self.drop(next(iter(self.hosts)), ())

    def close(self) -> None:
        """Leave it: it ends with the last server in it.  Idempotent."""
        self._opened.close()

    def _make(self, names: Iterable[str]) -> None:
        self._router = self._open()
        with inside(self._router):
            _FORWARD.write_text("1\n")
        for number, name in enumerate(names, 1):
            self.hosts[name] = self._join(number)

    def _open(self) -> int:
        network = open_network()
        self._opened.callback(os.close, network)
        return network

    def _join(self, number: int) -> Place:
        """Join a new host to the router; return its place."""
        place = Place(self._open(), f"10.0.{number}.2")
        own, device = f"10.0.{number}.1", f"host{number}"
        with inside(self._router):
            other_end = ("peer", "name", _DEVICE, "netns", _path(place.namespace))
            _ip("link", "add", device, "type", "veth", *other_end)
            _ip("address", "add", f"{own}/24", "dev", device)
            _ip("link", "set", device, "up")
        with inside(place.namespace):
            _ip("address", "add", f"{place.address}/24", "dev", _DEVICE)
            _ip("link", "set", _DEVICE, "up")
            _ip("route", "add", "default", "via", own)
        return place


def _path(network: int) -> str:
    """Return the path of an open network namespace, for another process."""
    return f"/proc/{os.getpid()}/fd/{network}"


def _ip(*words: str) -> None:
    programs.run("ip", *words)
