"""Reads the stored steps of a go-live check: a step is over only with its proof.

A step's file alone is no proof: its campaign may be another one, or be gone, and its
papers may have been changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.stopping import has_lost
from dbcheck.campaign.totals import make_result
from dbcheck.model.golive import PaperResult, StepId, StepResult, StepStatus
from dbcheck.model.verdict import Verdict, format_count
from dbcheck.runner.golive_folder import GoLiveFolder, GoLivePlan, StepRecord
from dbcheck.runner.golive_setup import IDENTITY

Records = Mapping[StepId, StepRecord | None]
_MAY_BE_LEFT_OUT = (StepId.FLUSHES, StepId.POWER)


def read_records(folder: GoLiveFolder, plan: GoLivePlan) -> Records:
    """Read what is stored of each step; one without its proof has yet to be done."""
    return {step: _read_proven(folder, plan, step) for step in StepId}


def reopen(record: StepRecord, why: str) -> StepRecord:
    """Return the record of a step that has to be done again; why: a clause.

    It keeps the identity of the data, so another server is still noticed, and why
    campaigns were left.
    """
    result = record.result
    summary = f"to be repeated: {why}"
    setup = {k: v for k, v in record.setup.items() if k.startswith(IDENTITY)}
    return StepRecord(
        StepResult(result.step, StepStatus.OPEN, result.command, summary=summary),
        setup,
        left=list_left_campaigns(record),
    )


def list_left_campaigns(record: StepRecord) -> tuple[str, ...]:
    """Return why the campaigns of a step are not continued, a text for each.

    They are those of earlier folders; and that of *record*, if its user was told that
    it came to no verdict, or that its rows were gone between two cuts: what is read
    after a cut is held against what the reading before it left.
    """
    result, why = record.result, ""
    if result.error_id == ErrorId.EARLIER_ROWS_LOST:
        why = (
            "rows of earlier cycles were gone before its next cut, and it was begun"
            " anew: say who removed them"
        )
    elif record.folder and result.verdict is Verdict.INCONCLUSIVE:
        why = (
            f"it came to no verdict ({result.summary}), and was begun anew: say what"
            " was wrong"
        )
    return (*record.left, f"{record.folder}: {why}") if why else record.left


def find_failed_campaign(folder: GoLiveFolder) -> StepId | None:
    """Return the step that has a campaign with a loss, None if there is none.

    A client may have ended after the loss, before it stored the step.
    """
    for step in (StepId.FIRST_CUT, StepId.CAMPAIGN):
        campaign = open_campaign(folder, folder.record(step))
        if campaign and make_result(campaign).verdict is Verdict.FAIL:
            return step
    return None


def open_campaign(
    folder: GoLiveFolder, record: StepRecord | None
) -> CampaignFolder | None:
    """Open the campaign of a step, None if it has none."""
    if record is None or not record.folder:
        return None
    path = folder.path / record.folder
    return CampaignFolder.open(path) if (path / "campaign.json").is_file() else None


def has_papers_of(papers: StepRecord, campaign: str) -> bool:
    """Return True if the report among *papers* is that of the folder *campaign*."""
    return name_report(campaign) in [paper.file for paper in papers.papers]


def name_report(campaign: str) -> str:
    """Return the name of the report on the campaign in the folder *campaign*."""
    return f"{campaign}.html"


def describe_paper(file: Path, what: str) -> PaperResult:
    """Return a file that the check hands over, with its digest."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return PaperResult(file.name, what, digest)


def _read_proven(
    folder: GoLiveFolder, plan: GoLivePlan, step: StepId
) -> StepRecord | None:
    record = folder.record(step)
    if record is None or not record.status.is_over:
        return record
    why = next(_list_gaps(folder, plan, step, record), "")
    return reopen(record, why) if why else record


def _list_gaps(
    folder: GoLiveFolder, plan: GoLivePlan, step: StepId, record: StepRecord
) -> Iterator[str]:
    """Yield what a step lacks that is stored as over."""
    is_left_out = record.status is StepStatus.LEFT_OUT
    if is_left_out and step not in _MAY_BE_LEFT_OUT:
        yield "this step cannot be left out"
    if step.is_campaign:
        yield from _list_gaps_of_campaign(folder, plan, step, record)
    elif record.result.verdict is not Verdict.PASS:
        yield "it has not passed"
    if step is StepId.PAPERS:
        yield from _list_gaps_of_papers(folder, record)


def _list_gaps_of_campaign(
    folder: GoLiveFolder, plan: GoLivePlan, step: StepId, record: StepRecord
) -> Iterator[str]:
    path = folder.path / record.folder
    campaign = open_campaign(folder, record)
    if campaign is None:
        yield f"{path} holds no campaign"
        return
    made = campaign.plan()
    if made.target != plan.target:
        yield f"{path} is a campaign on {made.target}"
    wanted = plan.cuts if step is StepId.CAMPAIGN else 1
    result = make_result(campaign)
    if result.statistics.cuts < wanted:
        counted = format_count(result.statistics.cuts, "cut")
        yield f"{counted} of {wanted} counted in {path}"
    if result.verdict is not Verdict.PASS:
        yield f"the campaign in {path} has not passed"
    if step is StepId.FIRST_CUT and plan.control:
        controls = (cycle.control for cycle in campaign.cycles())
        if not any(has_lost(each) for each in controls if each):
            yield f"no control lost rows in {path}"


def _list_gaps_of_papers(folder: GoLiveFolder, record: StepRecord) -> Iterator[str]:
    if not record.papers:
        yield "there are no report and no bundle"
    about = folder.record(find_failed_campaign(folder) or StepId.CAMPAIGN)
    if about is None or not has_papers_of(record, about.folder):
        yield "they are of an earlier campaign"
    for paper in record.papers:
        file = folder.path / paper.file
        if not file.is_file():
            yield f"{file} is gone"
        elif describe_paper(file, paper.what) != paper:
            yield f"{file} was changed since it was written"
