"""Counts the standbys that have a commit before it is answered, by the settings.

Standbys have a log from its beginning, so the one that has received most has all that
the others have.  Of N standbys that have each commit, N - 1 may be lost at most: then
the one of the others that has received most still has each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dbcheck.model.cluster import SiteKind

STANDBY_NAMES = "synchronous_standby_names"
# FIRST may be left out (PostgreSQL 17 manual, 19.6.2).
_COUNTED = re.compile(r"\s*(?:(any|first)\s+)?(\d{1,9})\s*\(", re.IGNORECASE)
# MySQL before 8.0.26 has the second one.  MariaDB has neither: one replica is enough
# (MariaDB documentation, Semisynchronous Replication).
_REPLICA_COUNTS = (
    "rpl_semi_sync_source_wait_for_replica_count",
    "rpl_semi_sync_master_wait_for_slave_count",
)
REPLICA_COUNT = _REPLICA_COUNTS[0]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a value of synchronous_standby_names demands of each commit.

    count: how many standbys must confirm it; 0 if it waits for none.
    of_any: these may be any of those that are listed, not the first ones alone.
    """

    count: int
    of_any: bool = False


def parse_standby_names(names: str) -> Demand:
    """Return the number of standbys that synchronous_standby_names awaits."""
    if not names.strip():
        return Demand(0)
    if found := _COUNTED.match(names):
        return Demand(int(found[2]), (found[1] or "").lower() == "any")
    return Demand(1)  # a plain list is FIRST 1 of it


def explain_too_few_standbys(
    kind: SiteKind, writer: Mapping[str, str], lost: int
) -> str:
    """Explain why losing *lost* standbys beside the writer may lose a commit.

    "" if the settings of the *writer* have it on another one too, or if they do not
    show how many have it.  kind: of a cluster that promotes a standby.
    """
    if kind is SiteKind.STREAMING:
        name, count = STANDBY_NAMES, None
        if STANDBY_NAMES in writer:
            count = parse_standby_names(writer[STANDBY_NAMES]).count
    else:
        name = next((name for name in _REPLICA_COUNTS if name in writer), "")
        value = writer[name] if name else "1"
        count = int(value) if value.isdecimal() else None
    if count is None or count > lost:
        return ""
    shown = f"{name} = {writer[name]}" if name else "semi-synchronous replication"
    return (
        f"{shown}: a commit is answered once {count} of the standbys have it, and"
        f" {lost} may be lost with the writer"
    )
