"""Which host is which: addresses and machine ids, as far as this client can see."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError

_ANY_PORT = 9


@dataclass(frozen=True, slots=True)
class TargetLocation:
    """Where a target's URL leads.

    here:      this client's own host (a socket file, loopback, an own address), whoever
               answers there.
    addresses: what its host name resolves to; empty if it does not.
    """

    here: bool
    addresses: frozenset[str]


def locate_target(target: str) -> TargetLocation:
    """Return where the SQLAlchemy URL *target* leads; looks its host name up."""
    hosts = _hosts(target)
    if not hosts:
        return TargetLocation(True, frozenset())
    addresses = frozenset[str]().union(*map(resolve, hosts))
    return TargetLocation(any(is_own(address) for address in addresses), addresses)


def _hosts(target: str) -> list[str]:
    """Return the hosts that the driver will connect to; none if by a socket file."""
    try:
        parts = urlsplit(target)
        hosts = [parts.hostname or ""]
    except ValueError:
        raise UsageError(
            f"{target} is not a URL", id=ErrorId.TARGET_URL_INVALID
        ) from None
    # libpq's own parameters win over the URL's host.
    for name, values in parse_qs(parts.query).items():
        if name in ("host", "hostaddr"):
            hosts = [host for value in values for host in value.split(",")]
    return [host for host in hosts if host and not host.startswith("/")]


def machine_id() -> str:
    """Return this client's machine id, "" if it has none (machine-id(5))."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""


def boot_id() -> str:
    """Return the id of this client's kernel since boot, "" if unknown (random(4))."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def resolve(host: str) -> frozenset[str]:
    """Return the addresses of a host by its name or address; empty if there is none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return frozenset()
    return frozenset(str(entry[4][0]).partition("%")[0] for entry in found)


def is_own(address: str) -> bool:
    """Return whether *address* belongs to this host: what goes there comes from it.

    It does not say whose program answers there.  False for what is no address.  To bind
    it shows less: a system may allow that for any address (net.ipv4.ip_nonlocal_bind).
    """
    try:
        asked = ipaddress.ip_address(address)
    except ValueError:
        return False
    if asked.is_loopback or asked.is_unspecified:
        return True
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, _ANY_PORT))  # which sends nothing
            source = str(probe.getsockname()[0])
        except OSError:
            return False
    return ipaddress.ip_address(source) == asked
