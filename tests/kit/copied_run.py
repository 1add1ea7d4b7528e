"""A stored run whose load was not cut: a copy of its server was taken meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dbcheck.cycle.stored_run import StoredLogs
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import Gone
from dbcheck.model.records import NodeAtTheCut
from dbcheck.rows.acks import TIME_UNIT_US
from dbcheck.rows.copied import CopyPlan, CopyRecord
from dbcheck.rows.table import LEDGER
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import stored_copy

COPY_HOST = "copyhost.corp.example"
_AROUND_US = 200_000  # the copy is the state so long after its beginning


def stored_copied_run(parent: Path, *, lost: int = 0, whole: bool = False) -> RunFolder:
    """Return a stored run, of which a copy from the middle of its load was read.

    lost: how many of the commits from before the copy are missing in it.  whole: the
    server itself was read.
    """
    run = RunFolder.open(stored_copy("postgresql-pass", parent))
    manifest, load, after = run.manifest(), run.load(), run.after()
    assert load is not None
    acks = np.concatenate(
        list(StoredLogs(run, FrameLogReader(), manifest, load).acks())
    )
    at_us = int(np.median(acks["acked_us"]))
    there = acks[acks["acked_us"] <= at_us]
    if whole:
        there = acks
    kept = set(there["row_id"][lost:].tolist())
    batches = run.survivors(LEDGER.name, after.stored_rows(LEDGER.name))
    rows = [
        batch[(batch["epoch"] != manifest.epoch) | np.isin(batch["row_id"], list(kept))]
        for batch in batches
    ]
    survivors = {LEDGER.name: run.write_survivors(LEDGER.name, rows)}
    run.write_after(replace(after, survivors=survivors))
    plan = CopyPlan(f"postgresql://u@{COPY_HOST}:5433/d")
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
    run.write_copy(CopyRecord(at_us - _AROUND_US, ended_us, 2.5))
    return run
