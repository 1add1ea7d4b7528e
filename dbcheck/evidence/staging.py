"""Makes the files of a bundle: copies of a run or a campaign, and an attestation.

They are made in a scratch folder for one command.  If the command was killed, the next
one removes the folder.

The attestation is the verdict for policy engines: in-toto Statement v1
(https://in-toto.io/Statement/v1) with the predicate "test result" v0.1
(https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError, UsageError
from dbcheck.campaign.chosen import (
    ChosenRun,
    make_chosen,
    make_chosen_result,
    require_final,
    require_rows,
)
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.campaign.recording import make_cycle
from dbcheck.campaign.totals import ERROR_FILE, format_ending, read_ending
from dbcheck.cycle.detail import read_run_detail
from dbcheck.cycle.judging import judge_run
from dbcheck.evidence.logs import copy_logs, is_plain_file
from dbcheck.evidence.nodes import SHARE_REPORT, require_clear_nodes
from dbcheck.evidence.scrub import Scrub
from dbcheck.judge.checks import ChosenRuns, RunBeside
from dbcheck.judge.result import RunResult, to_values
from dbcheck.judge.results import CampaignResult
from dbcheck.model.records import AfterRecord, Manifest
from dbcheck.model.verdict import Verdict
from dbcheck.ports.witness import LogReader
from dbcheck.report.subject import NOT_JUDGED_AGAIN, RunSubject
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import StoredRun

ATTESTATION_FILE = "attestation.json"
_RESULTS = {Verdict.PASS: "PASSED", Verdict.FAIL: "FAILED"}
RUNS_FOLDER = "runs"
REPORT_FILE = "report.html"
CHOSEN_FILE = "chosen.json"  # which runs were named, and which were not
LOG, DRIVES = "server.log", "drives.csv"
_RECORDS = (
    *("manifest", "recalled", "load", "cut", "fault", "copy", "restore"),
    *("outage", "after"),
    "verdict",
)
# Read as a whole, unlike rows, losses and the logs of the witness: they are as large as
# the load was, and read piece by piece, or line by line.
WHOLE_MAX = 1 << 25  # bytes
_STREAMED = re.compile(r"survivors-.*\.bin|different-.*\.jsonl|acks.*\.log|losses\.csv")


def name_tested(manifest: Manifest) -> str:
    """Return the name of the server or copy that a run tested, for its attestation.

    That a copy of a server passed says nothing of the server itself.
    """
    target = manifest.writer.target
    if manifest.copy is None:
        return target
    is_archive = manifest.copy.is_after_loss or manifest.copy.until is not None
    what = "archive" if is_archive else "copy"
    return f"{what} of {target}"


def make_attestation(folder: Path, tested: str, verdict: Verdict) -> bytes | None:
    """Return the attestation of the evidence below *folder*.

    None of INCONCLUSIVE: the predicate knows no result for a test that shows nothing,
    and anything else would be taken for one that passed or failed.

    tested: what was checked.  Its subjects are the files of evidence, its configuration
    the manifest of each run.
    """
    result = _RESULTS.get(verdict)
    if result is None:
        return None
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    subjects = [_describe_file(path, folder) for path in files]
    plans = ("manifest.json", "campaign.json")
    predicate: dict[str, Any] = {
        "result": result,
        "configuration": [_describe_file(p, folder) for p in files if p.name in plans],
        "passedTests": [tested] if verdict is Verdict.PASS else [],
        "failedTests": [tested] if verdict is Verdict.FAIL else [],
    }
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": predicate,
    }
    return json.dumps(statement, indent=1).encode() + b"\n"


def _describe_file(path: Path, folder: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.relative_to(folder).as_posix(), "digest": {"sha256": digest}}


def list_data_files(run: RunFolder, records: StoredRun) -> Iterator[str]:
    """Yield the names of the files of rows, which may be missing."""
    for name, suffix in (("survivors", ".bin"), ("different", ".jsonl")):
        for table in records.tables:
            yield f"{name}-{table}{suffix}"
    yield from run.elsewhere_names(records.after)


def list_foreign_files(folder: Path, kind: str) -> Iterator[str]:
    """Yield the names of files that no bundle of that *kind* holds.

    folder: of an extracted bundle, whose runs can be read.
    """
    known = {ATTESTATION_FILE, REPORT_FILE}
    for path in (folder / RUNS_FOLDER).glob("*/manifest.json"):
        run = RunFolder.open(path.parent)
        names = [f"{name}.json" for name in _RECORDS]
        records = run.read()
        names += [run.acks_path(number).name for number in range(records.manifest.logs)]
        names += [*list_data_files(run, records), LOG, DRIVES, "losses.csv"]
        known |= {f"{RUNS_FOLDER}/{path.parent.name}/{name}" for name in names}
    if kind == "campaign":
        known |= {"campaign.json", "server.json", "cycles.jsonl", ERROR_FILE}
        cycles = CampaignFolder.open(folder).cycles()
        known |= {f"cycles/{CampaignFolder.file_of(cycle)}" for cycle in cycles}
    if kind == "runs":
        known.add(CHOSEN_FILE)
    for path in sorted(path for path in folder.rglob("*") if not path.is_dir()):
        if (name := path.relative_to(folder).as_posix()) not in known:
            yield name


def find_too_large_file(folder: Path) -> str:
    """Return the name of a file that is or has a line too large to read, else ""."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.stat().st_size <= WHOLE_MAX:
            continue
        if not _STREAMED.fullmatch(path.name) or _has_long_line(path):
            return path.relative_to(folder).as_posix()
    return ""


