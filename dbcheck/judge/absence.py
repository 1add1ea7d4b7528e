"""Why a server takes no queries after a cut: its data, or something else.

Its data, or its storage, are to blame if the power was cut, its host is up again with
the same storage, and the server's own log shows that its data ended its start.
Everything else is a doubt: a service that is not started, a host that is down, and a
long recovery look the same over the network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from dbcheck.core.gone import Gone
from dbcheck.core.startlog import (
    StartOutcome,
    Starts,
    before_starts,
    since_start,
    starts_in,
)
from dbcheck.core.target import HostAfter, HostBefore, LogTail
from dbcheck.judge import driveonly
from dbcheck.judge.case import Case
from dbcheck.judge.host import boots, not_restored, same_storage
from dbcheck.judge.item import Standing
from dbcheck.judge.serverlog import crash_in

# How servers name EIO (errno(3)): PostgreSQL by its text, InnoDB by its number as well.
_NO_DRIVE = re.compile(
    r"Input/output error|error number 5\b|returned 5\b|[Ee]rr(?:no|code)?:? 5\b"
)


@dataclass(frozen=True, slots=True)
class Absence:
    """Why the server is absent; one of the two is "".

    failure: how its data keep it from starting, as its log shows.
    doubt:   why that is not known.
    """

    failure: str = ""
    doubt: str = ""


def judge_absence(case: Case) -> Absence:
    """Return whether the data of a server that does not answer are to blame.

    case: with what its host reported after the cut, and with no server that answers.
    """
    before, after = case.before, case.host
    doubt = _no_cut(case)
    # The lab itself reports whether its server ended.
    if not doubt and case.manifest.rung is not None and before is None:
        doubt = (
            "it runs and has not failed: it may still be recovering; try again "
            "with less load on this machine"
        )
    doubt = doubt or _host_not_back(before, after)
    if doubt:
        return Absence(doubt=doubt)
    assert after is not None
    for item in (same_storage(case), not_restored(case)):
        if item is not None and item.standing is Standing.CONTRADICTED:
            return Absence(doubt=item.reason)
    found = _by_log(after.log)
    if case.drive_only and found.failure and after.log is not None:
        without = _NO_DRIVE.search(since_start(after.log.text))
        if without is not None:
            return Absence(
                doubt=f"its last start may have been without its drives ({without[0]}):"
                " start the service again"
            )
    return found


def _no_cut(case: Case) -> str:
    """Return why it is not shown that the power was cut, "" if it is."""
    load, after = case.load, case.host
    if load is not None and load.farewells and not case.drive_only:
        return f"it notified a session: {load.farewells[0]!r}; it was not cut"
    asked = None  # the client was lost before it could record that
    if load is not None:
        asked = case.cut is not None and load.gone is not Gone.NEVER
    if asked is False:
        return "no power cut is on record"
    if case.drive_only:
        return driveonly.unproven(case)
    if case.manifest.rung is not None:
        return ""
    booted = boots(case.before, after)
    if booted == "same":
        return "its host has the same boot_id: its power was not cut"
    if booted == "new" or (case.off_s is not None and asked):
        return ""
    if after is not None and after.facts is None:
        return f"its host does not answer either: {after.failure}"
    return "nothing shows that its host lost power and booted again (add --target-host)"


def _host_not_back(before: HostBefore | None, after: HostAfter | None) -> str:
    """Return why the host may be to blame, "" if it is up again."""
    if before is None or after is None:
        return "its host was not checked (add --target-host)"
    if after.facts is None:
        return f"its host does not answer either: {after.failure}"
    return ""


def _by_log(log: LogTail | None) -> Absence:
    """Return what the log shows of the server's starts since the preflight."""
    if log is None:
        return Absence(
            doubt="its log was not read (add --target-host and --server-log)"
        )
    if log.rewound:
        return Absence(doubt="its log is shorter than before the cut")
    standing, shut = crash_in(replace(log, text=before_starts(log.text)))
    if standing is Standing.CONTRADICTED:
        return Absence(doubt=f"its log: {shut}")
    if log.truncated:
        return Absence(
            doubt="more was logged since the preflight than dbcheck reads: the last "
            "start may not be in it"
        )
    starts = starts_in(log.text)
    if starts.outcome is StartOutcome.DESTROYED:
        return Absence(failure=f"it does not start: {_joined(starts)}")
    if starts.outcome is StartOutcome.NEVER_STARTED:
        return Absence(
            doubt="its log shows no start since the cut: start the service, or, if it "
            "runs, name the log that it writes now (--server-log)"
        )
    if starts.outcome is StartOutcome.RUNNING:
        return Absence(
            doubt="its log names no error: it may still be recovering, or it runs and "
            "refuses the login"
        )
    reason = _joined(starts) or "its log does not show why"
    return Absence(
        doubt=f"it does not start, and its log does not blame the data: {reason}"
    )


def _joined(starts: Starts) -> str:
    return "; ".join(starts.lines)
