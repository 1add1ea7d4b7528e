"""Stored runs whose copy was read: taken beside the load, or after the loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dbcheck.base.points import Point
from dbcheck.cycle.stored_run import StoredLogs
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import Gone
from dbcheck.model.records import LoadRecord, Manifest, NodeAtTheCut
from dbcheck.rows.acks import TIME_UNIT_US, AckArray
from dbcheck.rows.copied import CopyPlan, CopyRecord
from dbcheck.rows.table import LEDGER
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import stored_copy

COPY_HOST = "copyhost.corp.example"
_AROUND_US = 200_000  # the copy is the state so long after its beginning


def stored_copied_run(
    parent: Path, *, lost: int = 0, whole: bool = False, point: Point | None = None
) -> RunFolder:
    """Return a stored run, of which a copy from the middle of its load was read.

    lost: how many of the commits from before the copy are missing in it.  whole: the
    server itself was read.  point: of the log, to which its archive was restored.
    """
    run = RunFolder.open(stored_copy("postgresql-pass", parent))
    manifest, load = run.manifest(), run.load()
    assert load is not None
    acks = _read_acks(run, manifest, load)
    at_us = int(np.median(acks["acked_us"]))
    there = acks[acks["acked_us"] <= at_us]
    if whole:
        there = acks
    _keep_rows(run, there["row_id"][lost:].tolist())
    kind = point.kind if point is not None else None
    plan = CopyPlan(f"postgresql://u@{COPY_HOST}:5433/d", until=kind)
    uncut = replace(
        load,
        gone=Gone.NEVER,
        gone_us=None,
        nodes={ONLY_NODE: NodeAtTheCut(cut=None)},
    )
    changed = replace(manifest, copy=plan)
    (run.path / "manifest.json").write_bytes(stored.to_bytes(changed))
    (run.path / "restore.json").unlink()
    run = RunFolder.open(run.path)
    run.write_load(uncut)
    ended_us = at_us + _AROUND_US + TIME_UNIT_US
    run.write_copy(CopyRecord(at_us - _AROUND_US, ended_us, 2.5, point=point))
    return run


def stored_lost_run(parent: Path, *, rpo_s: float, reach_s: float) -> RunFolder:
    """Return a stored run whose server was lost, and its archive restored and read.

    rpo_s: the objective.  reach_s: each commit is missing in it that was acknowledged
    less than so many seconds before the last one.
    """
    run = RunFolder.open(stored_copy("postgresql-pass", parent))
    manifest, load = run.manifest(), run.load()
    assert load is not None
    acks = _read_acks(run, manifest, load)
    until_us = int(acks["acked_us"].max()) - round(reach_s * 1e6)
    _keep_rows(run, acks["row_id"][acks["acked_us"] <= until_us].tolist())
    plan = CopyPlan(f"postgresql://u@{COPY_HOST}:5433/d", rpo_s)
    changed = replace(manifest, copy=plan)
    (run.path / "manifest.json").write_bytes(stored.to_bytes(changed))
    run = RunFolder.open(run.path)
    run.write_copy(CopyRecord(restore_s=2.5, stayed_off=True))
    return run


def _read_acks(run: RunFolder, manifest: Manifest, load: LoadRecord) -> AckArray:
    logs = StoredLogs(run, FrameLogReader(), manifest, load)
    return np.concatenate(list(logs.acks()))


def _keep_rows(run: RunFolder, kept: list[int]) -> None:
    """Store that of the rows of the run those with these ids were read, and no other.

    Rows of earlier cycles stay.
    """
    manifest, after = run.manifest(), run.after()
    batches = run.survivors(LEDGER.name, after.stored_rows(LEDGER.name))
    rows = [
        batch[(batch["epoch"] != manifest.epoch) | np.isin(batch["row_id"], kept)]
        for batch in batches
    ]
    survivors = {LEDGER.name: run.write_survivors(LEDGER.name, rows)}
    run.write_after(replace(after, survivors=survivors))
