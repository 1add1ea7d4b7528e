"""A stored run of any size that no server made, and a child that judges it.

`python -m tools.bench.synthetic FOLDER` judges the run there and prints, as JSON, how
long that took and the most memory that it ever had.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from dbcheck.agent import witness as agent
from dbcheck.config import workload_file
from dbcheck.cycle.judging import judge_run
from dbcheck.model.witness import Watermark
from dbcheck.rows.decks import SLOTS
from dbcheck.rows.plans.registry import tables_of
from dbcheck.rows.survivors import RECORD, Records
from dbcheck.rows.table import TableFacts
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.nodes import after_of
from tests.kit.samples import FACTS, LOAD, MANIFEST
from tools.bench.shown import peak_mb

SESSIONS = 64
_FRAME_ACKS = 8192
_BATCH_ROWS = 1 << 16
_ENTRY = np.dtype(
    [("session", "<u2"), ("seq", "<u4"), ("row_id", "<i4"), ("time", "<u2")]
)


@dataclass(frozen=True)
class Judged:
    """What judging a run took."""

    acks: int
    seconds: float
    peak_mb: float


def write(parent: Path, acks: int, kind: str = "insert") -> RunFolder:
    """Store a run of SESSIONS sessions that were acked in turn, and lost nothing.

    kind: of workload, "insert", "classic" or "registers".
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
    rows = _survivors(epoch, acks)
    stored = {inserted.name: run.write_survivors(inserted.name, rows)}
    for table in others:
        registers = [_registers(epoch, counts)]
        stored[table.name] = run.write_survivors(table.name, registers)
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


def _survivors(epoch: int, acks: int) -> Iterator[Records]:
    for begin in range(0, acks, _BATCH_ROWS):
        places = np.arange(begin, min(begin + _BATCH_ROWS, acks))
        records = np.zeros(len(places), RECORD)
        records["row_id"] = places + 1
        records["epoch"] = epoch
        records["session"] = places % SESSIONS + 1
        records["seq"] = places // SESSIONS + 1
        yield records


def _registers(epoch: int, counts: Mapping[int, int]) -> Records:
    """Return the registers: each has the last of its session's operations on it."""
    last = [
        (session, part, acked - (acked - part) % SLOTS)
        for session, acked in counts.items()
        for part in range(1, SLOTS + 1)
    ]
    records = np.zeros(len(last), RECORD)
    records["row_id"] = np.arange(1, len(last) + 1)
    records["epoch"] = epoch
    records["session"], records["part"], records["seq"] = np.array(last).T
    return records


def _main() -> None:
    run = RunFolder.open(Path(sys.argv[1]))
    began = time.monotonic()
    outcome = judge_run(run, FrameLogReader())
    seconds = time.monotonic() - began
    found = outcome.found
    if found is None or found.counts or found.kept != found.confirmed:
        raise SystemExit(f"the synthetic run was judged {outcome.judgement}")
    sys.stdout.buffer.write(msgspec.json.encode(Judged(found.kept, seconds, peak_mb())))


if __name__ == "__main__":
    _main()
