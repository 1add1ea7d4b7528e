"""Distinguishes hosts by their addresses and machine ids, as this client sees them."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dbcheck.agent.wire import list_addresses

_DISCARD_PORT = 9


@dataclass(frozen=True, slots=True)
class TargetLocation:
    """The hosts on which a target may be.

    here:   the driver may connect to this client's own host, by a socket file, loopback
            or one of the host's addresses.  Another program may answer there.
    others: each other host that the driver may connect to -> its addresses; none if
            its name does not resolve.
    """

    here: bool
    others: Mapping[str, frozenset[str]]


def locate_target(endpoints: Iterable[tuple[str, int]]) -> TargetLocation:
    """Return a target's location; looks up the names of its hosts.

    endpoints: the hosts and ports to which the driver may connect (ports.engine).  Some
    of them can be on this host and others elsewhere.
    """
    hosts = {host for host, _ in endpoints}
    others = {host: resolve(host) for host in sorted(hosts - {""})}
    own = {
        host
        for host, addresses in others.items()
        if any(map(is_own_address, addresses))
    }
    for host in own:
        others[host] = frozenset(
            address for address in others[host] if not is_own_address(address)
        )
        if not others[host]:
            del others[host]
    return TargetLocation("" in hosts or bool(own), others)


def read_machine_id() -> str:
    """Return this client's machine id, "" if it has none (machine-id(5))."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""


def read_boot_id() -> str:
    """Return this client's boot id, "" if it is not known (random(4))."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def resolve(host: str) -> frozenset[str]:
    """Return the addresses of a host, given by its name or address; empty if none.

    Python's drivers look a name up in the form of IDNA (RFC 3490), libpq as written.
    """
    names = {host.encode(errors="surrogateescape")}
    # libpq looks up any name that /etc/hosts has, also one that IDNA does not allow.
    with contextlib.suppress(UnicodeError):
        names.add(host.encode("idna"))
    entries = []
    for name in names:
        with contextlib.suppress(OSError, ValueError):
            entries += socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return frozenset(
        _unmap_address(str(entry[4][0]).partition("%")[0]) for entry in entries
    )


def _unmap_address(address: str) -> str:
    """Return the IPv4 address that is mapped into *address*, else *address*."""
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def is_own_address(address: str) -> bool:
    """Return True if this host lists *address* as its own, or sends from it.

    It does not tell whose program answers there.  Return False for a text that is no
    address.  A host lists more addresses than it sends from: to the second of
    its addresses in a network the kernel sends from the first, and it sends from a new
    address of IPv6 only once it has looked for another host that has it (RFC 4862).  A
    successful bind() would show less: a system may allow it for any address
    (net.ipv4.ip_nonlocal_bind).
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if parsed.is_loopback or parsed.is_unspecified or str(parsed) in list_addresses():
        return True
    if parsed.version == 4:
        return _find_source_address((address, _DISCARD_PORT)) == parsed
    # A link-local address needs its link (RFC 4007), which *address* does not name.
    links = [n for n, _ in socket.if_nameindex()] if parsed.is_link_local else [0]
    return any(
        _find_source_address((address, _DISCARD_PORT, 0, link)) == parsed
        for link in links
    )


def _find_source_address(
    place: tuple[str, int] | tuple[str, int, int, int],
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address from which this host sends to *place*, None if it cannot."""
    family = socket.AF_INET if len(place) == 2 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # a datagram socket sends nothing here
            source = str(probe.getsockname()[0])
    except OSError:
        return None
    return ipaddress.ip_address(source.partition("%")[0])
