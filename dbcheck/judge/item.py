"""Items of evidence: their names, how each can stand, and what that means for a cut."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class ItemId(enum.Enum):
    """Id of an item; the value names it in reports and in JSON."""

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
    SAME_POD = "same pod and volume"
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
    CUT_WHILE_PROMOTED = "cut while it took over"
    FAULT = "fault beside the load"
    ALL_APPLIED = "all received was applied"
    IN_SYNC = "in sync at the cut"
    NODES_CUT = "all nodes cut"
    MEMBERS = "all nodes are members"
    AGREE = "nodes agree"
    WITNESS_LOG = "witness log"
    WITNESS_AT_CUT = "witness at the cut"
    SETTINGS = "durable settings"
    COPY_TAKEN = "copy under load"
    COPY_OF_SERVER = "copy of this server"
    COPY_APART = "apart from the server"
    ONE_INSTANT = "volumes of one instant"
    POINT_READ = "point under load"
    POINT_STOP = "stopped at the point"
    RESTORED = "restored"
    STAYED_OFF = "lost server off"
    OBJECTIVE = "recovery point"
    RECEIVER = "synchronous receiver"


class Status(enum.Enum):
    """Status of an item of evidence.

    ASSUMED: the item rests on what a human was asked to do or declared, or on signs
    that something else would explain as well but nothing contradicts; a PASS names it.
    """

    PRESENT = "present"
    ASSUMED = "assumed"
    ABSENT = "absent"
    CONTRADICTED = "contradicted"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True)
class Item:
    """One item of evidence.

    required: a PASS needs the item present or assumed.  reason: what was seen, for a
    person.
    """

    id: ItemId
    status: Status
    reason: str
    required: bool


# Matches a reason that itself says what to do.
_HAS_OWN_ADVICE = re.compile(
    r"(?:cut|copy it|run it) again|\badd --|reconcile|dbcheck (?:clean|probe)|\(set "
)


@dataclass(frozen=True, slots=True)
class _Doubt:
    """The words for an item of evidence that keeps a cut from counting.

    unseen:  the consequence if the item is absent or cannot be observed.
    against: the consequence if it is contradicted.  Both are "" if the item's own
             reason says all.
    advice:  a remedy, as a sentence without its full stop.
    """

    unseen: str
    against: str = ""
    advice: str = ""


_ADVICE_HARD_CUT = (
    "Use a hard power cut, not one that shuts the server or its host down first"
)
_ADVICE_LOOK_AT_CUT = (
    "Look what was cut, and whether this host has a second power supply. dbcheck power"
    " test shows what a switch cuts"
)
_ADVICE_KEEP_OTHERS_AWAY = "Keep others away from dbcheck's tables, and cut again"
_ADVICE_CHANGE_NOTHING = "Change nothing while a check runs, and cut again"
_ADVICE_NO_SHUTDOWN = "Remove what shut it down, or use a hard power cut"
_ADVICE_LOOK_AT_DRIVES = (
    "Look at the host while the switch is off: lsblk -o NAME,SERIAL"
)
_DOUBTS = {
    ItemId.LOAD: _Doubt(
        "nothing shows that commits were at risk when the power went",
        advice="Cut while the server is at work; dbcheck power test shows what a"
        " switch cuts",
    ),
    ItemId.NOT_SHUT_DOWN: _Doubt(
        "nothing shows that the server was cut and not shut down",
        "the server was not cut",
        _ADVICE_HARD_CUT,
    ),
    ItemId.HOST_DOWN: _Doubt(
        "nothing shows that the host lost its power",
        "the host did not lose its power",
        _ADVICE_LOOK_AT_CUT,
    ),
    ItemId.DRIVES_GONE: _Doubt(
        "nothing shows that the drives lost their power",
        "it was not the drives alone that were cut",
        _ADVICE_LOOK_AT_DRIVES,
    ),
    ItemId.POWER_CYCLES: _Doubt(
        "nothing shows that the drives lost their power",
        "the drives did not lose their power",
        _ADVICE_LOOK_AT_DRIVES,
    ),
    ItemId.SERVER_KILLED: _Doubt(
        "nothing shows that the server had ended before the drives came back",
        "the server ran on when the drives came back",
        "Check dbcheck_server_unit, or dbcheck_server_kill",
    ),
    ItemId.MOUNTED_ANEW: _Doubt(
        "nothing shows that each filesystem was mounted from its drive again",
        "a filesystem was not mounted from its drive again",
        "Read what kept it from that, repair it, and cut again",
    ),
    ItemId.PLACES_CUT: _Doubt(
        "not all of the data is known to have lost its power",
        advice="Name all drives in dbcheck_power_drives, on one switch",
    ),
    ItemId.SERVER_LOG: _Doubt(
        "the server's log does not show how it ended",
        "the server's log shows a shutdown",
        _ADVICE_NO_SHUTDOWN,
    ),
    ItemId.SERVER_LOG_SQL: _Doubt(
        "the server's error log does not show how it ended",
        "the server's error log shows a shutdown",
        _ADVICE_NO_SHUTDOWN,
    ),
    ItemId.COMMITS_PER_FLUSH: _Doubt("the flushes of the load are not known"),
    ItemId.SINCE_CHECKPOINT: _Doubt(
        "nothing shows that a commit was at risk in the server's log alone"
    ),
    ItemId.REPLAYED: _Doubt(
        "the server had nothing to recover, so nothing shows that a commit was at risk",
        advice=_ADVICE_HARD_CUT,
    ),
    ItemId.PLACES: _Doubt(
        "it is not known on which drives all the data lie",
        "the data did not all lie where the cut was measured",
        "Find out what moved them, and cut again",
    ),
    ItemId.SAME_STORAGE: _Doubt(
        "it is not known whether the storage is the same as before",
        "the storage is not the one from before the load",
        "Find out what was exchanged or mounted elsewhere, and cut again",
    ),
    ItemId.SAME_POD: _Doubt(
        "nothing shows that the pod that was read has the volumes that took the load",
        "the pod that was read is not on the node and the volumes that took the load",
        "Let dbcheck read pods, nodes, claims and volumes, keep the pod in place, and"
        " cut again",
    ),
    ItemId.NOT_RESTORED: _Doubt(
        "the data may be a copy that was put back",
        "the data are a copy that was put back",
        _ADVICE_KEEP_OTHERS_AWAY,
    ),
    ItemId.UNSAFE_SHUTDOWNS: _Doubt(
        "the drives counted no loss of power without warning",
        advice=_ADVICE_LOOK_AT_DRIVES,
    ),
    ItemId.HOST_ASKED_AGAIN: _Doubt(
        "the host was not fully checked again after the cut",
        advice="Reconcile the run with the same --target-host, before the host is"
        " restarted",
    ),
    ItemId.WITNESS_APART: _Doubt("the witness may be on the target's own host"),
    ItemId.RESTARTED: _Doubt("", advice=_ADVICE_LOOK_AT_CUT),
    ItemId.CAME_BACK: _Doubt(
        "", "", "Find out why it did not come back by itself, and cut again"
    ),
    ItemId.SAME_SERVER: _Doubt(
        "nothing shows that the same server answered after the cut",
        "",
        "Connect to the server itself and not to a balancer, and cut again",
    ),
    ItemId.NOT_REFILLED: _Doubt("lost rows may have come back from other servers"),
    ItemId.SAME_SETTINGS: _Doubt(
        "nothing shows that the settings stayed as they were",
        "a setting changed",
        _ADVICE_CHANGE_NOTHING,
    ),
    ItemId.THROUGH_LOAD: _Doubt(
        "it is not known what changed while the load ran",
        "something changed while the load ran",
        _ADVICE_CHANGE_NOTHING,
    ),
    ItemId.SAME_TABLE: _Doubt(
        "the tables are not known to be those that took the load",
        "",
        _ADVICE_KEEP_OTHERS_AWAY,
    ),
    ItemId.CONDITIONS: _Doubt(
        "the sums over the rows were not checked",
        "the sums over the rows do not agree",
        "Remove what kept dbcheck from it, and reconcile the run",
    ),
    ItemId.TABLE_CHECK: _Doubt(
        "the server's own check of its tables did not end",
        "the server's own check complains about its tables",
        "Look at the server's log; drop the tables with dbcheck clean, and cut again",
    ),
    ItemId.SECOND_READING: _Doubt(
        "the rows were not read again after a clean restart",
        "the rows were not the same after a clean restart",
        "Remove what kept dbcheck from it, and cut again",
    ),
    ItemId.PREPARED: _Doubt("not every prepared transaction was decided by dbcheck"),
    ItemId.DROPPED_TABLES: _Doubt("the server lists a table that it cannot open"),
    ItemId.LOG_COMPLAINTS: _Doubt("the server's log names damage"),
    ItemId.WRITE_CACHE: _Doubt(
        "the kernel holds flushes back from a drive with a volatile cache",
        "the kernel holds flushes back from a drive that lost writes",
        "Write 'write back' to its queue/write_cache, or switch its cache off",
    ),
    ItemId.TIME_OFF: _Doubt(
        "the drives may not have been without power for long enough",
        advice="Keep it off for longer: --off-seconds, dbcheck_power_off_s",
    ),
    ItemId.CUT_CLASS: _Doubt("what lost its power was not declared"),
    ItemId.CONTROL: _Doubt(
        "the control did not work",
        advice="Check what the switch cuts and how deep: no PASS of this set-up counts"
        " until a control loses commits",
    ),
    ItemId.PROMISED_SETTINGS: _Doubt(
        "the settings do not keep the promise that is to be checked",
        advice="Change them, or check the promise that they make",
    ),
    ItemId.WRITER_OFF: _Doubt(
        "the old writer is not known to have stayed off",
        "the old writer did not stay off",
        "Keep it off until dbcheck has read the rows, and cut again",
    ),
    ItemId.PROMOTED: _Doubt(
        "the node that was read is not known to continue the writer's data",
        "the node that was read does not continue the writer's data",
        "Promote the standby that received most, and cut again",
    ),
    ItemId.CUT_WHILE_PROMOTED: _Doubt(
        "the node that took over was not cut on its way",
        advice="Cut earlier (--cut-promoted), or slow its drive down (--flush-ms)",
    ),
    ItemId.FAULT: _Doubt(
        "the fault that was to come beside the load is not known to have come and gone",
        advice="Run dbcheck_fault_end by hand, mend the programs, and cut again",
    ),
    ItemId.ALL_APPLIED: _Doubt(
        "the node that was read may not have applied all that it had received",
        "the node that was read had not applied all that it had received",
        "Check its applier and its recovery target, and cut again",
    ),
    ItemId.IN_SYNC: _Doubt(
        "commits are not known to have waited for the node that took over",
        "it is not known which node commits waited for",
        "See its replication and the link to it, and cut again",
    ),
    ItemId.NODES_CUT: _Doubt(
        "not all nodes are known to have lost their power together",
        "not all nodes lost their power",
        "Ask each node's host (ansible_host, dbcheck_ask_host), and cut again",
    ),
    ItemId.MEMBERS: _Doubt(
        "the group is not whole again",
        "the group has a member that was not cut",
        "Bring the missing node back, then reconcile the run",
    ),
    ItemId.AGREE: _Doubt(
        "the nodes are not known to agree", "the nodes hold different rows"
    ),
    ItemId.WITNESS_LOG: _Doubt(
        "the witness's log is not whole",
        "the witness's log is damaged",
        "Check the witness's disk, or use another witness; this run proves nothing",
    ),
    ItemId.WITNESS_AT_CUT: _Doubt(
        "the witness holds no commit from just before the cut",
        "the witness's log and the cut do not agree on the time",
        "Use a faster disk or network for the witness, or --lockstep, and cut again",
    ),
    ItemId.SETTINGS: _Doubt(
        "",
        advice="Fix the setting, or let dbcheck read it, and cut again",
    ),
    ItemId.COPY_TAKEN: _Doubt(
        "nothing shows that the server was at work while the copy was taken",
        advice="Use more sessions, or no --rate, and copy it again",
    ),
    ItemId.COPY_OF_SERVER: _Doubt(
        "nothing shows that the server that was read is on a copy of this one",
        advice="Let the program restore the copy that has the run's id, at the URL in"
        " dbcheck_restore, and copy it again",
    ),
    ItemId.COPY_APART: _Doubt(
        "nothing shows that the server that was read is apart from the original",
        "the server that was read is not on a copy",
        "Restore the copy at the URL in dbcheck_restore, with nothing that lets it"
        " follow the original, and copy it again",
    ),
    ItemId.ONE_INSTANT: _Doubt(
        "nothing shows that the volumes were copied at one moment",
        "the volumes were not copied at one moment, and a server that recovers from"
        " them does so by luck",
        "Copy all of them as one group at once, and restore that copy at the folders in"
        " dbcheck_restore; then copy it again",
    ),
    ItemId.POINT_READ: _Doubt(
        "nothing shows to which point the archive was to be restored",
        advice="Run it again",
    ),
    ItemId.POINT_STOP: _Doubt(
        "nothing shows that recovery stopped at the point",
        "recovery did not stop at the point",
        "Give the restore the point, its last argument, as its target"
        " (recovery_target_lsn or recovery_target_name, or --stop-position), use more"
        " sessions, and run it again",
    ),
    ItemId.RESTORED: _Doubt("how long the restore took is not known"),
    ItemId.STAYED_OFF: _Doubt(
        "nothing shows that the lost server was off until the copy was restored",
        "what was restored may have come after the loss",
        "Keep it off until dbcheck restores its power, and run it again",
    ),
    ItemId.OBJECTIVE: _Doubt(
        "nothing shows that the recovery point objective was met",
        advice="Let the load run longer than the objective, and run it again",
    ),
    ItemId.RECEIVER: _Doubt(
        "nothing shows that each commit waited until a receiver had it",
        advice="Make the receiver a synchronous one (synchronous_standby_names, or"
        " semi-synchronous replication), or set dbcheck_restore: rpo_s above 0, and run"
        " it again",
    ),
    ItemId.SWITCH_DEPTH: _Doubt("how deep this switch cuts is not known"),
}


def doubt_of(item: Item) -> str:
    """Return the reason for which *item* keeps a cut from counting, then the remedy."""
    why = meaning(item.id, item.status)
    text = f"{why}: {item.reason}" if why else item.reason
    advice = _DOUBTS[item.id].advice
    return (
        text
        if not advice or _HAS_OWN_ADVICE.search(item.reason)
        else f"{text}. {advice}"
    )


def meaning(item_id: ItemId, status: Status) -> str:
    """Return the consequence for the cut of an item with this status.

    "" if the item's own reason says all.
    """
    doubt = _DOUBTS[item_id]
    return doubt.against if status is Status.CONTRADICTED else doubt.unseen
