"""Distinguishes hosts by their addresses and machine ids, as this client sees them."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dbcheck.agent.wire import list_addresses

_ANY_PORT = 9


@dataclass(frozen=True, slots=True)
class TargetLocation:
    """The place of a target.

    here:   on this client's own host (a socket file, loopback, an own address), whoever
            answers there.
    others: each other host that the driver may connect to, with its addresses; none if
            its name does not resolve.
    """

    here: bool
    others: Mapping[str, frozenset[str]]


def locate_target(endpoints: Iterable[tuple[str, int]]) -> TargetLocation:
    """Return a target's location; looks its host names up.

    endpoints: where the driver may connect (ports.engine).  It may try several hosts:
    one of them can be here and another one elsewhere.
    """
    hosts = {host for host, _ in endpoints}
    others = {host: resolve(host) for host in sorted(hosts - {""})}
    own = {host for host, found in others.items() if any(map(is_own_address, found))}
    for host in own:
        others[host] = frozenset(
            each for each in others[host] if not is_own_address(each)
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
    """Return the id of this client's kernel since boot, "" if unknown (random(4))."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def resolve(host: str) -> frozenset[str]:
    """Return the addresses of a host by its name or address; empty if there is none.

    Python's drivers look a name up as IDNA has it (RFC 3490), libpq as it stands.
    """
    names = {host.encode(errors="surrogateescape")}
    with contextlib.suppress(UnicodeError):  # libpq takes any that /etc/hosts has
        names.add(host.encode("idna"))
    found = []
    for name in names:
        with contextlib.suppress(OSError, ValueError):
            found += socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return frozenset(
        _plain_address(str(entry[4][0]).partition("%")[0]) for entry in found
    )


def _plain_address(address: str) -> str:
    """Return the IPv4 address that an address of IPv6 stands for, else *address*."""
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def is_own_address(address: str) -> bool:
    """Return True if *address* belongs to this host: it shows it, or sends from it.

    It does not say whose program answers there.  False for what is no address.  A host
    shows more than it sends from: from a second address in a network the kernel sends
    by the first one there, and from a new one of IPv6 not before it has looked for
    another host that has it (RFC 4862).  To bind an address shows less: a system may
    allow that for any (net.ipv4.ip_nonlocal_bind).
    """
    try:
        asked = ipaddress.ip_address(address)
    except ValueError:
        return False
    if asked.is_loopback or asked.is_unspecified or str(asked) in list_addresses():
        return True
    if asked.version == 4:
        return _find_source_address((address, _ANY_PORT)) == asked
    # A link-local address needs the link (RFC 4007); its name was lost on the way here.
    links = [n for n, _ in socket.if_nameindex()] if asked.is_link_local else [0]
    return any(
        _find_source_address((address, _ANY_PORT, 0, link)) == asked for link in links
    )


def _find_source_address(
    place: tuple[str, int] | tuple[str, int, int, int],
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address from which this host sends to *place*, None if it cannot."""
    family = socket.AF_INET if len(place) == 2 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # which sends nothing
            source = str(probe.getsockname()[0])
    except OSError:
        return None
    return ipaddress.ip_address(source.partition("%")[0])
