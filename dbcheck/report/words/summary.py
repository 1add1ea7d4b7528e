"""The first box of a report: the verdict, what to do next, and what was checked."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from dbcheck.base.text import parse_utc
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.result import Checked, CheckedDrive, RunResult
from dbcheck.model.audited import list_alarms
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import Verdict, describe_bound, format_count
from dbcheck.report.words import copy as of_copy
from dbcheck.report.words import run as words
from dbcheck.report.words.cluster import name_nodes
from dbcheck.report.words.outage import NAME

_DRIVES_SHOWN = 3
_HEADLINE_MAX = 200  # characters
CUT_THE_POWER = (
    "Cut the power itself: a killed process tests neither the operating system nor a"
    " drive."
)
CHECK_THE_REAL_SERVER = (
    "Check the real server, whose drive this says nothing about: dbcheck run."
)
_NOT_ASKED = "not known: add --target-host"
DEPTHS = {
    Depth.PROCESS: "only the server's memory was lost",
    Depth.OS: "the page cache was lost",
    Depth.DRIVE: "the drive's cache was lost",
}


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that is read at a glance; note: what it counts."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The first box of a report.

    badge:    the verdict, in a word or two.
    verdict:  what gives the box its colour; None if the subject has no verdict.
    headline: what was lost of what, as a sentence.
    warning:  what the verdict rests on, if that is less than it should be.
    detail:   why, as sentences; "" if the headline says all.
    proof:    how much that proves, as sentences.
    action:   what to do next, as sentences.
    about:    name and value of when, where, on which drive and by whom.
    """

    badge: str
    verdict: Verdict | None
    headline: str
    proof: str
    action: str
    about: tuple[tuple[str, str], ...]
    tiles: tuple[Tile, ...] = ()
    detail: str = ""
    warning: str = ""


def summarize_run(result: RunResult, reconcile: str = "") -> Summary:
    """Return the first box of a report on a run.

    reconcile: the command that continues a run which is not final, with the flags that
    it was given; "" if those are not known.
    """
    headline, detail = _split_headline(result)
    return Summary(
        badge=result.verdict.value,
        verdict=result.verdict,
        headline=headline,
        detail=detail,
        warning=words.warn_of_witness(result),
        proof=words.proof(result),
        action=_choose_action(result, reconcile),
        about=tuple(_list_about(result)),
        tiles=tuple(_list_tiles(result)),
    )


def _list_about(result: RunResult) -> Iterator[tuple[str, str]]:
    about = describe_about(
        *(result.checked, result.target, result.server),
        virtual=result.cut_class is CutClass.LAB_DRIVE,
    )
    for name, value in about:
        if name != "drive" or not result.copy:  # no drive was tested
            yield name, value
    if result.cluster:
        yield "cluster", name_nodes(result.cluster)


def _split_headline(result: RunResult) -> tuple[str, str]:
    """Return the verdict's sentence, and what is too long for a heading or "".

    A cut that does not count has its reason apart, as has a loss with what the kernel
    or the server wrote about it, and a PASS what it assumes and what the audit found.
    """
    text = words.headline(result)
    if result.verdict is Verdict.PASS and len(text) > _HEADLINE_MAX:
        first, _, rest = text.partition("; ")
        return words.sentence(first), rest and words.sentence(rest)
    first, _, rest = text.partition(": ")
    is_short = len(text) <= _HEADLINE_MAX
    if not rest or (is_short and result.verdict is not Verdict.INCONCLUSIVE):
        return words.sentence(text), ""
    return words.sentence(first), f"Why: {rest.removesuffix('.')}."


def _choose_action(result: RunResult, reconcile: str) -> str:
    if result.copy:
        command = reconcile or f"dbcheck reconcile {shlex.quote(result.folder)}"
        return of_copy.choose_action(result, command)
    if not result.final:
        command = reconcile or f"dbcheck reconcile {shlex.quote(result.folder)}"
        return (
            "This is not final. Once the server is back, and before anything writes to"
            f" it, run: {command}"
        )
    if result.verdict is Verdict.FAIL:
        return _act_on_fail(result)
    if result.verdict is Verdict.INCONCLUSIVE:
        return "Fix the cause, then rerun."
    if result.control:
        return "Now check the server itself: run it without the control."
    if list_alarms(result.audit or ()):
        return "Fix what the audit found, then cut again."
    if result.cut_class is CutClass.PROCESS:
        return CUT_THE_POWER
    if result.shown_depth is Depth.PROCESS:
        return (
            "Find out what this switch cuts: only the server's process ended. Then cut"
            " again."
        )
    return _advise_cut_again(result)


def _advise_cut_again(result: RunResult) -> str:
    """Return how to cut once more, after a PASS of a cut of the power."""
    if result.lab:
        return "Cut again: dbcheck lab run --cycles 59."
    again = "Cut again: dbcheck campaign --until 0.05 makes these cuts and counts them."
    if result.cluster:
        again = "Cut again: dbcheck run, once the cluster is as it was before."
    # Whoever runs a managed service has no plug to pull.
    if result.cut_class.keeps_power and result.cut_class is not CutClass.FAILOVER:
        again += " Then pull the real plug: this cut left the drives their power."
    return again


