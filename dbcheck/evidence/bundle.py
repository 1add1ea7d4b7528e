"""Makes a bundle of a run, of several runs of one server, or of a campaign."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError, UsageError
from dbcheck.campaign.beside import list_runs_beside
from dbcheck.campaign.chosen import open_chosen
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import make_result as campaign_result
from dbcheck.evidence import archive
from dbcheck.evidence.nodes import SHARE_REPORT, list_nodes, require_no_node
from dbcheck.evidence.scrub import Scrub, list_hosts
from dbcheck.evidence.staging import (
    ATTESTATION_FILE,
    REPORT_FILE,
    RUNS_FOLDER,
    find_too_large_file,
    list_judgeable_runs,
    make_attestation,
    make_scratch_folder,
    name_tested,
    stage_campaign,
    stage_chosen_runs,
    stage_run,
)
from dbcheck.judge.checks import RunBeside
from dbcheck.judge.results import CampaignResult, CampaignsResult
from dbcheck.model.verdict import Verdict
from dbcheck.ports.witness import LogReader
from dbcheck.report.html.page import as_html
from dbcheck.runs.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that is ready to be written: its index, and what it consists of."""

    index: archive.Index
    folder: Path

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the archive."""
        return archive.make_chunks(self.folder, self.index)


@contextmanager
def make_bundle(
    paths: Sequence[Path], secrets: Iterable[str], reader: LogReader, *, redact: bool
) -> Iterator[Bundle]:
    """Make the bundle of the run or campaign in the folder *paths*, or of several runs.

    secrets: passwords to remove.  redact: also remove host names and addresses.
    Raise UsageError if a folder is neither, if several are not runs of one server, or
    if they cannot be judged once redacted.
    """
    with make_scratch_folder() as folder:
        try:
            if len(paths) > 1:
                bundle = _bundle_chosen_runs(
                    paths, folder, list(secrets), reader, redact=redact
                )
            else:
                bundle = _stage_bundle(
                    paths[0], folder, list(secrets), reader, redact=redact
                )
        except ValueError as error:
            named = ", ".join(map(str, paths))
            raise UsageError(
                f"{named} cannot be judged once secrets and names are removed: {error}",
                id=ErrorId.REDACTION_NOT_POSSIBLE,
                hint=SHARE_REPORT,
            ) from None
        yield bundle


def _stage_bundle(
    path: Path, folder: Path, secrets: list[str], reader: LogReader, *, redact: bool
) -> Bundle:
    if (path / "manifest.json").is_file():
        run = RunFolder.open(path)
        scrub = _make_scrub(secrets, [run], redact=redact)
        return _bundle_run(run, folder, scrub, reader, redact=redact)
    if (path / "campaign.json").is_file():
        campaign = CampaignFolder.open(path)
        scrub = _make_scrub(secrets, list_judgeable_runs(campaign), redact=redact)
        return _bundle_campaign(campaign, folder, scrub, reader, redact=redact)
    raise UsageError(
        f"{path} is not the folder of a run, or of a campaign on one target",
        id=ErrorId.NOT_A_RESULT_FOLDER,
        hint="Give runs/RUN_ID or campaigns/CAMPAIGN; of a campaign on several targets"
        " the folder of one of them; of a go-live check its folder campaign.",
    )


def _make_scrub(
    secrets: Iterable[str],
    runs: Sequence[RunFolder],
    beside: Sequence[RunBeside] = (),
    *,
    redact: bool,
) -> Scrub:
    """Return what takes out secrets, and names if *redact* is True.

    beside: runs that were not named.  Of one whose manifest cannot be read, nothing is
    kept that names a host.  Raise UsageError if a name cannot be replaced.
    """
    if not redact:
        return Scrub(secrets, None)
    manifests = [run.manifest() for run in runs]
    for one in beside:
        with suppress(RunFormatError):
            manifests.append(RunFolder(Path(one.folder)).manifest())
    hosts = {name for manifest in manifests for name in list_hosts(manifest)}
    nodes = [name for manifest in manifests for name in list_nodes(manifest)]
    return Scrub(secrets, hosts, nodes)


def _bundle_run(
    run: RunFolder, folder: Path, scrub: Scrub, reader: LogReader, *, redact: bool
) -> Bundle:
    subject = stage_run(run, folder / RUNS_FOLDER, scrub, reader).subject
    result = subject.result
    summary = _Summary("run", result.run, result.verdict, redact)
    staged = RunFolder.open(folder / RUNS_FOLDER / result.run).manifest()
    tested = name_tested(staged)
    return _finish_bundle(folder, summary, tested, as_html(subject), scrub)


def _bundle_campaign(
    campaign: CampaignFolder,
    folder: Path,
    scrub: Scrub,
    reader: LogReader,
    *,
    redact: bool,
) -> Bundle:
    copy = stage_campaign(campaign, folder, scrub, reader)
    result = campaign_result(copy)
    summary = _Summary("campaign", result.name, result.verdict, redact)
    return _finish_bundle(
        folder, summary, result.name, make_campaign_page(result), scrub
    )


def _bundle_chosen_runs(
    paths: Sequence[Path],
    folder: Path,
    secrets: list[str],
    reader: LogReader,
    *,
    redact: bool,
) -> Bundle:
    runs = open_chosen(paths)
    beside = list_runs_beside(runs)
    scrub = _make_scrub(secrets, runs, beside, redact=redact)
    result = stage_chosen_runs(runs, beside, folder, scrub, reader)
    summary = _Summary("runs", name_chosen_runs(result), result.verdict, redact)
    page = make_campaign_page(result)
    return _finish_bundle(folder, summary, result.target, page, scrub)


def name_chosen_runs(result: CampaignResult) -> str:
    """Return the name of a bundle of several runs: the oldest, and how many more."""
    first, *others = result.cycles
    return f"{first.run}-and-{len(others)}-more"


def make_campaign_page(result: CampaignResult) -> str:
    """Return the report on the campaign, or on the runs, of a bundle."""
    return as_html(CampaignsResult(".", (replace(result, folder="."),)))


@dataclass(frozen=True, slots=True)
class _Summary:
    kind: str
    name: str
    verdict: Verdict
    redacted: bool


def _finish_bundle(
    folder: Path, summary: _Summary, tested: str, page: str, scrub: Scrub
) -> Bundle:
    """Add the attestation and the report; compress and list what there is."""
    content = make_attestation(folder, tested, summary.verdict)
    if content is not None:
        (folder / ATTESTATION_FILE).write_bytes(content)
    (folder / REPORT_FILE).write_text(page, "utf-8")
    require_no_node(scrub.nodes, folder)
    if name := find_too_large_file(folder):
        raise UsageError(
            f"{name} is too large for a bundle",
            id=ErrorId.BUNDLE_TOO_LARGE,
            hint="Share the report alone (dbcheck report).",
        )
    index = archive.Index(
        kind=summary.kind,
        name=summary.name,
        dbcheck=dbcheck.__version__,
        verdict=summary.verdict,
        redacted=summary.redacted,
        removed=scrub.removed,
        members=archive.pack_files(folder),
    )
    return Bundle(index, folder)
