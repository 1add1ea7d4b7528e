"""Writes docs/schema: `python -m tools.docs.schema`, after a change of a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from dbcheck.audit.result import AuditsResult
from dbcheck.evidence.verify import VerifyResult
from dbcheck.judge.checks import HistoryResult
from dbcheck.judge.result import RunResult
from dbcheck.judge.results import (
    CampaignsResult,
    ComparedResult,
    CopiesResult,
    DemoResult,
    LabResult,
    MatrixResult,
    ReceiptsResult,
)
from dbcheck.model.explored import ExploreResult, StateResult
from dbcheck.model.golive import GoLiveResult
from dbcheck.model.rights import GrantsResult
from dbcheck.probe.flushes_result import FlushesResults
from dbcheck.probe.latency import LatencyResults

FOLDER = Path(__file__).parents[2] / "docs" / "schema"
RESULTS: dict[str, type[Any]] = {
    "audit": AuditsResult,
    "campaign": CampaignsResult,
    "compare": ComparedResult,
    "demo": DemoResult,
    "golive": GoLiveResult,
    "grants": GrantsResult,
    "history": HistoryResult,
    "lab-explore": ExploreResult,
    "lab-explore-state": StateResult,
    "lab-run": LabResult,
    "matrix": MatrixResult,
    "probe-flushes": FlushesResults,
    "probe-latency": LatencyResults,
    "receipt": ReceiptsResult,
    "run": RunResult,
    "snapshot-copies": CopiesResult,
    "verify": VerifyResult,
}


def schema_of(name: str) -> str:
    """Return the JSON Schema of a result, as its file holds it."""
    schema = msgspec.json.schema(RESULTS[name])
    draft = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps({"$schema": draft, **schema}, indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in RESULTS:
        (FOLDER / f"{each}.json").write_text(schema_of(each))
