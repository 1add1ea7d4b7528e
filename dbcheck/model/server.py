"""Facts that a server reports of itself and of dbcheck's tables."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Position of the server's WAL (PostgreSQL) or redo log (InnoDB).

    In bytes from the log's beginning.  written: the newest byte.  checkpoint: where
    recovery would now begin to replay.
    """

    written: int
    checkpoint: int


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts that a server reports of itself, over an ordinary connection.

    product:    see server_log.Product.
    version:    as the server spells it, e.g. "15.18".
    identity:   name -> value of what must be equal after the cut
                (system_identifier, server_uuid, data directory, ...).
    started_us: server's own clock when the server process started, in
                microseconds since the epoch; resolution as in started_error_us.
    started_error_us: how far off started_us may be, in microseconds.
    clock_us:   server's own clock when these facts were read.
    settings:   effective in the session that asked: name -> value as text.
    unreadable: fact -> why it could not be read.
    log:        see LogPosition; None if the server does not report it.
    server_log: path of the server's log on its host, or a prefix of model.host and a
                data directory; "" if unknown.
    log_names:  what identifies the server in the lines of its starts, see
                server_log.startlog.NAMES; {} if that is unknown.
    platform:   what the server prints of the system that it was built for, "" if
                unknown.
    may_follow: connections may reach the server while it follows another server.
    is_standby: a PostgreSQL that is in recovery.
    hostname:   the name of its host or container; "" if it does not report that, and in
                records, which need no other name of a user's host.
    """

    product: str
    version: str
    identity: Mapping[str, str]
    started_us: int
    started_error_us: int
    clock_us: int
    settings: Mapping[str, str]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    log: LogPosition | None = None
    server_log: str = ""
    platform: str = ""
    may_follow: bool = False
    log_names: Mapping[str, str] = field(default_factory=dict)
    is_standby: bool = False
    hostname: str = ""

    @property
    def start_ambiguous_us(self) -> int:
        """Microseconds until a restart would surely show another start time.

        0 or less if a restart now would already show it.
        """
        return 4 * self.started_error_us - (self.clock_us - self.started_us)


def is_restarted(before: ServerFacts, after: ServerFacts) -> bool:
    """Return True if the server process surely started anew, by its start time."""
    apart_us = after.started_us - before.started_us
    return abs(apart_us) > before.started_error_us + after.started_error_us


DATA_NAME = "dbcheck.identity"  # what dbcheck calls the data of MariaDB, in a table

# Part of ServerFacts.identity that names the data themselves -> how to make it
# readable.
_HOW_TO_READ_DATA_NAMES = {
    "system_identifier": "on PostgreSQL, let the account execute pg_control_system(), "
    "pg_current_wal_lsn() and pg_walfile_name()",
    "server_uuid": "on MySQL, SHOW VARIABLES shows server_uuid",
    DATA_NAME: "on MariaDB, let the account create and select from the table "
    "identity in dbcheck's database",
}


def find_difference_of_servers(
    before: Mapping[str, str], after: Mapping[str, str]
) -> str:
    """Return the sign that another server answers, "" if nothing shows that.

    before, after: see ServerFacts.identity.
    """
    shared = sorted(before.keys() & after.keys())
    different = [name for name in shared if before[name] != after[name]]
    if not different:
        return ""
    different_data_names = [
        name for name in different if name in _HOW_TO_READ_DATA_NAMES
    ]
    name = (
        "timeline"
        if "timeline" in different
        else (different_data_names or different)[0]
    )
    text = f"{name} was {before[name]} and is {after[name]}"
    cluster = "system_identifier"
    if name == "timeline" and before.get(cluster) == after.get(cluster):
        return (
            f"{text}: a failover, a standby was promoted in place of the one that was"
            " cut"
        )
    if different_data_names or name == "timeline":
        return f"{text}: a different server"
    return f"{text}: it was changed, or a different server answers"


# Parts of an identity that an upgrade or a failover changes, or that differ within one
# server.
_NOT_PART_OF_DATA_IDENTITY = {"version", "server_version_num", "timeline", "database"}


def is_same_data(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return True if two identities name the same data, however they were reached.

    A copy of the data on another host has the same names, so it counts as the same.
    """
    named = one.keys() & other.keys() & _HOW_TO_READ_DATA_NAMES.keys()
    return bool(named) and not find_other_names(one, other)


