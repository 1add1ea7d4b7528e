"""Sentences on several named runs, whose cuts are counted together."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from dbcheck.judge.checks import ChosenRuns, RunBeside
from dbcheck.judge.results import CampaignResult
from dbcheck.model.verdict import CycleVerdict, Verdict, format_count

_SHOWN_MAX = 8


def format_title(result: CampaignResult) -> str:
    """Name what is counted: a campaign, or the number of runs."""
    if result.chosen is None:
        return "Campaign of power cuts"
    return f"{format_count(len(result.chosen.folders), 'run')} counted together"


def contradicts(result: CampaignResult) -> bool:
    """Return True if a run beside the named ones contradicts a PASS of them."""
    return result.chosen is not None and bool(result.chosen.contradicting)


def summarize_contradiction(result: CampaignResult) -> str:
    """Say of the first run that contradicts the named ones what it lost, or may have.

    Without the full stop; "" if none contradicts them.
    """
    if result.chosen is None or not result.chosen.contradicting:
        return ""
    first = result.chosen.contradicting[0]
    if first.verdict is None:
        return (
            f"A cut of {result.name} is not judged, and may have lost data: run"
            f" {first.run}, which was not named"
        )
    return (
        f"The server {result.name} lost data in run {first.run}, which was not named"
        f"{_describe_test(first)}"
    )


def _describe_test(one: RunBeside) -> str:
    """Return the clause on another load or cut than that of the counted runs, or ""."""
    if not one.tested_otherwise:
        return ""
    return f" and had another load or cut ({_shorten(one.tested_otherwise)})"


def has_blind_control(result: CampaignResult) -> bool:
    """Return True if the newest control does not show that losses are seen."""
    return result.chosen is not None and bool(result.chosen.blind)


def contradictions(result: CampaignResult) -> Iterator[str]:
    """Yield the runs that contradict a PASS of the named ones, then what to do.

    The control that does not show that losses are seen comes last.
    """
    found = result.chosen.contradicting if result.chosen is not None else ()
    for one in found[:_SHOWN_MAX]:
        verdict = "no verdict yet" if one.verdict is None else one.verdict.value
        yield (
            f"{verdict} in run {one.run} of this server, which was not named and is not"
            f" counted{_describe_test(one)}: {one.reason}"
        )
    if any(one.countable for one in found):
        yield (
            "No PASS while such a run is left out: name it as well, and judge it first"
            " if it has no verdict"
        )
    if not all(one.countable for one in found):
        yield (
            "No PASS while a run that cannot be counted with these, such as one with"
            " another load or cut, on another database or of a campaign, failed or has"
            " no verdict: read its own report, or judge it"
        )
    blind = result.chosen.blind if result.chosen is not None else ""
    if blind and result.verdict is not Verdict.FAIL:
        yield f"No PASS before a control has lost rows, in a fair test: {blind}"


def advise(result: CampaignResult) -> str:
    """Name the next step for the first run that contradicts the named ones."""
    found = result.chosen.contradicting if result.chosen is not None else ()
    if all(one.countable for one in found[:1]):
        return "Name that run as well; judge it first if it has no verdict."
    return (
        "Read the report of that run, which cannot be counted with these; judge it"
        " first if it has no verdict."
    )


def warn_of_failed(result: CampaignResult) -> str:
    """Warn of runs that failed under another configuration; "" if none did."""
    beside = result.chosen.agreeing if result.chosen is not None else ()
    failed = [one for one in beside if one.verdict is Verdict.FAIL]
    if not failed:
        return ""
    first, *others = failed
    more = f", and in {format_count(len(others), 'more run')}" if others else ""
    return (
        f"This server lost data in run {first.run}, which was not named and had another"
        f" configuration ({_shorten(first.differs)}){more}."
    )


def scope(result: CampaignResult) -> Iterator[str]:
    """Yield which runs are counted, and which runs of the server are not."""
    if result.chosen is None:
        return
    yield (
        f"counted are the {format_count(len(result.chosen.folders), 'run')} that were"
        " named: the bound holds only if no run on this server is missing"
    )
    others = result.chosen.agreeing
    for one in others[:_SHOWN_MAX]:
        yield f"not named, of the same server: run {one.run}, {_describe(one)}"
    if (more := len(others) - _SHOWN_MAX) > 0:
        yield f"not named, of the same server: {format_count(more, 'more run')}"


def _describe(one: RunBeside) -> str:
    verdict = "no verdict" if one.verdict is None else one.verdict.value
    if one.differs:
        verdict += f", another configuration ({_shorten(one.differs)})"
    if one.tested_otherwise:
        verdict += f", another load or cut ({_shorten(one.tested_otherwise)})"
    return verdict


def _shorten(names: Sequence[str]) -> str:
    """Name the first values of a run that differ from the counted runs."""
    more = len(names) - 3
    return f"{', '.join(names[:3])}{f' and {more} more' * (more > 0)}"


def format_command(chosen: ChosenRuns) -> str:
    """Return the command that makes this report."""
    return shlex.join(("dbcheck", "report", *chosen.folders))


def find_folder_of_loss(result: CampaignResult) -> str:
    """Return the folder of the first run that failed, "" if none did."""
    folders = result.chosen.folders if result.chosen is not None else ()
    for cycle, folder in zip(result.cycles, folders, strict=False):
        if cycle.verdict is CycleVerdict.FAIL:
            return folder
    return ""
