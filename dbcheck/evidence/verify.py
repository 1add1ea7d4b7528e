"""Judges the runs in a bundle again, and says whether anything differs.

It also compares what a campaign says of its cycles with what their runs show.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import BundleRefused, DbcheckError, RunFormatError, UsageError
from dbcheck.campaign.chosen import find_oldest, make_chosen_result
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.campaign.totals import make_result as campaign_result
from dbcheck.cycle.stored_run import StoredLogs
from dbcheck.engines.url import name_driver, read_url
from dbcheck.evidence import archive, signature
from dbcheck.evidence.bundle import make_campaign_page, name_chosen_runs
from dbcheck.evidence.staging import (
    ATTESTATION_FILE,
    CHOSEN_FILE,
    LOG,
    REPORT_FILE,
    RUNS_FOLDER,
    Judged,
    find_too_large_file,
    judge_bundled_run,
    keep_judged_run,
    list_foreign_files,
    make_attestation,
    make_bundled_run,
    make_scratch_folder,
    name_tested,
    read_chosen,
    read_server_log,
)
from dbcheck.judge.result import RunResult, to_values
from dbcheck.model.server import find_difference_of_servers
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.ports.witness import LogReader
from dbcheck.report.html.page import as_html
from dbcheck.report.subject import RunSubject
from dbcheck.runs.folder import RunFolder, require_run_id
from dbcheck.runs.stored import to_bytes


@dataclass(frozen=True, slots=True)
class Shown:
    """A run of the bundle, and its result when it was judged again."""

    run: RunFolder
    result: RunResult


def find_differences_in_campaign(
    folder: CampaignFolder, shown: Mapping[str, Shown], *, words: bool
) -> Iterator[str]:
    """Yield the faults of a campaign whose runs were judged again.

    shown: run id -> its result.  words: sentences are compared as well.
    """
    cycles = folder.cycles()
    yield from _check_numbers(cycles)
    times_named = Counter(cycle.run for cycle in cycles if cycle.run)
    for run, times in times_named.items():
        if times > 1:
            yield f"run {run} is counted {times} times"
    for run in shown:
        if run not in times_named:
            yield f"run {run} is in no cycle, so it is not counted"
    for cycle in cycles:
        if cycle.run in shown:
            yield from _compare_cycle(cycle, shown[cycle.run], words=words)
        elif cycle.verdict is not CycleVerdict.ERROR:
            name = _name_cycle(cycle)
            yield f"{name}: its run {cycle.run or ''} is not in the bundle"
    yield from _check_same_target(folder, shown)
    lines_file = folder.path / "cycles.jsonl"
    stored_lines = lines_file.read_bytes() if lines_file.is_file() else None
    folder.write_lines()
    if lines_file.read_bytes() != stored_lines:
        yield "cycles.jsonl is not what the cycles show"


def _name_cycle(cycle: Cycle) -> str:
    return f"cycle {cycle.number}" if cycle.number else f"control {cycle.run}"


def _check_numbers(cycles: Sequence[Cycle]) -> Iterator[str]:
    """Yield a fault if a cycle is missing or counted twice; the first has number 1."""
    numbers = [cycle.number for cycle in cycles if cycle.number]
    if numbers != list(range(1, len(numbers) + 1)):
        expected = set(range(1, max(numbers, default=0) + 1))
        missing = sorted(expected - set(numbers))
        fault = f"lacks cycle {missing[0]}" if missing else "counts a cycle twice"
        yield f"the campaign {fault}"


def _compare_cycle(cycle: Cycle, shown: Shown, *, words: bool) -> Iterator[str]:
    """Yield the differences of a cycle's record from its run."""
    for name, was, found in _list_pairs(cycle, shown, words=words):
        if was != found:
            yield f"{_name_cycle(cycle)}: {name} {was}, and its run shows {found}"


