"""Sentences of a go-live check: what each step does, and what its page says."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dbcheck.model.golive import GoLiveResult, StepId, StepStatus
from dbcheck.model.verdict import Verdict, describe_unseen_losses, format_count
from dbcheck.report.words.run import sentence


@dataclass(frozen=True, slots=True)
class About:
    """The text that is shown before a step begins."""

    title: str
    does: str
    takes: str
    changes: str


ABOUT: Mapping[StepId, About] = {
    StepId.WITNESS: About(
        "Witness",
        "Writes and syncs records on the witness, and checks that it is another host"
        " than the server's.",
        "seconds",
        "nothing that stays",
    ),
    StepId.AUDIT: About(
        "Audit",
        "Reads the account's rights, settings, filesystems, drives and controllers, and"
        " looks for what is missing for the cuts, and for what loses commits.",
        "seconds",
        "nothing",
    ),
    StepId.FLUSHES: About(
        "Flushes",
        "Commits rows one by one, and counts the flushes that reach the drives.",
        "seconds",
        "rows in dbcheck's own table",
    ),
    StepId.POWER: About(
        "Power test",
        "Cuts the power of the idle host by its switch, restores it, and checks that"
        " this host went down, and how deep the cut went.",
        "the time without power, and a boot",
        "the server stops and starts again",
    ),
    StepId.FIRST_CUT: About(
        "First cut",
        "Runs one whole cycle: load, cut, restore, reading of all rows, verdict.",
        "for each cut: seconds of load, the time without power, a boot, the recovery",
        "rows in dbcheck's own tables; the server stops and starts again",
    ),
    StepId.CAMPAIGN: About(
        "Campaign",
        "Cuts at random moments until the bound is shown. The first loss ends it.",
        "for each cut as long as the first cut",
        "rows in dbcheck's own tables; the server stops and starts again each time",
    ),
    StepId.PAPERS: About(
        "Papers",
        "Writes the report and the bundle, and judges the bundle again.",
        "seconds",
        "nothing on the server",
    ),
}
CONTROL = (
    "Before it comes a control: a cut under sessions that are acknowledged too early."
    " It must lose rows; if it does not, this rig cannot see losses. On MySQL and"
    " MariaDB the whole server is relaxed until that cut. --no-control leaves it out."
)
CUTS = "This step cuts the power."
CUTS_BY_HAND = "In this step you cut the power by hand, each time you are asked to."
# What dbcheck cannot see; somebody ticks each of these by hand.
BY_HAND = (
    "The target is configured as it will go live, and has no other users.",
    "The witness is on another power supply than the target.",
    "Each point to accept, above, is accepted by name.",
    "Report and bundle are stored with the ticket.",
    "dbcheck's tables are dropped: {clean}",
    "The date of the next check, and who watches for what invalidates this one:",
)
COVERS = (
    "It does not cover a drive that loses less often than the bound, a supply that"
    " fades slowly, a battery that grows older, a load of another kind, or a failover.",
)
INVALIDATES = (
    ("firmware of a drive, a controller or the board", "it decides what a flush does"),
    ("a drive, a controller or a cable was replaced", "it is another drive"),
    (
        "the controller's battery or capacitor",
        "its write cache may be on without protection",
    ),
    (
        "kernel, driver, multipath, LVM, md or dm-crypt",
        "they decide whether flushes reach the drive",
    ),
    ("filesystem or mount options", "the same"),
    (
        "the server's version or its flush settings",
        "also for one role or one database",
    ),
    (
        "the hypervisor, the storage below it or its cache mode",
        "flushes may end there",
    ),
    ("power supply, UPS or outlet", "the cut is another one"),
)
STATUS_WORDS = {
    StepStatus.OPEN: "not yet",
    StepStatus.BEGUN: "begun, not finished",
    StepStatus.STOPPED: "stopped",
    StepStatus.LEFT_OUT: "left out",
    StepStatus.DONE: "done",
}


def describe_duration(
    step: StepId, cuts: int, to_come: int, each_s: float | None
) -> str:
    """Return how long a step takes, to_come of whose cuts are still to be made.

    each_s: of one cut, None if that is not known.
    """
    takes = ABOUT[step].takes
    if step is not StepId.CAMPAIGN or each_s is None:
        return takes
    whole_s = each_s * to_come
    shown = f"{whole_s / 60:.0f} min" if whole_s < 5400 else f"{whole_s / 3600:.1f} h"
    if whole_s < 60:
        shown = "a minute"
    left = f" for the {to_come} of {cuts} cuts to come" if to_come < cuts else ""
    return f"about {shown}{left}, as the first cut took {each_s:.0f} s"


def headline(result: GoLiveResult) -> str:
    """Return the result of the check in one sentence."""
    proven, waiting = result.statistics, result.next_step
    if result.verdict is Verdict.PASS and proven is not None:
        return f"{result.name}: {proven.sentence}."
    if waiting is None:
        return f"{result.name}: the check is over, and proves nothing yet."
    title = ABOUT[waiting.step].title
    if result.verdict is Verdict.FAIL:
        return f"{result.name} must not go live: {waiting.summary or title}"
    if waiting.status is StepStatus.STOPPED:
        return f"{result.name}: the check stopped at the step {title}."
    return f"{result.name}: the check is not finished; the next step is {title}."


def proofs(result: GoLiveResult) -> Iterator[str]:
    """Yield what the verdict proves, and what to do next."""
    proven, waiting = result.statistics, result.next_step
    if waiting is not None:
        if waiting.summary and result.verdict is not Verdict.FAIL:
            yield sentence(waiting.summary)
        if waiting.fix:
            yield waiting.fix
        if result.verdict is not Verdict.FAIL or not waiting.step.is_campaign:
            yield f"Then continue: {resume_command(result.folder)}"
        return
    if proven is not None and proven.cuts:
        yield sentence(describe_unseen_losses(proven.cuts))
    if count := len(result.to_accept):
        yield f"{format_count(count, 'point')} to accept by name before the sign-off."


def resume_command(folder: str) -> str:
    """Return the command that continues a check."""
    return shlex.join(["dbcheck", "golive", "--resume", folder])


def format_time(moment: str) -> str:
    """Return a moment (UTC, ISO 8601) as people write it, to the minute."""
    return moment[:16].replace("T", " ")


def limits(result: GoLiveResult) -> list[str]:
    """Return the limits of a PASS, a sentence each."""
    return [*result.limits, *COVERS]