def name_same_data(one: Mapping[str, str], other: Mapping[str, str]) -> bool | None:
    """Return whether two identities name the same data; None if nothing names both."""
    shared = one.keys() & other.keys() & _HOW_TO_READ_DATA_NAMES.keys()
    return all(one[name] == other[name] for name in shared) if shared else None


def find_other_names(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the parts that differ in two identities of the same data, by name.

    What an upgrade or a failover changes is left out, as is the database.
    """
    shared = (one.keys() & other.keys()) - _NOT_PART_OF_DATA_IDENTITY
    return sorted(name for name in shared if one[name] != other[name])


def find_difference_of_data(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the sign that two identities name different data, "" if nothing shows it.

    An upgrade, a failover to a copy or another database of the server is no difference.
    """
    one, other = (
        {n: v for n, v in each.items() if n not in _NOT_PART_OF_DATA_IDENTITY}
        for each in (before, after)
    )
    return find_difference_of_servers(one, other)


def explain_unknown_identity(
    before: Mapping[str, str], after: Mapping[str, str]
) -> str:
    """Return the reason why it is unknown whose data were read, "" if it is known."""
    named = before.keys() & _HOW_TO_READ_DATA_NAMES.keys()
    if unread := sorted(named - after.keys()):
        text = f"{unread[0]} was read before the cut and could not be read after it"
        return f"{text}: {_HOW_TO_READ_DATA_NAMES[unread[0]]}"
    if not named:
        hints = "; ".join(_HOW_TO_READ_DATA_NAMES.values())
        return f"nothing that names its data was read before the cut: {hints}"
    return ""


@dataclass(frozen=True, slots=True)
class Refill:
    """Data that a server tested alone took from other servers since its start.

    how:      a sentence's beginning, without its subject: "is a member of ...".
    advice:   what to do for a verdict next time; a sentence without its full stop.
    replaces: the data may be another server's copy, which may lack a row that this
              server had, so no row is judged.  Otherwise the data taken can only have
              hidden a loss.
    unknown:  the server did not show whether it took anything; *how* says what it may
              have taken.
    cloned:   it took the data once, as a clone, and follows nobody for that.
    ended:    it is a replica no more, and says so itself.
    """

    how: str
    advice: str
    replaces: bool = False
    unknown: bool = False
    cloned: bool = False
    ended: bool = False


def select_refill(earlier: Refill | None, later: Refill | None) -> Refill | None:
    """Select which of two looks at a server counts; None if both found no refill.

    A known refill counts more than an unknown one, and a copy of another server's data
    more than other rows, and these more than replication that has ended.  Of two equal
    ones the earlier counts.
    """
    return later if _rank_refill(later) > _rank_refill(earlier) else earlier


def _rank_refill(refill: Refill | None) -> tuple[bool, ...]:
    if refill is None:
        return (False,)
    return True, not refill.unknown, refill.replaces, not refill.ended


class CheckOutcome(enum.Enum):
    """Outcome of a server's own check of dbcheck's tables."""

    SOUND = "sound"
    INDEX = "index"  # an index disagrees with its table, or its pages with each other
    TABLE = "table"  # something is wrong with the table itself
    BROKE_OFF = "broke off"  # the connection broke during the check
    NOT_DONE = "not done"


@dataclass(frozen=True, slots=True)
class TableCheck:
    """One check of all the tables of a plan.

    reason: for a person: what was checked, the complaint, or why nothing was checked.
    """

    outcome: CheckOutcome
    reason: str
