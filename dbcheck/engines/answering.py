"""Whether a connection reached the server that it was meant to reach.

A load balancer, a proxy or a name with several addresses may lead one connection to a
server and the next to another.  So each connection that matters is checked itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import OtherServer
from dbcheck.model.server import ServerFacts


@dataclass(frozen=True, slots=True)
class Answering:
    """What a server reports about itself over one connection.

    started_us, identity: as in ServerFacts; of the latter what is known here.
    standby: it follows another server.
    """

    started_us: int
    standby: bool = False
    identity: Mapping[str, str] = field(default_factory=dict)


def require_same(target: str, server: ServerFacts, found: Answering) -> None:
    """Raise OtherServer if *found* is not the same process of the same *server*.

    target: how error messages name the address that leads to it.
    """
    if why := _difference(server, found):
        raise OtherServer(
            f"two connections to {target} reached different servers ({why}): there is a"
            " load balancer or proxy in between, or the server restarted",
            id=ErrorId.DIFFERENT_SERVERS_ANSWER,
            hint="Connect to the server directly, without a load balancer or proxy.",
        )


def _difference(server: ServerFacts, found: Answering) -> str:
    """Return in what they differ, "" if in nothing that is known of both."""
    for name in sorted(server.identity.keys() & found.identity.keys()):
        now, before = found.identity[name], server.identity[name]
        if now != before:
            return f"{name} is {now} instead of {before}"
    apart_us = found.started_us - server.started_us
    if abs(apart_us) > 2 * server.started_error_us:
        later = "later" if apart_us > 0 else "earlier"
        return f"it started {abs(apart_us) / 1e6:.6g} s {later}"
    return "it is a standby" if found.standby and not server.may_follow else ""
