"""Decides why a server takes no queries after a cut: its data, or something else.

Its data, or its storage, are to blame if the power was cut, its host is up again with
the same storage, and the server's own log shows that its data ended its start.
Everything else is a doubt: a service that is not started, a host that is down, and a
long recovery look the same over the network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from dbcheck.judge import driveonly
from dbcheck.judge.case import Case
from dbcheck.judge.host import compare_boots, judge_not_restored, judge_same_storage
from dbcheck.judge.item import Status
from dbcheck.judge.server import judge_same_pod
from dbcheck.judge.server_end import IS_SHARED
from dbcheck.judge.verdict import explain_unknown_volume
from dbcheck.model.cut import Gone
from dbcheck.model.host import HostAfter, HostBefore, LogTail, TargetFacts
from dbcheck.server_log.startlog import (
    StartOutcome,
    Starts,
    find_last_complaints,
    find_other_server,
    find_shutdown_before_start,
    find_starts,
    is_in_other_language,
    names_damage,
    read_since_last_start,
)

_COPY_NOT_UP = (
    "so nothing shows that this copy can be restored. See the log of its server; one"
    " that still follows the original must be promoted, or restored without that"
)
# How servers name EIO (errno(3)): PostgreSQL by its text, InnoDB by its number as well.
_DRIVE_ERROR = re.compile(
    r"Input/output error|error number 5\b|returned 5\b|[Ee]rr(?:no|code)?:? 5\b"
)


@dataclass(frozen=True, slots=True)
class Absence:
    """Reason why the server is absent; either failure or doubt is "".

    failure: how its data keep it from starting, as its log shows.
    doubt:   why it is not known whether its data keep it from starting.
    """

    failure: str = ""
    doubt: str = ""


def judge_absence(case: Case, answer: str = "") -> Absence:
    """Judge whether the data of a server that takes no queries are to blame.

    case:   with the report of the server's host after the cut.
    answer: the server's last answer to the client, "" if none.  A server may start, and
            refuse the login since it cannot read the data that a login needs.
    """
    before, after = case.before, case.host
    if case.manifest.copy is not None:
        return Absence(doubt=_COPY_NOT_UP)
    doubt = _find_doubt_about_cut(case)
    # The lab itself reports whether its server ended.
    if not doubt and case.manifest.lab_cut is not None and before is None:
        doubt = (
            "it runs and has not failed: it may still be recovering; try again "
            "with less load on this machine"
        )
    doubt = doubt or _find_fault_of_host(before, after)
    if doubt:
        return Absence(doubt=doubt)
    assert before is not None and after is not None
    if doubt := _find_doubt_about_data(case):
        return Absence(doubt=doubt)
    names = case.tested.facts.log_names
    if after.log and (start := find_other_server(after.log.text, names)):
        return Absence(
            doubt=f"its log: {IS_SHARED} ({start}), so which of them did not start is"
            " not known; have each server log to a file of its own"
        )
    absence = _judge_absence_by_log(
        after.log, answer, apart=_is_separate_directory(before.facts)
    )
    if case.drive_only and absence.failure and after.log is not None:
        error = _DRIVE_ERROR.search(read_since_last_start(after.log.text))
        if error is not None:
            return Absence(
                doubt=f"its last start may have been without its drives ({error[0]}):"
                " start the service again"
            )
    return absence


def _find_doubt_about_data(case: Case) -> str:
    """Return why the server may have come back to other data, "" if it did not."""
    items = [
        item
        for item in (
            judge_same_pod(case),
            judge_same_storage(case),
            judge_not_restored(case),
        )
        if item is not None
    ]
    for item in items:
        if item.status in (Status.CONTRADICTED, Status.ABSENT):
            return item.reason
    return explain_unknown_volume(items)


def _find_doubt_about_cut(case: Case) -> str:
    """Return the reason to doubt that the power was cut, "" if the cut is shown."""
    load, after = case.load, case.host
    if load is not None and load.farewells and not case.drive_only:
        return f"it notified a session: {load.farewells[0]!r}; it was not cut"
    if (was_cut := _is_cut_on_record(case)) is False:
        return "no power cut is on record"
    if case.drive_only:
        return driveonly.explain_unproven_drive_cut(case)
    if case.manifest.lab_cut is not None:
        return ""
    booted = compare_boots(case.before, after)
    if booted == "same":
        return "its host has the same boot_id: its power was not cut"
    if booted == "new" or (case.off_s is not None and was_cut):
        return ""
    if after is not None and after.facts is None:
        return f"its host does not answer either: {after.failure}"
    return "nothing shows that its host lost power and booted again (add --target-host)"


def _is_cut_on_record(case: Case) -> bool | None:
    """Return None, not known, if the client was lost or the switch reported nothing.

    A cut by hand was asked for, and that is all, if nobody saw the server go.
    """
    load, cut = case.load, case.cut
    if load is None:
        return None
    nobody_saw_it = load.gone is Gone.UNSEEN and cut is not None and cut.by_hand
    was_cut = cut is not None and load.gone is not Gone.NEVER and not nobody_saw_it
    return None if load.cut_failed and not was_cut else was_cut


def _find_fault_of_host(before: HostBefore | None, after: HostAfter | None) -> str:
    """Return the reason why the host may be to blame, "" if it is up again."""
    if before is None or after is None:
        return "its host was not checked (add --target-host)"
    if after.facts is None:
        return f"its host does not answer either: {after.failure}"
    return ""


def _is_separate_directory(facts: TargetFacts) -> bool:
    """Return True if a directory is outside the data directory or its volume."""
    paths = [path for volume in facts.volumes for path in volume.places.values()]
    data = PurePosixPath(facts.data_directory)
    inside = all(PurePosixPath(path).is_relative_to(data) for path in paths)
    return len(facts.volumes) > 1 or not inside


def _judge_absence_by_log(log: LogTail | None, answer: str, *, apart: bool) -> Absence:
    """Judge by what the log shows of the server's starts since the preflight.

    apart: the server's directories are not all in its data directory.  A missing file
           may then be on a volume that was mounted too late, or in a directory that a
           setting no longer names.
    """
    if log is None:
        return Absence(
            doubt="its log was not read (add --target-host and --server-log)"
        )
    if log.rewound:
        return Absence(doubt="its log is shorter than before the cut")
    if shutdown := find_shutdown_before_start(log.text):
        return Absence(
            doubt=f"its log: it says {shutdown!r}: it was shut down, not cut"
        )
    if log.truncated:
        return Absence(
            doubt="more was logged since the preflight than dbcheck reads: the last "
            "start may not be in it"
        )
    starts = find_starts(log.text)
    if starts.outcome is StartOutcome.DESTROYED and not (starts.missing and apart):
        return Absence(failure=f"it does not start: {_join_lines(starts)}")
    if starts.outcome is StartOutcome.RUNNING and names_damage(
        answer, missing=not apart
    ):
        return Absence(failure="it starts, and damaged data keep it from a login")
    return Absence(doubt=_find_doubt_in_starts(starts, log.text))


def _find_doubt_in_starts(starts: Starts, text: str) -> str:
    """Return the reason why the log does not blame the data."""
    log_lines = _join_lines(starts)
    if starts.outcome is StartOutcome.NEVER_STARTED:
        return _explain_missing_start(text)
    if starts.outcome is StartOutcome.DESTROYED:
        return (
            f"it does not start because a file is not there: {log_lines}; it may be on"
            " a volume that was not mounted yet, or where a setting names another"
            " directory"
        )
    if starts.outcome is StartOutcome.RUNNING:
        return (
            f"it runs, and its log says: {log_lines}"
            if log_lines
            else "its log names no error: it may still be recovering, or it runs and "
            "refuses the login"
        )
    if starts.known:
        return f"it does not start, and its log does not blame the data: {log_lines}"
    if not log_lines:
        return "it does not start, and its log does not show why"
    return f"it does not start, and why is not known; its log says: {log_lines}"


def _explain_missing_start(text: str) -> str:
    complaints = "; ".join(find_last_complaints(text))
    last = f"; it says last: {complaints}" if complaints else ""
    if is_in_other_language(text):
        return (
            f"its log is not in English, and dbcheck reads no other (lc_messages){last}"
        )
    return (
        f"its log shows no start since the cut{last}; start the service, or, if it"
        " runs, name the log that it writes now (--server-log)"
    )


def _join_lines(starts: Starts) -> str:
    return "; ".join(starts.lines)