def _list_pairs(
    cycle: Cycle, shown: Shown, *, words: bool
) -> Iterator[tuple[str, Any, Any]]:
    result, manifest = shown.result, shown.run.manifest()
    lost_own, earlier = result.rows_lost or (None, None)
    is_judged = result.confirmed is not None
    seen, load, tasks = result.seen, result.load, result.housekeeping
    at_cut = tasks.at_cut if tasks else None
    yield "number", cycle.number, manifest.moment.number if manifest.moment else 0
    yield "verdict", cycle.verdict.value, result.verdict.value
    yield "depth", cycle.depth, result.shown_depth.value if result.shown_depth else ""
    yield "class of the cut", cycle.cut_class, result.cut_class.value
    yield "commits", cycle.confirmed, result.confirmed
    yield "lost rows", cycle.lost, lost_own if is_judged else None
    yield (
        "lost rows of earlier cycles",
        cycle.earlier_lost,
        earlier if is_judged else None,
    )
    yield "acks/s", cycle.acks_per_s, load.rate if load else None
    yield "task", cycle.window, at_cut.value if at_cut else ""
    yield "rows seen", cycle.seen, seen.rows if seen else None
    yield "rows seen and lost", cycle.seen_lost, seen.lost if seen else None
    yield "failed recovery", cycle.gone, bool(shown.run.after().failure)
    yield "control", cycle.control is not None, manifest.control
    yield "without a power cut", cycle.uncut, result.uncut
    if manifest.site.is_cluster:
        yield "writer", cycle.writer, manifest.writer_name
    if words:
        yield "reason", cycle.reason, result.reasons[0]
        yield "settings at fault", cycle.at_fault, result.settings_at_fault


def _check_same_target(
    folder: CampaignFolder, shown: Mapping[str, Shown]
) -> Iterator[str]:
    """Yield the runs that are not of the campaign's target, or of other servers."""
    target, known = _name_as_runs(folder.plan().target), folder.known()
    if known.run and known.run not in shown:
        yield f"run {known.run}, the last whose rows were read, is not in the bundle"
    for run, shown_run in shown.items():
        manifest = shown_run.run.manifest()
        # After a promotion another node of a cluster takes the load.
        if target not in {node.target for node in manifest.nodes.values()}:
            yield (
                f"run {run} is of the target {manifest.writer.target}, and the campaign"
                f" of {target}"
            )
        for name, node in manifest.nodes.items():
            earlier = known.find_node(name).identity
            if why := find_difference_of_servers(earlier, node.facts.identity):
                yield f"run {run} is of another server than the campaign: {why}"


def _name_as_runs(url: str) -> str:
    """Return the URL of a campaign's target as its runs name it.

    A campaign has it as its user wrote it, as with mariadb:// or without a database.
    """
    try:
        return name_driver(read_url(url)).render_as_string()
    except UsageError:  # it is the text of somebody else
        return url


# Fields with sentences, which another version of dbcheck may word otherwise, and
# fields that an older one did not store.
_SENTENCES = (
    *("reasons", "diagnosis", "settings_at_fault", "layers_at_fault"),
    *("other_settings", "left_on_host", "checked", "recovery_s", "outage"),
)
# Errors of a judge on records whose digests are right and whose values are absurd.
_UNFORESEEN = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """Output of dbcheck verify --json.

    kind, name: see evidence.archive.Index.
    verdict:    as the bundle says.  made_by: the version of dbcheck that made it.
    same:       nothing that was judged again differs.
    differences: sentences.
    judged_again: runs whose rows are in the bundle.  not_judged_again: runs of which
                only the verdict is, as of a cycle of a campaign that passed.
    report_compared: report.html was made again and compared; not so if another version
                of dbcheck made the bundle, as its page differs.
    signer, key: of a good signature, "" if nothing names the signer, or without one.
    """

    bundle: str
    kind: str
    name: str
    verdict: Verdict
    made_by: str
    redacted: bool
    secrets_removed: int
    same: bool
    differences: tuple[str, ...]
    judged_again: int
    not_judged_again: int
    report_compared: bool
    signed: bool
    signer: str
    key: str


def verify(
    path: Path, reader: LogReader, allowed: Path | None = None, signer: str = ""
) -> VerifyResult:
    """Check every byte of a bundle and its signature, and judge its runs again.

    Touches no server.  allowed, signer: see signature.check.  Raise BundleRefused.
    """
    with archive.open_archive(path) as bundle, make_scratch_folder() as folder:
        bundle.require_room(folder)
        signed = signature.check(bundle, allowed, signer)
        index, digest = bundle.extract(folder)
        if signed and signed.sha256 != digest:
            raise BundleRefused(
                f"{path} was changed while it was read",
                id=ErrorId.BUNDLE_DAMAGED,
                hint="Let nothing write to it, and verify it again.",
            )
        check = _Check(folder, index, reader)
        try:
            differences = tuple(check.differences())
        except DbcheckError as error:
            raise _make_refusal(path, folder, index, str(error)) from None
        except _UNFORESEEN as error:
            why = f"its records hold what no run leaves: {error}"
            raise _make_refusal(path, folder, index, why) from None
    return VerifyResult(
        bundle=str(path),
        kind=index.kind,
        name=index.name,
        verdict=index.verdict,
        made_by=index.dbcheck,
        redacted=index.redacted,
        secrets_removed=index.removed,
        same=not differences,
        differences=differences,
        judged_again=check.judged,
        not_judged_again=check.left,
        report_compared=check.words,
        signed=signed is not None,
        signer=signed.signer if signed else "",
        key=signed.key if signed else "",
    )


