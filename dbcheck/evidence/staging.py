"""Copies of a run and of a campaign as a bundle holds them: judged again, scrubbed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dbcheck.campaign.detail import detail_of
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.judging import judge_run
from dbcheck.campaign.logs import StoredLogs
from dbcheck.campaign.totals import ERROR_FILE
from dbcheck.errors import LogDamaged, UsageError
from dbcheck.evidence.scrub import Scrub
from dbcheck.judge.result import RunResult, to_values
from dbcheck.ports.witness import LogReader
from dbcheck.report.subject import RunSubject
from dbcheck.runs import RunFolder

RUNS = "runs"
# Copied as they are: numbers, or rows that the seed decides.
_COPIED = ("survivors*.bin", "different*.jsonl", "acks*.log", "drives.csv")
_OF_A_RUN = "server.log"


def stage_run(
    run: RunFolder, parent: Path, scrub: Scrub, reader: LogReader
) -> RunSubject:
    """Copy a run to a folder in *parent*, without secrets; judge the copy.

    Raise UsageError if what must go is in the witness's log, or if without it the run
    would be judged otherwise.
    """
    copy = RunFolder.copied(parent, scrub.record(run.manifest()), run.recalled())
    for pattern in _COPIED:
        for path in sorted(run.path.glob(pattern)):
            shutil.copyfile(path, copy.path / path.name)
    if (load := run.load()) is not None:
        copy.write_load(scrub.record(load))
    if (restore := run.restore()) is not None:
        copy.write_restore(restore)
    copy.write_after(scrub.record(run.after()))
    if (log := run.path / _OF_A_RUN).is_file():
        text = scrub.text(log.read_text("utf-8", errors="replace"))
        copy.write_lines(_OF_A_RUN, [text])
    _require_clean(run, scrub, reader)
    if run.lacks_survivors():
        subject = RunSubject(in_bundle(scrub.record(run.result())))
    else:
        outcome = judge_run(copy, reader)
        _require_same(judge_run(run, reader).result, outcome.result)
        subject = RunSubject(in_bundle(outcome.result), detail_of(outcome, reader))
    copy.write_verdict(to_values(subject.result))
    return subject


def in_bundle(result: RunResult) -> RunResult:
    """Return a result without what depends on where the run lies."""
    return replace(result, folder=f"{RUNS}/{result.run}", stored=True, image="")


def _require_clean(run: RunFolder, scrub: Scrub, reader: LogReader) -> None:
    """Raise UsageError if a log of the witness holds what must not be in a bundle.

    Its chain of digests does not let it be changed.
    """
    try:
        facts = StoredLogs(run, reader, run.manifest(), run.load()).facts()
    except LogDamaged:
        return  # nothing can be read of it, and no event was kept
    if any(scrub.changes(event) for one in facts for event in one.events):
        raise UsageError(
            f"the witness's log of run {run.path.name} names a host, or holds what"
            " looks like a secret, and it cannot be changed without breaking its"
            " chain of digests",
            hint="Share the report alone (dbcheck report), or leave out --redact.",
        )


def _require_same(original: RunResult, copy: RunResult) -> None:
    if _judged(original) != _judged(copy):
        raise UsageError(
            f"without what must not be in a bundle, run {original.run} would be judged"
            f" {copy.verdict.value} and not {original.verdict.value}",
            hint="Share the report alone (dbcheck report), or leave out --redact.",
        )


def _judged(result: RunResult) -> tuple[object, ...]:
    """Return what a changed text must not change."""
    return (
        *(result.verdict, result.confirmed, result.kept, result.losses),
        *(result.earlier_losses, result.ranges, result.depth and result.depth.depth),
        *((item.item, item.standing, item.required) for item in result.evidence),
    )


def stage_campaign(
    folder: CampaignFolder, parent: Path, scrub: Scrub, reader: LogReader
) -> CampaignFolder:
    """Copy a campaign with its runs to *parent*, without secrets; judge the copies.

    Raise UsageError as stage_run() does.
    """
    copy = CampaignFolder.create(parent, scrub.record(folder.plan()))
    for run in runs_of(folder):
        stage_run(run, copy.runs, scrub, reader)
    for cycle in folder.cycles():
        copy.add(scrub.record(cycle))
    copy.write_known(scrub.record(folder.known()))
    if (error := folder.path / ERROR_FILE).is_file():
        text = scrub.text(error.read_text("utf-8", errors="replace"))
        (copy.path / ERROR_FILE).write_text(text, "utf-8")
    return copy


def runs_of(folder: CampaignFolder) -> Sequence[RunFolder]:
    """Return the runs of a campaign that can be judged: their rows were read."""
    paths = sorted(folder.runs.glob("*/manifest.json"))
    runs = [RunFolder.open(path.parent) for path in paths]
    return [run for run in runs if (run.path / "after.json").is_file()]
