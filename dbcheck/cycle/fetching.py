"""Copies a run's logs from its witness, and no more than a log can hold.

A witness that sends without end would fill the client's disk.  The client's record of
its load bounds each log.  If that is lost, a log may take half of the free space, and
no more than LOG_BYTES_MAX, since each ack takes memory when it is judged.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError, WitnessError
from dbcheck.cycle.rig import Rig
from dbcheck.model.records import Manifest
from dbcheck.runs.folder import RunFolder

LOG_BYTES_MAX = 16 << 30  # more than a thousand million acks


def fetch_logs(rig: Rig, run: RunFolder, manifest: Manifest) -> list[int]:
    """Store copies of the witness's logs in the run folder; return their lengths.

    Raise WitnessError if a log is longer than the load can have made it.
    """
    load = run.load()
    lengths = []
    for number in range(manifest.logs):
        if load is None:
            limit = limit_log_bytes(run.path)
        elif number < manifest.ack_logs:
            limit = rig.reader.bytes_max(sum(load.acked.values()))
        else:
            limit = rig.reader.bytes_max(load.seen)
        chunks = rig.witness.read(manifest.run_id, number)
        where = f"log {number} of run {manifest.run_id} on {rig.witness.url}"
        run.write_acks(number, limit_chunks(limit, chunks, where))
        lengths.append(run.acks_path(number).stat().st_size)
    return lengths


def have_logs_grown(rig: Rig, manifest: Manifest, fetched: Sequence[int]) -> bool:
    """Return True if a log has another length now than its copy.

    fetched: the lengths of the copies.  Nothing is stored, and each log is read only
    until its length is seen to differ.
    """
    lengths = []
    for number, length in enumerate(fetched):
        lengths.append(0)
        for chunk in rig.witness.read(manifest.run_id, number):
            lengths[-1] += len(chunk)
            if lengths[-1] > length:
                break
    return lengths != list(fetched)


def require_no_load(rig: Rig, manifest: Manifest, fetched: Sequence[int]) -> None:
    """Raise UsageError if the run is under load, as a log that has grown shows."""
    if have_logs_grown(rig, manifest, fetched):
        raise UsageError(
            f"run {manifest.run_id} is still under load: its witness log is growing",
            id=ErrorId.RUN_STILL_UNDER_LOAD,
            hint="Wait until its load is over, or end its client, then reconcile.",
        )


def limit_log_bytes(folder: Path) -> int:
    """Return the most bytes that a log of unknown length may take in *folder*."""
    return min(shutil.disk_usage(folder).free // 2, LOG_BYTES_MAX)


def limit_chunks(limit: int, chunks: Iterable[bytes], where: str) -> Iterator[bytes]:
    """Yield *chunks*; raise WitnessError, naming *where*, if they exceed the limit."""
    left = limit
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise WitnessError(
                f"{where} is longer than {limit} bytes, the most that is taken of it",
                id=ErrorId.WITNESS_SENDS_TOO_MUCH,
                hint="If the load was that long and the client's record of it is lost,"
                " free disk space here: half of it may be used. Otherwise the witness"
                " sends data that this client never logged: do not trust it, and repeat"
                " the run with another witness.",
            )
        yield chunk
