"""Whose fault is a server that takes no queries after a cut?  Facts in, reasons out.

It is the server's, or its storage's, if the power was cut, its host is up again with
the same storage, and the server's own log says that its data ended its start.
Everything else is a doubt: a service that nobody starts, a host that is down, and a
recovery that takes long look the same over the network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dbcheck.core.evidence import Standing
from dbcheck.core.hostevidence import boots, not_restored, same_storage
from dbcheck.core.serverlog import crash_item
from dbcheck.core.startlog import StartOutcome, Starts, before_starts, starts_in
from dbcheck.core.target import HostAfter, HostBefore, LogTail


@dataclass(frozen=True, slots=True)
class CutFacts:
    """What is known of the cut itself.

    asked:    the switch was told, or a human asked, and then the server went; None if
              the client did not live to say.
    measured: the switch saw the power off and on again.
    farewell: what the server said when it ended a session itself, "" if nothing.
    lab:      the lab's rung, "" on real hardware.
    """

    asked: bool | None
    measured: bool
    farewell: str
    lab: str


@dataclass(frozen=True, slots=True)
class Absence:
    """Why the server is absent; one of the two is "".

    failure: what its data did to it, in the words of its log.
    doubt:   why that is not known.
    """

    failure: str = ""
    doubt: str = ""


def judge_absence(
    cut: CutFacts, before: HostBefore | None, after: HostAfter | None
) -> Absence:
    """Return whether the data of a server that does not answer are to blame."""
    doubt = _no_cut(cut, before, after)
    if not doubt and cut.lab and before is None:  # which tells if it ended itself
        doubt = (
            "it runs, and no error ended it: it may still be recovering, so try again "
            "with less else to do on this machine"
        )
    doubt = doubt or _host_not_back(before, after)
    if doubt:
        return Absence(doubt=doubt)
    assert after is not None
    for item in (same_storage(before, after), not_restored(before, after, lab=cut.lab)):
        if item is not None and item.standing is Standing.CONTRADICTED:
            return Absence(doubt=item.reason)
    return _by_log(after.log)


def _no_cut(cut: CutFacts, before: HostBefore | None, after: HostAfter | None) -> str:
    """Return why it is not shown that the power was cut, "" if it is."""
    if cut.farewell:
        return f"it told a session {cut.farewell!r}: a shutdown, not a cut"
    if cut.asked is False:
        return "no cut of its power is on record"
    if cut.lab:
        return ""
    booted = boots(before, after)
    if booted == "same":
        return "its host has the same boot_id: its power was not cut"
    if booted == "new" or (cut.measured and cut.asked):
        return ""
    if after is not None and after.facts is None:
        return f"its host does not answer either: {after.failure}"
    return (
        "nothing shows that its host lost power and booted again (--target-host does)"
    )


def _host_not_back(before: HostBefore | None, after: HostAfter | None) -> str:
    """Return why the host may be to blame, "" if it is up again."""
    if before is None or after is None:
        return "its host was not asked (--target-host asks it)"
    if after.facts is None:
        return f"its host does not answer either: {after.failure}"
    return ""


def _by_log(log: LogTail | None) -> Absence:
    """Return what the log says of the server's starts since the preflight."""
    if log is None:
        return Absence(
            doubt="its log was not read (--target-host and --server-log read it)"
        )
    if log.rewound:
        return Absence(doubt="its log is shorter than before the cut")
    shut = crash_item("server's log", replace(log, text=before_starts(log.text)))
    if shut.standing is Standing.CONTRADICTED:
        return Absence(doubt=f"its log: {shut.reason}")
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
    said = _joined(starts) or "its log does not say why"
    return Absence(
        doubt=f"it does not start, and its log does not blame the data: {said}"
    )


def _joined(starts: Starts) -> str:
    return "; ".join(starts.lines)
