"""Advice for losses that no fact explains."""

from __future__ import annotations

from dbcheck.judge.diagnosis import Cause
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.result import RunResult
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import Verdict
from dbcheck.report.words import copy as of_copy

_BELOW = (
    "No setting of the server explains this. Look below it: mount options, RAID "
    "controller, hypervisor, or a drive that answers flushes before they are done. A "
    "volume that was rolled back to a snapshot after the load began looks the same."
)
_ABOVE_THE_DRIVE = (
    "No setting of the server explains this. Look below it, at mount options,"
    " filesystem and the hypervisor's cache mode first: this cut was not seen to empty"
    " the cache of a drive."
)
_UNSEEN = (
    "No setting that was seen explains this, but not all of the load was seen: {}. Find"
    " out what was set then before you look below the server."
)
_CLIENTS = (Cause.DECISIONS, Cause.REPEATS)
_COPY = "It is not known whether an older copy of the data was put in its place: {}."


def where_to_look(result: RunResult) -> tuple[str, ...]:
    """Return advice for losses that no setting or layer that was read explains."""
    lost = any(result.rows_lost or ()) and result.verdict is Verdict.FAIL
    if not lost or result.settings_at_fault or result.layers_at_fault:
        return ()
    if result.copy:
        return () if _clients_explain(result) else (of_copy.say_where_to_look(result),)
    replicated = any(one.cause is Cause.REPLICATION for one in result.diagnosis)
    above = result.page_cache_kept or replicated or _clients_explain(result)
    lines = () if above else (_below(result),)
    if lines and (doubt := _unseen_settings(result)):
        lines = (_UNSEEN.format(doubt),)
    if doubt := _copy_doubt(result):
        lines = (*lines, _COPY.format(doubt))
    return lines


def _clients_explain(result: RunResult) -> bool:
    """Return True if clients can have caused all losses, or most of them by DELETEs."""
    if any(one.cause is Cause.DELETES for one in result.diagnosis[:1]):
        return True
    found = (one.losses for one in result.diagnosis if one.cause in _CLIENTS)
    return sum(found) >= sum(result.rows_lost or ())


def _below(result: RunResult) -> str:
    """Return advice on layers below the server, on drives if the cut tests them."""
    depth, cut = result.shown_depth, result.cut_class
    tries_drives = depth is Depth.DRIVE or (depth is None and not cut.keeps_power)
    return _BELOW if tries_drives or cut is CutClass.LAB_DRIVE else _ABOVE_THE_DRIVE


def _unseen_settings(result: RunResult) -> str:
    """Return the reason for which settings during the load are not known.

    "" if they are, or if the run has no such evidence.
    """
    for item in result.evidence:
        if item.item is ItemId.THROUGH_LOAD:
            return "" if item.status is Status.PRESENT else item.reason
    return ""


def _copy_doubt(result: RunResult) -> str:
    """Return the reason for which the data may be a copy from a backup, "" if none."""
    if result.lab or (result.cluster and result.cluster.promoted_by):
        return ""
    for item in result.evidence:
        if item.item is ItemId.NOT_RESTORED:
            return "" if item.status is Status.PRESENT else item.reason
    return "nothing was compared"
