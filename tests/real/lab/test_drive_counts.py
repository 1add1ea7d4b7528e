"""What the drive of a lab did during a load, beside what was committed."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.flushes import UnderLoad
from dbcheck.model.verdict import Verdict
from tests.kit.nodes import at_the_cut
from tests.kit.rigs import SEED, bench, quick

SESSIONS = 4
FLUSH_MS = 2


def cut(spec: LabSpec, tmp_path: Path, sessions: int = SESSIONS) -> Outcome:
    """Run a cycle whose load is long enough for several samples."""
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    with bench(spec, tmp_path) as here:
        workload = replace(quick(sessions=sessions), cut_after_s=(2.0, 2.0))
        return run_cycle(here.rig, workload, SEED)


def item_of(outcome: Outcome) -> Item:
    (item,) = (i for i in outcome.judgement.items if i.id is ItemId.COMMITS_PER_FLUSH)
    return item


def done_in(outcome: Outcome) -> UnderLoad:
    assert outcome.case.load is not None
    done = at_the_cut(outcome.case.load).drives
    assert done is not None
    return done


@pytest.mark.root
def test_the_commits_of_an_honest_server_have_their_flushes(tmp_path: Path) -> None:
    drive = DriveSpec(flush_ms=FLUSH_MS)
    outcome = cut(LabSpec("postgresql", drive=drive), tmp_path)
    assert outcome.verdict is Verdict.PASS
    assert item_of(outcome).status is Status.PRESENT
    done = done_in(outcome)
    ((name, counts),) = done.drives.items()
    assert counts.flushes and counts.flush_ms
    assert done.acked <= SESSIONS * counts.flushes
    assert counts.flush_ms / counts.flushes >= FLUSH_MS
    with (outcome.run.path / "drives.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    summed: Counter[str] = Counter()
    for row in rows:
        assert (row["node"], row["drive"]) == ("server", name)
        summed.update({key: int(row[key]) for key in ("acked", "flushes", "writes")})
    assert summed["acked"] == done.acked
    assert summed["flushes"] >= counts.flushes > 0
    assert summed["writes"] >= counts.writes > 0


@pytest.mark.root
def test_commits_that_wait_for_no_flush_are_counted(tmp_path: Path) -> None:
    """Of one session no flush serves two commits, however few a slow server takes."""
    settings = {"innodb_flush_log_at_trx_commit": "2"}
    outcome = cut(LabSpec("mariadb", settings=settings), tmp_path, sessions=1)
    item, done = item_of(outcome), done_in(outcome)
    assert item.status is Status.ASSUMED
    (counts,) = done.drives.values()
    assert counts.flushes is not None
    without = done.acked - counts.flushes
    assert without > 0
    assert f"at least {without:,} were answered without one" in item.reason
