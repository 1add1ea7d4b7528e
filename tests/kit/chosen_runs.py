"""Stored runs of one server, made one by one, as by somebody without a switch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dbcheck.cycle.judging import judge_run
from dbcheck.model.records import Manifest, NodeBefore
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.nodes import one
from tests.kit.stored_run import EPOCH, manifest, stored_run


def manifest_of(number: int, node: NodeBefore | None = None) -> Manifest:
    """Return the manifest of the run *number* of the server, 1 to 9."""
    made = manifest()
    writer = replace(made.writer, target="postgresql://u@dbhost7/d")
    return replace(
        made,
        run_id=f"2026010{number}-030405-a1b2c{number}",
        created=f"2026-01-0{number}T03:04:05+00:00",
        seed=number,
        epoch=EPOCH + number,
        nodes=one(node or writer),
        witness="ssh://walnut7/folder",
        moment=None,
        controls=(),
    )


def run_of(
    parent: Path,
    number: int,
    node: NodeBefore | None = None,
    *,
    lost: int = 0,
    restarted: bool = True,
) -> Path:
    """Return the folder of the run *number* of the server, which was judged.

    lost, restarted: see stored_run(): it fails, or it does not count.
    """
    run = RunFolder.create(parent, manifest_of(number, node))
    stored_run(run, lost=lost, restarted=restarted)
    judge_run(run, FrameLogReader())
    return run.path