def _make_refusal(
    path: Path, folder: Path, index: archive.Index, why: str
) -> BundleRefused:
    """Return the error of a bundle that cannot be judged; omit the removed folder."""
    hint = ""
    if index.dbcheck != dbcheck.__version__:
        hint = (
            f"dbcheck {index.dbcheck} made it, and this is {dbcheck.__version__}: that"
            " version can verify it."
        )
    shown = why.replace(f"{folder}/", "")
    return BundleRefused(
        f"{path} cannot be judged: {shown}", id=ErrorId.BUNDLE_NOT_JUDGED, hint=hint
    )


class _Check:
    """Compares what an extracted bundle says with what its evidence shows.

    judged: runs that were judged again.  left: those whose rows are not there.
    words:  this version made it, so that sentences and the report must be the same.
    """

    def __init__(self, folder: Path, index: archive.Index, reader: LogReader) -> None:
        self._folder, self._index, self._reader = folder, index, reader
        self.words = index.dbcheck == dbcheck.__version__
        self.judged = self.left = 0

    def differences(self) -> Iterator[str]:
        """Yield the differences."""
        if name := find_too_large_file(self._folder):
            raise BundleRefused(
                f"{name} is too large for a record of dbcheck",
                id=ErrorId.BUNDLE_DAMAGED,
                hint=archive.GET_ANOTHER,
            )
        for name in list_foreign_files(self._folder, self._index.kind):
            yield f"{name} does not belong in a bundle: no record names it"
        # First: to judge a run again writes to its folder.
        page = self._folder / REPORT_FILE
        report = page.read_bytes() if page.is_file() else None
        yield from self._check_attestation(self._test())
        judged: dict[str, Judged] = {}
        for path in sorted((self._folder / RUNS_FOLDER).glob("*/manifest.json")):
            run = RunFolder.open(path.parent)
            if run.manifest().run_id != path.parent.name:
                yield f"{path.parent.name} is the folder of another run"
            content = path.with_name("verdict.json").read_bytes()
            one = judged[path.parent.name] = yield from self._run(run)
            if self.words and content != to_bytes(to_values(one.subject.result)):
                yield f"run {path.parent.name}: verdict.json is not the verdict alone"
        subjects = {name: one.subject for name, one in judged.items()}
        if self._index.kind == "run":
            again = yield from self._check_only_run(subjects)
        elif self._index.kind == "runs":
            again = yield from self._check_chosen_runs(judged)
        else:
            again = yield from self._campaign(subjects)
        if self.words and (again is None or report != again.encode()):
            yield "report.html is not the report on this evidence"

    def _test(self) -> str:
        if self._index.kind == "campaign":
            return CampaignFolder.open(self._folder).plan().name
        if self._index.kind == "runs":
            paths = (self._folder / RUNS_FOLDER).glob("*/manifest.json")
            runs = [RunFolder.open(path.parent) for path in paths]
            if not runs:
                raise BundleRefused(
                    "the bundle holds no run",
                    id=ErrorId.BUNDLE_NOT_JUDGED,
                    hint=archive.GET_ANOTHER,
                )
            return find_oldest(runs).writer.target
        try:
            name = require_run_id(self._index.name)
        except UsageError as error:
            raise BundleRefused(str(error), id=ErrorId.BUNDLE_NOT_JUDGED) from None
        run = RunFolder.open(self._folder / RUNS_FOLDER / name)
        return name_tested(run.manifest())

    def _check_attestation(self, test: str) -> Iterator[str]:
        """Yield a difference if the attestation is not the one of this evidence."""
        path = self._folder / ATTESTATION_FILE
        content = path.read_bytes() if path.is_file() else None
        path.unlink(missing_ok=True)
        (self._folder / REPORT_FILE).unlink(missing_ok=True)
        if content != make_attestation(self._folder, test, self._index.verdict):
            yield "the attestation is not that of the evidence"

    def _run(self, run: RunFolder) -> Generator[str, None, Judged]:
        """Yield what differs in a run; return its result, judged again if it can be."""
        name, stored = run.path.name, run.result()
        log = run.path / LOG
        records = run.read()
        text = read_server_log(records.after)
        if text and (not log.is_file() or log.read_bytes() != text.encode()):
            yield f"run {name}: {LOG} is not what the records hold of it"
        if run.lacks_survivors(records.after):
            self.left += 1
            if stored.verdict is not Verdict.PASS:
                yield f"run {name} is {stored.verdict.value}, and its rows are missing"
            logs = StoredLogs(run, self._reader, records.manifest, records.load)
            acks = sum(one.acks for one in logs.facts())
            if acks != stored.confirmed:
                yield (
                    f"run {name}: the witness's log holds {acks} acks, and the verdict"
                    f" is on {stored.confirmed}"
                )
            return keep_judged_run(stored)
        self.judged += 1
        csv = run.path / "losses.csv"
        before = _compute_digest(csv)
        again = judge_bundled_run(run, self._reader)
        if _compute_digest(csv) != before:
            yield f"run {name}: losses.csv is not what the evidence shows"
        for field, was, found in _find_unequal_values(
            stored, again.subject.result, words=self.words
        ):
            yield f"run {name}: {field} was {was}, and is {found} judged again"
        return again

    def _check_only_run(
        self, subjects: Mapping[str, RunSubject]
    ) -> Generator[str, None, str | None]:
        """Yield the differences; return the report on the run."""
        found = subjects.get(self._index.name)
        if found is None or len(subjects) > 1:
            yield f"the bundle does not hold run {self._index.name} alone"
            return None
        if (verdict := found.result.verdict) is not self._index.verdict:
            yield (
                f"the bundle says {self._index.verdict.value}, and its run is"
                f" {verdict.value}"
            )
        return as_html(found)

    def _check_chosen_runs(
        self, judged: Mapping[str, Judged]
    ) -> Generator[str, None, str | None]:
        """Yield the differences; return the report on the runs.

        That they are of one server, and each of them is counted once, is checked anew.
        Which runs were not named is what the maker of the bundle says.
        """
        chosen = []
        for name, one in judged.items():
            if one.cycle is None:
                yield f"run {name} cannot be counted: its rows are not in the bundle"
                return None
            if not one.subject.result.final:
                yield f"run {name} has no final verdict, and cannot be counted"
            chosen.append(make_bundled_run(self._folder, name, one))
        named = read_chosen(self._folder)
        try:
            found = make_chosen_result(chosen, named.beside, ".")
        except UsageError as error:
            yield str(error)
            return None
        if found.chosen != named:
            yield f"{CHOSEN_FILE} names other runs than the bundle holds"
        if name_chosen_runs(found) != self._index.name:
            yield (
                f"the bundle says {self._index.name}, and it holds"
                f" {name_chosen_runs(found)}"
            )
        if found.verdict is not self._index.verdict:
            yield (
                f"the bundle says {self._index.verdict.value}, and its runs show"
                f" {found.verdict.value}"
            )
        return make_campaign_page(found)

    def _campaign(
        self, subjects: Mapping[str, RunSubject]
    ) -> Generator[str, None, str | None]:
        """Yield the differences; return the report on the campaign."""
        folder = CampaignFolder.open(self._folder)
        shown = {
            name: Shown(RunFolder.open(folder.runs / name), subject.result)
            for name, subject in subjects.items()
        }
        yield from find_differences_in_campaign(folder, shown, words=self.words)
        try:
            found = campaign_result(folder)
        except RunFormatError as error:
            yield str(error)
            return None
        if found.name != self._index.name:
            yield f"the bundle says {self._index.name}, and its plan {found.name}"
        if found.verdict is not self._index.verdict:
            yield (
                f"the bundle says {self._index.verdict.value}, and its cycles show"
                f" {found.verdict.value}"
            )
        return make_campaign_page(found)


def _compute_digest(path: Path) -> str:
    """Return the SHA-256 of a file of any size, "" if there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _find_unequal_values(
    stored: RunResult, again: RunResult, *, words: bool
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of each value that differs, and both values.

    words: sentences are compared as well.
    """
    before, after = to_values(stored), to_values(again)
    if not words:
        before, after = _drop_words(before), _drop_words(after)
    for name in before:
        if before[name] != after[name]:
            yield name, _shorten(before[name]), _shorten(after[name])


def _drop_words(values: dict[str, Any]) -> dict[str, Any]:
    kept = {name: each for name, each in values.items() if name not in _SENTENCES}
    kept["evidence"] = [{**item, "reason": ""} for item in values["evidence"]]
    if values["depth"]:
        kept["depth"] = values["depth"]["depth"]
    if values["statistics"]:
        kept["statistics"] = {**values["statistics"], "sentence": ""}
    return kept


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
