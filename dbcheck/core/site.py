"""Which nodes hold the data, and whose data may be read after a cut."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from dbcheck.core.server import difference, unread_identity

ONLY_NODE = "server"  # the name of the node of a single server


class SiteKind(enum.Enum):
    """The kinds of sites; the value names one in runs."""

    SINGLE = "single"


@dataclass(frozen=True, slots=True)
class Lineage:
    """Whether the data that are read continue those that took the load.

    other:   why they are other data, "" if nothing shows that.
    unknown: why it is not shown whose data they are, "" if it is.
    same:    the names of what is equal.
    """

    other: str = ""
    unknown: str = ""
    same: tuple[str, ...] = ()


def lineage(
    kind: SiteKind, writer: Mapping[str, str], reader: Mapping[str, str]
) -> Lineage:
    """Compare the identity of the node that took the load with that which is read.

    writer: before the load.  reader: after the cut.  See core.server.ServerFacts.
    """
    match kind:
        case SiteKind.SINGLE:
            return _same_server(writer, reader)
        case _:
            assert_never(kind)


def _same_server(before: Mapping[str, str], after: Mapping[str, str]) -> Lineage:
    return Lineage(
        difference(before, after),
        unread_identity(before, after),
        tuple(sorted(before.keys() & after.keys())),
    )
