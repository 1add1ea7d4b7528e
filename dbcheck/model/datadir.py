"""Is a directory on the target's host the one that the server keeps its data in?

In a container, beside a second server or after a move, the path that a server names may
hold nothing, another server's data, or an old copy of its own.  Its drives then show
nothing of the server's, so nothing may be measured there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# PostgreSQL takes the time for postmaster.pid (MyStartTime) before it sets up its
# memory, and that which SQL shows (PgStartTime) after it (postmaster.c).
_EARLIER_MAX_S, _LATER_MAX_S = 5, 300


@dataclass(frozen=True, slots=True)
class DataNames:
    """What the files in a directory show of whose data it holds.

    empty:             nothing is in it.
    system_identifier: PostgreSQL's, of global/pg_control, in decimal.
    started_s:         when the server on it started, of PostgreSQL's postmaster.pid, in
                       seconds since the epoch.
    server_uuid:       MySQL's, of auto.cnf.
    marks:             the marks that dbcheck left in tables of MariaDB.
    unreadable:        name of one of these -> why it is "", None or not whole.
    """

    empty: bool
    system_identifier: str
    started_s: int | None
    server_uuid: str
    marks: frozenset[str]
    unreadable: Mapping[str, str]


def other_data(identity: Mapping[str, str], started_us: int, found: DataNames) -> str:
    """Return why a directory is not the server's, "" if nothing speaks against it.

    identity, started_us: what the server reports over SQL, as model.server.ServerFacts.
    """
    if found.empty:
        return "it is empty"
    for name in ("system_identifier", "server_uuid"):
        wanted = identity.get(name, "")
        seen = getattr(found, name)
        if wanted and not seen:
            return found.unreadable.get(name, f"it has no {name}")
        if wanted.casefold() != seen.casefold() and wanted:
            return f"its {name} is {seen}, and the server's is {wanted}"
    if "data_directory" in identity:  # as PostgreSQL calls it
        return _other_start(started_us, found)
    return ""


def unmarked(mark: str, found: DataNames) -> str:
    """Return why a directory is not that of the server that just wrote *mark* into it.

    "" if it is.
    """
    if mark in found.marks:
        return ""
    why = found.unreadable.get("marks", "")
    return why or "what the server just wrote into its data directory is not in it"


def _other_start(started_us: int, found: DataNames) -> str:
    if found.started_s is None:
        why = found.unreadable.get("started_s", "its postmaster.pid has no start time")
        return f"no server runs on it: {why}"
    later_s = started_us // 1_000_000 - found.started_s
    if -_EARLIER_MAX_S <= later_s <= _LATER_MAX_S:
        return ""
    return (
        "a different server runs, or ran, on it: by its postmaster.pid it "
        f"started {abs(later_s):,} s {'before' if later_s > 0 else 'after'} this one"
    )
