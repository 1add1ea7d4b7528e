"""The hosts of a group that are one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.fields import PREFIX
from dbcheck.model.cluster import CLUSTER_NODES_MIN, SiteKind
from dbcheck.model.replication import PromotedBy

_OF_ALL = ("topology", "survives", "promoted_by", "promote")  # the writer is the same


def cluster_of(group: str, hosts: Sequence[Entry]) -> Entry:
    """Return the writer, with the other *hosts* of the group as its standbys.

    Raise UsageError if they do not describe one and the same cluster.
    """
    first = hosts[0]
    for name in _OF_ALL:
        values = {getattr(host, name) for host in hosts}
        if len(values) > 1:
            raise _wrong(
                first,
                group,
                f"its hosts do not have the same {PREFIX}{name}",
                id=ErrorId.CLUSTER_VARIABLES_DIFFER,
                hint="Set it once, in the vars of the group.",
            )
    if len(hosts) < CLUSTER_NODES_MIN:
        raise _wrong(
            first,
            group,
            "a cluster has two hosts or more",
            id=ErrorId.CLUSTER_TOO_SMALL,
            hint="Add its standbys.",
        )
    by_name = {host.name: host for host in hosts}
    if first.writer not in by_name:
        raise _wrong(
            first,
            group,
            f"{PREFIX}writer is {first.writer!r}, which is not one of its hosts",
            id=ErrorId.WRITER_NOT_IN_CLUSTER,
            hint=f"Name the host that takes the writes: {', '.join(by_name)}.",
        )
    by_command = first.promote or first.promoted_by == PromotedBy.COMMAND.value
    if by_command and SiteKind(first.topology).is_group:
        raise _wrong(
            first,
            group,
            f"no node of {first.topology} is promoted",
            id=ErrorId.PROMOTION_NOT_FOR_GROUP,
            hint=f"Leave out {PREFIX}promote; {PREFIX}promoted_by may be sql or auto."
            " The nodes decide by majority who takes writes.",
        )
    if bool(first.promote) != (first.promoted_by == PromotedBy.COMMAND.value):
        raise _wrong(
            first,
            group,
            f"{PREFIX}promote goes with {PREFIX}promoted_by: command",
            id=ErrorId.PROMOTION_INCOMPLETE,
            hint="Give both, or neither.",
        )
    writer = by_name.pop(first.writer)
    return replace(writer, standbys=tuple(by_name.values()))


def _wrong(host: Entry, group: str, what: str, *, id: ErrorId, hint: str) -> UsageError:
    return UsageError(f"{host.inventory}: group {group}: {what}", id=id, hint=hint)
