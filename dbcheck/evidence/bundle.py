"""Makes a bundle of a run or of a campaign."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import make_result as campaign_result
from dbcheck.evidence import archive
from dbcheck.evidence.scrub import Scrub, list_hosts
from dbcheck.evidence.staging import (
    FILE,
    REPORT,
    RUNS,
    find_too_large_file,
    list_judgeable_runs,
    make_attestation,
    make_scratch_folder,
    stage_campaign,
    stage_run,
)
from dbcheck.judge.results import CampaignResult, CampaignsResult
from dbcheck.model.verdict import Verdict
from dbcheck.ports.witness import LogReader
from dbcheck.report.html.page import as_html
from dbcheck.runs.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Made:
    """A bundle that is ready to be written: its index, and what it consists of."""

    index: archive.Index
    folder: Path

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the archive."""
        return archive.make_chunks(self.folder, self.index)


@contextmanager
def make_bundle(
    path: Path, secrets: Iterable[str], reader: LogReader, *, redact: bool
) -> Iterator[Made]:
    """Make the bundle of the run or campaign in the folder *path*.

    secrets: passwords that must not be in it.  redact: nor may names of hosts, and
    addresses.  Raise UsageError if *path* is neither, or cannot be made so.
    """
    with make_scratch_folder() as folder:
        try:
            made = _stage_bundle(path, folder, list(secrets), reader, redact=redact)
        except ValueError as error:
            raise UsageError(
                f"without what must not be in a bundle, {path} cannot be judged:"
                f" {error}",
                id=ErrorId.REDACTION_NOT_POSSIBLE,
                hint="Share the report alone (dbcheck report), or leave out --redact.",
            ) from None
        yield made


def _stage_bundle(
    path: Path, folder: Path, secrets: list[str], reader: LogReader, *, redact: bool
) -> Made:
    if (path / "manifest.json").is_file():
        run = RunFolder.open(path)
        scrub = Scrub(secrets, _list_host_names([run]) if redact else None)
        return _bundle_run(run, folder, scrub, reader, redact=redact)
    if (path / "campaign.json").is_file():
        campaign = CampaignFolder.open(path)
        scrub = Scrub(
            secrets, _list_host_names(list_judgeable_runs(campaign)) if redact else None
        )
        return _bundle_campaign(campaign, folder, scrub, reader, redact=redact)
    raise UsageError(
        f"{path} is not the folder of a run, or of a campaign on one target",
        id=ErrorId.NOT_A_RESULT_FOLDER,
        hint="Give runs/RUN_ID or campaigns/CAMPAIGN; of a campaign on several targets"
        " the folder of one of them.",
    )


def _list_host_names(runs: Sequence[RunFolder]) -> set[str]:
    """Return the names of the hosts; raise UsageError if one cannot be replaced."""
    return {name for run in runs for name in list_hosts(run.manifest())}


def _bundle_run(
    run: RunFolder, folder: Path, scrub: Scrub, reader: LogReader, *, redact: bool
) -> Made:
    subject = stage_run(run, folder / RUNS, scrub, reader)
    result = subject.result
    made = _Kind("run", result.run, result.verdict, redact)
    return _finish_bundle(folder, made, result.target, as_html(subject), scrub)


def _bundle_campaign(
    campaign: CampaignFolder,
    folder: Path,
    scrub: Scrub,
    reader: LogReader,
    *,
    redact: bool,
) -> Made:
    copy = stage_campaign(campaign, folder, scrub, reader)
    result = campaign_result(copy)
    made = _Kind("campaign", result.name, result.verdict, redact)
    return _finish_bundle(folder, made, result.name, make_campaign_page(result), scrub)


def make_campaign_page(result: CampaignResult) -> str:
    """Return the report on the campaign of a bundle."""
    return as_html(CampaignsResult(".", (replace(result, folder="."),)))


@dataclass(frozen=True, slots=True)
class _Kind:
    kind: str
    name: str
    verdict: Verdict
    redacted: bool


def _finish_bundle(
    folder: Path, made: _Kind, test: str, page: str, scrub: Scrub
) -> Made:
    """Add the attestation and the report; compress and list what there is."""
    content = make_attestation(folder, test, made.verdict)
    if content is not None:
        (folder / FILE).write_bytes(content)
    (folder / REPORT).write_text(page, "utf-8")
    if name := find_too_large_file(folder):
        raise UsageError(
            f"{name} is too large for a bundle",
            id=ErrorId.BUNDLE_TOO_LARGE,
            hint="Share the report alone (dbcheck report).",
        )
    index = archive.Index(
        kind=made.kind,
        name=made.name,
        dbcheck=dbcheck.__version__,
        verdict=made.verdict,
        redacted=made.redacted,
        removed=scrub.removed,
        members=archive.pack_files(folder),
    )
    return Made(index, folder)
