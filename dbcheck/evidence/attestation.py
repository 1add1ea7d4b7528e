"""The verdict as an in-toto attestation, for policy engines.

Statement v1 (https://in-toto.io/Statement/v1) with the predicate "test result" v0.1
(https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from dbcheck.model.verdict import Verdict

FILE = "attestation.json"
_RESULTS = {Verdict.PASS: "PASSED", Verdict.FAIL: "FAILED"}


def attestation(folder: Path, test: str, verdict: Verdict) -> bytes | None:
    """Return the attestation of the evidence below *folder*.

    None of INCONCLUSIVE: the predicate knows no result for a test that shows nothing,
    and anything else would be taken for one that passed or failed.

    test: what was checked.  Its subjects are the files of evidence, its configuration
    the manifest of each run.
    """
    result = _RESULTS.get(verdict)
    if result is None:
        return None
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    subjects = [_described(path, folder) for path in files]
    plans = ("manifest.json", "campaign.json")
    predicate: dict[str, Any] = {
        "result": result,
        "configuration": [_described(p, folder) for p in files if p.name in plans],
        "passedTests": [test] if verdict is Verdict.PASS else [],
        "failedTests": [test] if verdict is Verdict.FAIL else [],
    }
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": predicate,
    }
    return json.dumps(statement, indent=1).encode() + b"\n"


def _described(path: Path, folder: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.relative_to(folder).as_posix(), "digest": {"sha256": digest}}
