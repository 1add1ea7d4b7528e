"""Results of explorations: one without a loss, and one with a finding."""

from __future__ import annotations

from dataclasses import replace

from dbcheck.model.cut import CrashState
from dbcheck.model.explored import (
    Coverage,
    ExploreResult,
    Finding,
    LostBlock,
    LostRow,
    StateJudgement,
    StateResult,
)
from dbcheck.model.verdict import Verdict

STATE = CrashState(3, ((17, ()),))
BLOCK = LostBlock(0, 17, 1.25, 4096, 512, "data/base/1", 8192)
OF_THE_LOG = LostBlock(1, 20, 0.5, 81920, 1024, "", -1)
FAILED = StateJudgement(
    Verdict.FAIL,
    41,
    {"missing-tail": 2},
    "2 missing-tail",
    (LostRow("missing-tail", "ledger", 2, 9, 40),),
)
SMALLEST = StateResult("finding-1", STATE, FAILED, 0.5, (BLOCK, OF_THE_LOG))
FINDING = Finding(1, ("3.random.1", "4.none.2"), True, True, SMALLEST, 9)
PASSED = ExploreResult(
    verdict=Verdict.PASS,
    folder="runs/explore-1",
    seed=7,
    lab={"cut": "drive", "drive": {}},
    commits=1234,
    load_s=1.5,
    writes=900,
    flushes=800,
    wanted=500,
    states=500,
    failed=0,
    inconclusive=0,
    finished=True,
    per_s=5.2,
    kinds={"none": 500},
    coverage=Coverage(780, 300, 12, 850, 310, 2.9, 420),
    findings=(),
    failing=(),
    unclear=(),
    doubts=(),
)
LOST = replace(
    PASSED, verdict=Verdict.FAIL, failed=2, findings=(FINDING,), failing=FINDING.states
)
