"""Results of go-live checks for reports, with a text of a test's in their places."""

from __future__ import annotations

from dataclasses import replace

from dbcheck.model.golive import (
    GoLiveResult,
    PaperResult,
    StepId,
    StepResult,
    StepStatus,
)
from dbcheck.model.verdict import Tally, Verdict

CUTS = 11


def golive_result(text: str, verdict: Verdict = Verdict.PASS) -> GoLiveResult:
    """Return the result of a check; it ended in its campaign unless that passed.

    text: stands in each place where a server, a host or a user may have put one.
    """
    is_pass = verdict is Verdict.PASS
    proven = Tally(0 if is_pass else 1, CUTS, 0, {"DRIVE": CUTS}).statistics
    steps = [
        StepResult(
            step,
            StepStatus.DONE,
            f"dbcheck {text}",
            began="2026-01-02T03:04:05+00:00",
            ended="2026-01-02T03:05:05+00:00",
            summary=f"found {text}",
            details=(f"first {text}", f"second {text}"),
            to_accept=(f"accept {text}",),
            verdict=Verdict.PASS,
        )
        for step in StepId
    ]
    if not is_pass:
        cut, papers = steps[-2:]
        steps[-2] = replace(
            cut, status=StepStatus.STOPPED, fix=f"Fix {text}.", verdict=verdict
        )
        steps[-1] = StepResult(papers.step, StepStatus.OPEN, papers.command)
    return GoLiveResult(
        name=f"db1{text}",
        target=f"postgresql://u@db1/x{text}",
        witness=f"ssh://w/~/x{text}",
        folder=f"golive/1{text}",
        inventory=f"inventory.yml{text}",
        created="2026-01-02T03:04:05+00:00",
        dbcheck="1",
        verdict=verdict,
        planned_cuts=CUTS,
        bound_ppm=None,
        switch=f"exec{text}",
        clean=f"dbcheck clean db1{text}",
        steps=tuple(steps),
        subject={"server": f"PostgreSQL{text}", "drives": text},
        campaign=f"golive/1/campaign{text}",
        statistics=proven,
        confirmed=12_345,
        limits=(f"limit {text}.",),
        papers=(PaperResult(f"a.tar{text}", "evidence", "0" * 64),) if is_pass else (),
    )
