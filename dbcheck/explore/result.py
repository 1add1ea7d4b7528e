"""Adds up the judged states of an exploration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dbcheck.explore.acked import Acked
from dbcheck.explore.choice import kinds_in
from dbcheck.explore.coverage import coverage
from dbcheck.explore.folder import Line
from dbcheck.explore.states import Timeline
from dbcheck.judge.results import ExploreResult, Finding
from dbcheck.model.verdict import Verdict


def result_of(
    folder: str,
    seed: int,
    lab: Mapping[str, Any],
    timeline: Timeline,
    acked: Acked,
    lines: Collection[Line],
    findings: Sequence[Finding],
    *,
    wanted: int,
    finished: bool,
    per_s: float | None,
) -> ExploreResult:
    """Return what *lines*, the states that were judged, show together."""
    failed = [each for each in lines if each.judgement.verdict is Verdict.FAIL]
    unclear = [each for each in lines if each.judgement.verdict is Verdict.INCONCLUSIVE]
    kinds: dict[str, int] = {}
    for line in lines:
        kind = kinds_in(line.name)
        kinds[kind] = kinds.get(kind, 0) + 1
    verdict = Verdict.FAIL if failed else Verdict.PASS
    if not failed and (unclear or not finished or not lines):
        verdict = Verdict.INCONCLUSIVE
    ended_us = timeline.moments[-1].time_us
    return ExploreResult(
        verdict=verdict,
        folder=folder,
        seed=seed,
        lab=lab,
        commits=acked.count(ended_us),
        load_s=(ended_us - acked.first_us) / 1e6,
        writes=sum(len(each) for each in timeline.recordings),
        flushes=sum(len(each.flushes) for each in timeline.recordings),
        wanted=wanted,
        states=len(lines),
        failed=len(failed),
        inconclusive=len(unclear),
        finished=finished,
        per_s=per_s,
        kinds=dict(sorted(kinds.items())),
        coverage=coverage(timeline, (line.state for line in lines)),
        findings=tuple(findings),
        failing=tuple(each.name for each in failed),
        unclear=tuple(each.name for each in unclear),
        doubts=tuple(dict.fromkeys(each.judgement.reason for each in unclear)),
    )
