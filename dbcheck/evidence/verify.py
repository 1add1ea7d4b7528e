"""Judges what a bundle holds again, and says whether anything differs."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dbcheck
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.campaign.judging import judge_run
from dbcheck.campaign.logs import StoredLogs
from dbcheck.campaign.totals import result as campaign_result
from dbcheck.core.verdict import Verdict
from dbcheck.errors import BundleRefused, DbcheckError
from dbcheck.evidence import archive, signature
from dbcheck.evidence.attestation import FILE, attestation
from dbcheck.evidence.bundle import REPORT
from dbcheck.evidence.scratch import scratch
from dbcheck.evidence.staging import RUNS, in_bundle
from dbcheck.judge.result import RunResult, to_values
from dbcheck.ports.witness import LogReader
from dbcheck.runs import RunFolder

# Sentences, which another version may write otherwise.
_SENTENCES = (
    *("reasons", "diagnosis", "settings_at_fault", "layers_at_fault"),
    "other_settings",
)


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What dbcheck verify --json prints.

    kind, name: of what the bundle is, see evidence.archive.Index.
    verdict:    as the bundle says.  made_by: the version of dbcheck that made it.
    same:       nothing that was judged again differs.
    differences: sentences.
    judged_again: runs whose rows are in the bundle.  not_judged_again: those of which
                only the verdict is, as of a cycle of a campaign that passed.
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
    signed: bool
    signer: str
    key: str


def verify(
    path: Path, reader: LogReader, allowed: Path | None = None, signer: str = ""
) -> VerifyResult:
    """Check every byte of a bundle and its signature, and judge its runs again.

    Touches no server.  allowed, signer: see signature.check.  Raise BundleRefused.
    """
    signed = signature.check(path, allowed, signer)
    with scratch() as folder:
        index = archive.extract(path, folder)
        try:
            check = _Check(folder, index, reader)
            differences = tuple(check.differences())
        except DbcheckError as error:
            raise BundleRefused(f"{path} cannot be judged: {error}") from None
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
        signed=signed is not None,
        signer=signed.signer if signed else "",
        key=signed.key if signed else "",
    )


class _Check:
    """Compares what an extracted bundle says with what its evidence shows.

    judged: runs that were judged again.  left: those whose rows are not there.
    """

    def __init__(self, folder: Path, index: archive.Index, reader: LogReader) -> None:
        self._folder, self._index, self._reader = folder, index, reader
        self.judged = self.left = 0

    def differences(self) -> Iterator[str]:
        """Yield what differs."""
        # First: to judge a run again writes to its folder.
        test = self._test()
        yield from self._attested(test)
        results: dict[str, RunResult] = {}
        for path in sorted((self._folder / RUNS).glob("*/manifest.json")):
            run = RunFolder.open(path.parent)
            if run.manifest().run_id != path.parent.name:
                yield f"{path.parent.name} is the folder of another run"
            results[path.parent.name] = yield from self._run(run)
        if self._index.kind == "run":
            yield from self._only_run(results)
        else:
            yield from self._campaign(results)

    def _test(self) -> str:
        if self._index.kind == "campaign":
            return CampaignFolder.open(self._folder).plan().name
        path = self._folder / RUNS / self._index.name
        return RunFolder.open(path).manifest().writer.target

    def _attested(self, test: str) -> Iterator[str]:
        """Yield whether the attestation is not the one of this evidence."""
        path = self._folder / FILE
        content = path.read_bytes() if path.is_file() else None
        path.unlink(missing_ok=True)
        (self._folder / REPORT).unlink(missing_ok=True)
        if content != attestation(self._folder, test, self._index.verdict):
            yield "the attestation is not that of the evidence"

    def _run(self, run: RunFolder) -> Generator[str, None, RunResult]:
        """Yield what differs in a run; return its result, judged again if it can be."""
        stored = run.result()
        if run.lacks_survivors():
            self.left += 1
            yield from self._log(run, stored)
            return stored
        self.judged += 1
        csv = run.path / "losses.csv"
        before = csv.read_bytes() if csv.is_file() else None
        again = in_bundle(judge_run(run, self._reader).result)
        if csv.read_bytes() != before:
            yield f"run {run.path.name}: losses.csv is not what the evidence shows"
        words = self._index.dbcheck == dbcheck.__version__
        for name, was, found in _unequal(stored, again, words=words):
            yield f"run {run.path.name}: {name} was {was}, and is {found} judged again"
        return again

    def _log(self, run: RunFolder, stored: RunResult) -> Iterator[str]:
        """Yield whether the witness's log of a run without rows is not what it was."""
        logs = StoredLogs(run, self._reader, run.manifest(), run.load())
        acks = sum(one.acks for one in logs.facts())
        if acks != stored.confirmed:
            yield (
                f"run {run.path.name}: the witness's log holds {acks} acks, and the"
                f" verdict is on {stored.confirmed}"
            )

    def _only_run(self, results: Mapping[str, RunResult]) -> Iterator[str]:
        found = results.get(self._index.name)
        if found is None or len(results) > 1:
            yield f"the bundle does not hold run {self._index.name} alone"
        elif found.verdict is not self._index.verdict:
            yield (
                f"the bundle says {self._index.verdict.value}, and its run is"
                f" {found.verdict.value}"
            )

    def _campaign(self, results: Mapping[str, RunResult]) -> Iterator[str]:
        folder = CampaignFolder.open(self._folder)
        for cycle in folder.cycles():
            if cycle.run in results:
                yield from _of_cycle(cycle, results[cycle.run])
        shown = campaign_result(folder)
        if shown.verdict is not self._index.verdict:
            yield (
                f"the bundle says {self._index.verdict.value}, and its cycles show"
                f" {shown.verdict.value}"
            )


def _of_cycle(cycle: Cycle, result: RunResult) -> Iterator[str]:
    """Yield how the record of a cycle differs from the result of its run."""
    lost = result.rows_lost
    pairs = (
        ("verdict", cycle.verdict.value, result.verdict.value),
        ("commits", cycle.confirmed, result.confirmed),
        ("lost rows", cycle.lost, None if lost is None else lost[0]),
    )
    for name, was, found in pairs:
        if was != found:
            yield f"cycle {cycle.number}: {name} {was}, and its run shows {found}"


def _unequal(
    stored: RunResult, again: RunResult, *, words: bool
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of each value that differs, and both values.

    words: sentences are compared as well.
    """
    before, after = to_values(stored), to_values(again)
    if not words:
        before, after = _without_words(before), _without_words(after)
    for name in before:
        if before[name] != after[name]:
            yield name, _short(before[name]), _short(after[name])


def _without_words(values: dict[str, Any]) -> dict[str, Any]:
    kept = {name: each for name, each in values.items() if name not in _SENTENCES}
    kept["evidence"] = [{**item, "reason": ""} for item in values["evidence"]]
    if values["depth"]:
        kept["depth"] = values["depth"]["depth"]
    if values["statistics"]:
        kept["statistics"] = {**values["statistics"], "sentence": ""}
    return kept


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
