"""The verdict on an archive that was restored to a point of the server's log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.base.points import Point, PointKind
from dbcheck.judge.case import Case
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.server import Refill
from dbcheck.model.verdict import Verdict
from dbcheck.model.witness import LogFacts
from dbcheck.restore.judging import judge_restored
from dbcheck.rows.copied import Copied, CopyPlan, CopyRecord
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from tests.kit.copied_cases import SAFE, S
from tests.kit.nodes import after_of, having
from tests.kit.samples import ALL_GONE, CLEAN, LOAD, MANIFEST

POINT = Point(PointKind.LSN, "0/3000148")
RECORD = CopyRecord(10 * S, 10 * S + 2_500, 4.0, point=POINT)
PLAN = CopyPlan("postgresql://u@copy/d", until=PointKind.LSN)
# Ten commits from before the point; of the two that came then one is there.
COPIED = Copied(10, 0, 10, 2, 1, 4, 0, 10 * S, None)


def of(
    found: Reconciliation | None = CLEAN,
    copied: Copied | None = COPIED,
    record: CopyRecord | None = RECORD,
    **changed: Any,
) -> Case:
    """Return a case; changed: fields of its record of the reading."""
    case = Case(
        having(MANIFEST, facts=SAFE, copy=PLAN),
        replace(LOAD, watched=None),
        None,
        having(after_of(SAFE), **changed),
        logs=(LogFacts(17, 3, 0, None, ()),),
    )
    return replace(case, found=found, copied=copied, copy=record)


def lost(kind: LossKind) -> Reconciliation:
    """Return what was found with one loss."""
    losses = Losses.of([Loss(kind, 1, 1, 1, 9 * S, "ledger")])
    return replace(CLEAN, confirmed=10, kept=9, losses=losses)


def said(case: Case, verdict: Verdict = Verdict.INCONCLUSIVE) -> str:
    """Return the headline of *case*, whose verdict must be that one."""
    judgement = judge_restored(case)
    assert judgement.verdict is verdict
    return judgement.reasons[0]


def test_a_restore_that_ends_at_its_point_passes() -> None:
    assert said(of(), Verdict.PASS) == (
        "every commit that was acknowledged before the point was read (10) is in the"
        " restored copy, and none of the 4 that were sent after it; of the 2 that came"
        " while it was read it has 1, without a gap"
    )
    items = {each.id: each for each in judge_restored(of()).items}
    assert ItemId.COPY_TAKEN not in items
    assert items[ItemId.POINT_READ].reason == (
        "lsn 0/3000148, read in 2.5 ms; 2 commits came then"
    )
    assert items[ItemId.POINT_STOP].reason == (
        "it has none of the 4 commits sent after the point was read"
    )
    required = {id for id, each in items.items() if each.required}
    assert required >= {
        *(ItemId.POINT_READ, ItemId.POINT_STOP, ItemId.COPY_OF_SERVER),
        *(ItemId.COPY_APART, ItemId.WITNESS_LOG, ItemId.SETTINGS),
    }


def test_no_commit_need_come_while_the_point_is_read() -> None:
    """Unlike a copy, it takes a moment, and no file can be torn meanwhile."""
    text = said(of(copied=replace(COPIED, open=0, open_kept=0)), Verdict.PASS)
    assert text.endswith("none of the 4 that were sent after it")


@pytest.mark.parametrize("found", [CLEAN, lost(LossKind.MISSING_HOLE)])
def test_a_restore_that_went_past_its_point_is_neither_cleared_nor_accused(
    found: Reconciliation,
) -> None:
    case = of(found, replace(COPIED, after_kept=3))
    assert judge_restored(case).other_data
    assert said(case) == (
        "recovery did not stop at the point: it has 3 of the 4 commits sent after the"
        " point was read: it went past the point, or another server was read. Give the"
        " restore the point, its last argument, as its target (recovery_target_lsn or"
        " recovery_target_name, or --stop-position), use more sessions, and run it"
        " again"
    )


def test_without_a_commit_from_after_it_nothing_shows_that_it_stopped() -> None:
    text = said(of(copied=replace(COPIED, after=0)))
    assert text.startswith(
        "nothing shows that recovery stopped at the point: no commit was sent after the"
        " point was read."
    )


def test_a_restore_that_stopped_too_early_fails_and_says_by_how_much() -> None:
    early = replace(COPIED, due_kept=9, oldest_missing_us=9 * S)
    case = of(lost(LossKind.MISSING_TAIL), early)
    assert said(case, Verdict.FAIL) == (
        "1 of the 10 commits that the restored copy must have is missing. The oldest"
        " missing commit was acknowledged 1.000 s before the point was read"
    )


def test_one_that_stopped_before_the_run_fails_and_says_so() -> None:
    gone = replace(COPIED, due=1, due_kept=0, open_kept=0)
    text = said(of(ALL_GONE, gone), Verdict.FAIL)
    assert "recovery may have stopped before this run" in text
    case = of(None, None, failure="no ledger", missing=True)
    assert "recovery may have stopped before this run" in said(case, Verdict.FAIL)


def test_commits_that_order_demands_are_told_from_those_of_before_the_point() -> None:
    torn = replace(COPIED, due=12, by_order=2, due_kept=11)
    text = said(of(lost(LossKind.MISSING_HOLE), torn), Verdict.FAIL)
    assert "the rest since they were acknowledged before the point was read" in text


def test_a_server_that_still_recovers_or_follows_is_not_judged() -> None:
    replica = Refill("follows another server as its replica", "Stop it", replaces=True)
    case = of(lost(LossKind.MISSING_TAIL), refill=replica)
    assert judge_restored(case).other_data
    assert "follows another server as its replica" in said(case)


def test_no_commit_from_before_the_point_shows_nothing() -> None:
    none = replace(COPIED, due=0, due_kept=0)
    text = said(of(replace(CLEAN, confirmed=0, kept=0), none))
    assert text == (
        "no commit is on record from before the point was read. Run it again"
    )


@pytest.mark.parametrize("record", [None, replace(RECORD, point=None)])
def test_without_a_point_on_record_nothing_is_cleared(
    record: CopyRecord | None,
) -> None:
    judgement = judge_restored(of(record=record))
    assert judgement.verdict is Verdict.INCONCLUSIVE
    items = {each.id: each.status for each in judgement.items}
    assert items[ItemId.POINT_READ] is Status.ABSENT
