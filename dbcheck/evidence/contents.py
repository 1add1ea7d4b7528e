"""Lists the files of a bundle: those of its runs and its campaign, an attestation.

The attestation is the verdict for policy engines: in-toto Statement v1
(https://in-toto.io/Statement/v1) with the predicate "test result" v0.1
(https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import ERROR_FILE
from dbcheck.model.verdict import Verdict
from dbcheck.runs.folder import RunFolder, StoredRun

FILE = "attestation.json"
_RESULTS = {Verdict.PASS: "PASSED", Verdict.FAIL: "FAILED"}
RUNS = "runs"
REPORT = "report.html"
LOG, DRIVES = "server.log", "drives.csv"
_RECORDS = ("manifest", "recalled", "load", "cut", "restore", "after", "verdict")
# Read as a whole, unlike rows, losses and the logs of the witness: they are as large as
# the load was, and read piece by piece, or line by line.
WHOLE_MAX = 1 << 25  # bytes
_STREAMED = re.compile(r"survivors-.*\.bin|different-.*\.jsonl|acks.*\.log|losses\.csv")


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


def data_files(run: RunFolder, records: StoredRun) -> Iterator[str]:
    """Yield the names of the copies of the witness's logs, and of the files of rows.

    Those of rows may be missing.
    """
    for number in range(records.manifest.logs):
        yield run.acks_path(number).name
    for name, suffix in (("survivors", ".bin"), ("different", ".jsonl")):
        for table in records.tables:
            yield f"{name}-{table}{suffix}"
    yield from run.elsewhere_names(records.after)


def is_plain(path: Path) -> bool:
    """Say whether a file is there; raise UsageError if it is a link or no file.

    A run folder may be another user's, whose links could name files of this one.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(
            f"{path} is not a plain file",
            id=ErrorId.FILE_REPLACED,
            hint="dbcheck makes plain files alone: somebody replaced this one.",
        )
    return path.exists()


def strangers(folder: Path, kind: str) -> Iterator[str]:
    """Yield the names of files that no bundle of that *kind* holds.

    folder: of an extracted bundle, whose runs can be read.
    """
    known = {FILE, REPORT}
    for path in (folder / RUNS).glob("*/manifest.json"):
        run = RunFolder.open(path.parent)
        names = [f"{name}.json" for name in _RECORDS]
        names += [*data_files(run, run.read()), LOG, DRIVES, "losses.csv"]
        known |= {f"{RUNS}/{path.parent.name}/{name}" for name in names}
    if kind == "campaign":
        known |= {"campaign.json", "server.json", "cycles.jsonl", ERROR_FILE}
        cycles = CampaignFolder.open(folder).cycles()
        known |= {f"cycles/{CampaignFolder.file_of(cycle)}" for cycle in cycles}
    for path in sorted(path for path in folder.rglob("*") if not path.is_dir()):
        if (name := path.relative_to(folder).as_posix()) not in known:
            yield name


def too_large(folder: Path) -> str:
    """Return the name of a file that is or has a line too large to read, else ""."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.stat().st_size <= WHOLE_MAX:
            continue
        if not _STREAMED.fullmatch(path.name) or _has_long_line(path):
            return path.relative_to(folder).as_posix()
    return ""


def _has_long_line(path: Path) -> bool:
    """Say whether a file of lines of JSON has one that is too long."""
    if path.suffix != ".jsonl":
        return False
    with path.open("rb") as file:
        while line := file.readline(WHOLE_MAX + 1):
            if len(line) > WHOLE_MAX:
                return True
    return False
