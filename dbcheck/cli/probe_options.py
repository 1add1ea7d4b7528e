"""Options and messages that all probes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cli import assemble
from dbcheck.cli.entry_options import HostUrl
from dbcheck.cli.groups import Flag
from dbcheck.inventory.entry import Entry
from dbcheck.ports.host import TargetHost


@dataclass(frozen=True)
class ProbedHost(HostUrl):
    """The target's host, whose drives are looked at."""

    target_host: Annotated[
        str | None,
        Flag(
            "--target-host",
            metavar="URL",
            help="The target's host, ssh://user@host:port, or local: if it is this "
            "one. The user there must be able to write in the directory of the log.",
        ),
    ] = None


def named(entry: Entry) -> str:
    """Return what messages call the target of *entry*."""
    return entry.name or entry.target or entry.host or ""


def host_of(entry: Entry) -> TargetHost:
    """Return the host of *entry*; raise HostError if none is named."""
    host = assemble.entry_host(entry)
    if host is None:
        raise HostError(
            "its host is not known",
            id=ErrorId.TARGET_HOST_MISSING,
            hint="Name it by --target-host, or by ansible_host in the inventory, "
            "without dbcheck_ask_host: false.",
        )
    return host
