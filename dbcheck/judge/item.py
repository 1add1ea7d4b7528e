"""Items of evidence: what they are called, and how each can stand."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ItemId(enum.Enum):
    """Which item it is; the value names it in reports and in JSON."""

    LOAD = "load at the cut"
    NOT_SHUT_DOWN = "not shut down"
    HOST_DOWN = "host went down"
    DRIVES_GONE = "drives gone and back"
    POWER_CYCLES = "power cycles"
    SERVER_KILLED = "server killed"
    MOUNTED_ANEW = "mounted anew"
    PLACES_CUT = "places without power"
    SERVER_LOG = "server's log"
    SERVER_LOG_SQL = "error log over SQL"
    COMMITS_PER_FLUSH = "commits per flush"
    SINCE_CHECKPOINT = "since the checkpoint"
    REPLAYED = "log replayed"
    PLACES = "places"
    SAME_STORAGE = "same storage"
    NOT_RESTORED = "not restored"
    UNSAFE_SHUTDOWNS = "unsafe shutdowns"
    HOST_ASKED_AGAIN = "host asked again"
    WITNESS_APART = "witness apart"
    SWITCH_DEPTH = "switch's depth"
    CUT_CLASS = "class of the cut"
    RESTARTED = "server restarted"
    CAME_BACK = "came back"
    SAME_SERVER = "same server"
    NOT_REFILLED = "not refilled"
    SAME_SETTINGS = "same settings"
    THROUGH_LOAD = "through the load"
    SAME_TABLE = "same table"
    CONDITIONS = "consistency conditions"
    TABLE_CHECK = "check of the tables"
    SECOND_READING = "second reading"
    PREPARED = "prepared transactions"
    DROPPED_TABLES = "dropped tables"
    LOG_COMPLAINTS = "log without damage"
    WRITE_CACHE = "write cache"
    TIME_OFF = "time without power"
    CONTROL = "control"
    PROMISED_SETTINGS = "settings for the promise"
    WRITER_OFF = "old writer off"
    PROMOTED = "promoted node"
    ALL_APPLIED = "all received was applied"
    IN_SYNC = "in sync at the cut"
    NODES_CUT = "all nodes cut"
    MEMBERS = "all nodes are members"
    AGREE = "nodes agree"
    WITNESS_LOG = "witness log"
    WITNESS_AT_CUT = "witness at the cut"
    SETTINGS = "durable settings"


class Standing(enum.Enum):
    """How an item of evidence stands.

    ASSUMED: it rests on what a human was asked to do or declared, or on what something
    else would explain as well but nothing contradicts; a PASS names it.
    """

    PRESENT = "present"
    ASSUMED = "assumed"
    ABSENT = "absent"
    CONTRADICTED = "contradicted"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True)
class Item:
    """One item of evidence.

    required: a PASS needs it present.  reason: what was seen, for a person.
    """

    id: ItemId
    standing: Standing
    reason: str
    required: bool