def _act_on_fail(result: RunResult) -> str:
    """Return what to do about a loss; cutting again is never needed to believe it."""
    keep = "Keep this run: it is the evidence."
    if result.lost_without_cut:
        return f"Find out what stopped the server. {keep}"
    if result.settings_at_fault:
        these = "setting" if len(result.settings_at_fault) == 1 else "settings"
        return f"Change the {these} named below, then check the server anew. {keep}"
    if _settings_break_promise(result):
        return (
            "Change the settings named below, or check the promise that they make, and"
            f" check the cluster anew. {keep}"
        )
    if result.layers_at_fault:
        return f"Mend the storage as it says below, then check it anew. {keep}"
    if result.lab:
        return f"Find the cause below. {keep}"
    what = "cluster" if result.cluster else "server"
    return (
        f"Do not rely on this {what}. Find the cause below, remove it, and check the"
        f" {what} anew. {keep}"
    )


def _settings_break_promise(result: RunResult) -> bool:
    """Return True if the settings of a cluster do not keep the promise of the check."""
    return any(
        one.item is ItemId.PROMISED_SETTINGS and one.status is Status.ABSENT
        for one in result.evidence
    )


def describe_about(
    checked: Checked,
    target: str,
    server: str = "",
    *,
    until: str = "",
    virtual: bool = False,
) -> Iterator[tuple[str, str]]:
    """Yield when, where, on which drive and by whom; what is not recorded is left out.

    target: the server's URL.  server: its product and version.  until: when the last
    of several cycles ended, ISO 8601.  virtual: the drives are those of a lab.
    """
    began, ended = (format_moment(text) for text in (checked.begun, until))
    day, _, first = began.partition(" ")
    if ended and ended != began and ended.startswith(f"{day} "):
        began = f"{day} {first.removesuffix(' UTC')}"
        ended = ended.removeprefix(f"{day} ")
    if moments := list(dict.fromkeys(filter(None, (began, ended)))):
        yield "when", " to ".join(moments)
    if checked.clocks:
        yield "clocks", words.sentence(checked.clocks)
    host = checked.host or _find_address(target)
    if host or server:
        yield "host", f"{host} ({server})" if host and server else host or server
    if checked.pod:
        yield "pod", checked.pod
    if checked.begun:
        yield "drive", _describe_drives(checked.drives, virtual=virtual)
    if checked.user:
        yield "by", checked.user


def format_moment(text: str) -> str:
    """Return a moment of ISO 8601 in UTC, to the minute; *text* if it is none."""
    moment = parse_utc(text)
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else text


def _find_address(target: str) -> str:
    """Return the host that a URL names, "" if it names none."""
    try:
        return urlsplit(target).hostname or ""
    except ValueError:
        return ""


def _describe_drives(drives: Sequence[CheckedDrive], *, virtual: bool) -> str:
    if virtual and drives:
        return f"{', '.join(drive.name for drive in drives)} (virtual, of a lab)"
    more = len(drives) - _DRIVES_SHOWN
    shown = "; ".join(map(_describe_drive, drives[:_DRIVES_SHOWN])) or _NOT_ASKED
    return f"{shown}; and {more} more" if more > 0 else shown


def _describe_drive(drive: CheckedDrive) -> str:
    known = [
        drive.model,
        f"serial {drive.serial}" if drive.serial else "",
        f"firmware {drive.firmware}" if drive.firmware else "",
    ]
    about = ", ".join(filter(None, known)) or "no model or serial known"
    return f"{drive.name} ({about})"


def _list_tiles(result: RunResult) -> Iterator[Tile]:
    """Yield the figures of a run; none of them is of a control."""
    if result.copy:
        yield from (Tile(*tile) for tile in of_copy.list_tiles(result.copy))
        return
    if result.control:
        return
    counts = int(result.counts)
    yield Tile("cuts", str(counts), "that counts" if counts else "see why below")
    share, of = describe_bound(result.lost_in_cut, counts)
    if share:
        yield Tile("bound", share, of)
    depth = result.shown_depth
    shown = depth.value if depth else "unknown"
    yield Tile("depth", shown, DEPTHS[depth] if depth else "it was not measured")
    yield Tile("rows lost", words.lost_in(result), _of_commits(result.confirmed))
    if (outage := result.outage) and outage.seconds is not None:
        yield Tile(
            NAME,
            f"{outage.seconds:,.1f} s",
            "from the last commit to the next one that lasted",
        )
    elif result.recovery_s is not None:
        yield Tile(
            "recovery",
            f"{result.recovery_s:,.1f} s",
            "from the return of the power to the first query",
        )


def _of_commits(confirmed: int | None) -> str:
    if confirmed is None:
        return "no rows were compared"
    return f"of {format_count(confirmed, 'acknowledged commit')}"
