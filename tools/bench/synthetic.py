"""A stored run of any size that no server made, and a child that judges it.

`python -m tools.bench.synthetic FOLDER` judges the run there and prints, as JSON, how
long that took, the most memory that it ever had, and what it read.
"""

from __future__ import annotations

import enum
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from dbcheck.agent import witness as agent
from dbcheck.config import workload_file
from dbcheck.cycle.judging import judge_run
from dbcheck.model.witness import Watermark
from dbcheck.rows.plans.registry import tables_of
from dbcheck.rows.survivors import RECORD, Records
from dbcheck.rows.table import TableFacts
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.nodes import after_of
from tests.kit.samples import FACTS, LOAD, MANIFEST
from tools.bench import synthetic_rows
from tools.bench.shown import peak_mb

SESSIONS = 64
_FRAME_ACKS = 8192
_BATCH_ROWS = 1 << 16
_ENTRY = np.dtype(
    [("session", "<u2"), ("seq", "<u4"), ("row_id", "<i4"), ("time", "<u2")]
)


class Fault(enum.Enum):
    """What is wrong with the rows of a synthetic run."""

    NONE = "none"
    TAIL = "tail"  # the newest hundredth is missing
    ID = "id"  # the first row has another id than was acked


@dataclass(frozen=True)
class Judged:
    """What judging a run took.

    losses: the rows that it found lost.
    passes: the bytes that it read, as a multiple of those of the run's folder.
    """

    acks: int
    losses: int
    seconds: float
    cpu_s: float
    peak_mb: float
    passes: float


def write(
    parent: Path, acks: int, kind: str = "insert", fault: Fault = Fault.NONE
) -> RunFolder:
    """Store a run of SESSIONS sessions that were acked in turn.

    kind: of workload, "insert", "classic", "registers" or "mixed".
    fault: what is wrong with the rows of the table that each operation inserts into.
    """
    chosen = workload_file.load(kind)
    inserted, *others = tables_of(chosen)
    tables = {table.name: TableFacts({}, 0) for table in (inserted, *others)}
    run = RunFolder.create(parent, replace(MANIFEST, workload=chosen, tables=tables))
    counts = {
        session: (acks + SESSIONS - session) // SESSIONS
        for session in range(1, SESSIONS + 1)
    }
    chain = hashlib.sha256()
    frames = 0

    def chunks() -> Iterator[bytes]:
        nonlocal frames
        for chunk in _frames(run.manifest().run_id, acks, chain):
            frames += 1
            yield chunk

    run.write_acks(0, chunks())
    mark = Watermark(frames, acks, chain.hexdigest())
    claimed = replace(LOAD, sent=counts, acked=counts, watermarks=(mark,))
    run.write_load(replace(claimed, windows=LOAD.windows[:1]))
    epoch = run.manifest().epoch
    rows = _survivors(epoch, acks, fault)
    stored = {inserted.name: run.write_survivors(inserted.name, rows)}
    for table in others:
        written = synthetic_rows.rows_of(table, run.manifest(), counts)
        stored[table.name] = run.write_survivors(table.name, written)
    run.write_after(after_of(FACTS, survivors=stored))
    return run


def judge(run: RunFolder) -> Judged:
    """Judge *run* in a child process."""
    words = [sys.executable, "-m", __name__, str(run.path)]
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    return msgspec.json.decode(done.stdout, type=Judged)


def _frames(run_id: str, acks: int, chain: hashlib._Hash) -> Iterator[bytes]:
    header = json.dumps({"run": run_id, "format": agent.FORMAT, "log": 0}).encode()
    yield _chained(agent.HEADER, 0, header, chain)
    for begin in range(0, acks, _FRAME_ACKS):
        places = np.arange(begin, min(begin + _FRAME_ACKS, acks))
        yield _chained(agent.ACKS, len(places), _body(places), chain)


def _chained(kind: int, count: int, body: bytes, chain: hashlib._Hash) -> bytes:
    whole = agent.make_frame(kind, count, 1, chain.digest()[: agent.CHAIN_BYTES], body)
    chain.update(whole)
    return whole


def _body(places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bytes:
    """Return what rows.acks.pack() would make of the acks at *places*, only sooner."""
    first = int(places[0])
    entries = np.empty(len(places), _ENTRY)
    entries["session"] = places % SESSIONS + 1
    entries["seq"] = places // SESSIONS + 1
    entries["row_id"] = places - first
    entries["time"] = 0
    base = np.array([first + 1, 1], "<i8")
    return base.tobytes() + entries.tobytes()


def _survivors(epoch: int, acks: int, fault: Fault) -> Iterator[Records]:
    kept = acks - acks // 100 if fault is Fault.TAIL else acks
    for begin in range(0, kept, _BATCH_ROWS):
        places = np.arange(begin, min(begin + _BATCH_ROWS, kept))
        records = np.zeros(len(places), RECORD)
        records["row_id"] = places + 1
        if fault is Fault.ID and begin == 0:
            records["row_id"][0] = acks + 1
        records["epoch"] = epoch
        records["session"] = places % SESSIONS + 1
        records["seq"] = places // SESSIONS + 1
        yield records


def _main() -> None:
    run = RunFolder.open(Path(sys.argv[1]))
    stored = sum(path.stat().st_size for path in run.path.iterdir())
    began, used_s, read = time.monotonic(), time.process_time(), _bytes_read()
    outcome = judge_run(run, FrameLogReader())
    seconds, cpu_s = time.monotonic() - began, time.process_time() - used_s
    passes = (_bytes_read() - read) / stored
    found = outcome.found
    if found is None:
        raise SystemExit(f"the synthetic run was judged {outcome.judgement}")
    losses = sum(found.counts.values())
    judged = Judged(found.confirmed, losses, seconds, cpu_s, peak_mb(), passes)
    sys.stdout.buffer.write(msgspec.json.encode(judged))


def _bytes_read() -> int:
    """Return the bytes that this process ever read from files."""
    counted = Path("/proc/self/io").read_text()
    return int(counted.split("rchar:")[1].split()[0])


if __name__ == "__main__":
    _main()