def _has_long_line(path: Path) -> bool:
    """Return True if a file of lines of JSON has one that is too long."""
    if path.suffix != ".jsonl":
        return False
    with path.open("rb") as file:
        while line := file.readline(WHOLE_MAX + 1):
            if len(line) > WHOLE_MAX:
                return True
    return False


PREFIX = "dbcheck-bundle-"
_LOCK = "lock"
_SAME = (
    *("verdict", "final", "witness_alone", "control", "confirmed", "kept", "recovered"),
    *("unconfirmed", "foreign", "earlier", "earlier_altered", "earlier_lost"),
    *("losses", "earlier_losses", "ranges", "ranges_left_out", "shape", "statistics"),
    *("shown_depth", "page_cache_kept", "cut_class", "seen", "housekeeping"),
    "power_scope",
)


@contextlib.contextmanager
def make_scratch_folder() -> Iterator[Path]:
    """Make an empty folder for this user alone; remove it, and what was left behind."""
    _remove_abandoned_folders(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name, _hold_folder(Path(name)):
        folder = Path(name) / "files"
        folder.mkdir()
        yield folder


@contextlib.contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    """Keep _remove_abandoned_folders() from removing *folder*, whenever it finds it."""
    made = folder / "new"
    with made.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made.rename(folder / _LOCK)
        yield


def _remove_abandoned_folders(parent: Path) -> None:
    """Remove the folders of this user's commands that were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid == os.geteuid() and _is_free(folder):
                shutil.rmtree(folder)


def _is_free(folder: Path) -> bool:
    """Return True if no process holds the folder, as one does that makes it."""
    lock = folder / _LOCK
    if folder.is_symlink() or not lock.is_file():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Judged:
    """A run of a bundle; cycle: its record, None if its rows are not in the bundle."""

    subject: RunSubject
    cycle: Cycle | None = None


def stage_run(run: RunFolder, parent: Path, scrub: Scrub, reader: LogReader) -> Judged:
    """Copy a run to a folder in *parent*, without secrets; judge the copy.

    Raise UsageError if what must go is in the witness's log, or if without it the run
    would be judged otherwise.
    """
    records = run.read()
    require_clear_nodes(scrub.nodes, records)
    shown = scrub.record(records)
    copy = RunFolder.create_copy(parent, shown)
    _copy_files(run, records, copy, shown, scrub)
    if run.lacks_survivors(records.after):
        judged = keep_judged_run(scrub.record(run.result()))
    else:
        judged = _judge_copy(copy, reader)
        _require_same(judge_run(run, reader).result, judged.subject.result)
    copy.write_verdict(to_values(judged.subject.result))
    return judged


def _judge_copy(copy: RunFolder, reader: LogReader) -> Judged:
    """Judge a copy; raise UsageError if its records can no longer be read."""
    try:
        return judge_bundled_run(copy, reader)
    except RunFormatError as error:
        raise UsageError(
            f"without what must not be in a bundle, run {copy.path.name} cannot be"
            f" judged: {str(error).replace(f'{copy.path}/', '')}",
            id=ErrorId.REDACTION_NOT_POSSIBLE,
            hint=SHARE_REPORT,
        ) from None


def judge_bundled_run(run: RunFolder, reader: LogReader) -> Judged:
    """Judge a run of a bundle."""
    outcome = judge_run(run, reader)
    detail = read_run_detail(outcome, reader)
    subject = RunSubject(strip_result(outcome.result), detail)
    return Judged(subject, make_cycle(outcome, ended=""))


def keep_judged_run(result: RunResult) -> Judged:
    """Return a run of a bundle without rows, as it was judged when it had them."""
    return Judged(RunSubject(strip_result(result), None, NOT_JUDGED_AGAIN))


def stage_chosen_runs(
    runs: Sequence[RunFolder],
    beside: Sequence[RunBeside],
    parent: Path,
    scrub: Scrub,
    reader: LogReader,
) -> CampaignResult:
    """Copy runs that are counted together to *parent*, without secrets; count them.

    beside: the runs that were not named, of which a list is kept.  Raise UsageError as
    stage_run() does, and if a run has no final verdict.
    """
    chosen = []
    for run in runs:
        require_rows(run)
        judged = stage_run(run, parent / RUNS_FOLDER, scrub, reader)
        require_final(run, judged.subject.result)
        chosen.append(make_bundled_run(parent, run.manifest().run_id, judged))
    kept = [scrub.record(replace(one, folder="")) for one in beside]
    result = make_chosen_result(chosen, kept, ".")
    (parent / CHOSEN_FILE).write_bytes(stored.to_bytes(result.chosen))
    return result


def make_bundled_run(parent: Path, run_id: str, judged: Judged) -> ChosenRun:
    """Return a run below *parent* that was judged with its rows."""
    folder = f"{RUNS_FOLDER}/{run_id}"
    assert judged.cycle is not None
    return make_chosen(folder, RunFolder.open(parent / folder).manifest(), judged.cycle)


def read_chosen(parent: Path) -> ChosenRuns:
    """Read which runs were named, and which were not; raise RunFormatError."""
    return stored.read_record(parent / CHOSEN_FILE, ChosenRuns)


def _copy_files(
    run: RunFolder, records: StoredRun, copy: RunFolder, shown: StoredRun, scrub: Scrub
) -> None:
    """Copy the other files: numbers as they are, and texts without secrets.

    shown: the records of the copy.  Files that are named after nodes are renamed.
    """
    names = zip(
        list_data_files(run, records), list_data_files(copy, shown), strict=True
    )
    for name, new in names:
        if is_plain_file(path := run.path / name):
            if path.suffix == ".jsonl":
                lines = map(scrub.json_line, _read_lines(path))
                stored.write_file(copy.path / new, lines)
            else:
                shutil.copyfile(path, copy.path / new)
    copy_logs(run, records, copy, shown, scrub)
    for name in (DRIVES, LOG):
        text = read_server_log(records.after) if name == LOG else ""
        if not text and is_plain_file(path := run.path / name):
            text = path.read_text("utf-8", errors="replace")
        if text:
            copy.write_lines(name, [scrub.text(text)])


def _read_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def read_server_log(after: AfterRecord) -> str:
    """Return the content of server.log, "" if no record holds it."""
    host = after.nodes[after.reader_name].host
    return host.log.text if host and host.log else ""


def strip_result(result: RunResult) -> RunResult:
    """Return a result without what depends on where the run lies, and who made it."""
    folder = f"{RUNS_FOLDER}/{result.run}"
    return replace(result, folder=folder, stored=True, image="", left_on_host=None)


def _require_same(original: RunResult, copy: RunResult) -> None:
    if _list_judged_values(original) != _list_judged_values(copy):
        raise UsageError(
            f"without what must not be in a bundle, run {original.run} is not judged"
            f" as it was: {copy.verdict.value} instead of {original.verdict.value}, or"
            " with other figures",
            id=ErrorId.REDACTION_NOT_POSSIBLE,
            hint=SHARE_REPORT,
        )


def _list_judged_values(result: RunResult) -> tuple[object, ...]:
    """Return the values that a changed text must not change."""
    load = result.load
    return (
        *(getattr(result, name) for name in _SAME),
        load and (load.sent, load.acked, load.rate, load.latency_ms),
        *((item.item, item.status, item.required) for item in result.evidence),
    )


def stage_campaign(
    folder: CampaignFolder, parent: Path, scrub: Scrub, reader: LogReader
) -> CampaignFolder:
    """Copy a campaign with its runs to *parent*, without secrets; judge the copies.

    Raise UsageError as stage_run() does.
    """
    runs = list_judgeable_runs(folder)
    named = {cycle.run for cycle in folder.cycles()}
    if lost := [run.path.name for run in runs if run.path.name not in named]:
        raise UsageError(
            f"the campaign does not count run {lost[0]}: its client ended before that",
            id=ErrorId.RUN_NOT_COUNTED,
            hint="Continue the campaign with --resume, which counts it first.",
        )
    copy = CampaignFolder.create(parent, scrub.record(folder.plan()))
    for run in runs:
        stage_run(run, copy.runs, scrub, reader)
    copy.add(*map(scrub.record, folder.cycles()))
    copy.write_known(scrub.record(folder.known()))
    if is_plain_file(error := folder.path / ERROR_FILE):
        text, id = read_ending(folder)
        error = copy.path / ERROR_FILE
        error.write_text(format_ending(scrub.text(text), id), "utf-8")
    return copy


def list_judgeable_runs(folder: CampaignFolder) -> Sequence[RunFolder]:
    """Return the runs of a campaign that can be judged: their rows were read."""
    paths = sorted(folder.runs.glob("*/manifest.json"))
    runs = [RunFolder.open(path.parent) for path in paths]
    return [run for run in runs if (run.path / "after.json").is_file()]
