"""Losses that clients of the server cause are not held against it, and others are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.outcome import _list_explanations as outcome_diagnosis
from dbcheck.judge.diagnosis import Cause, count_losses_by_clients
from dbcheck.judge.verdict import Judgement, judge_rows
from dbcheck.model.verdict import Verdict
from dbcheck.rows.prepared import Decisions, LeftFate
from dbcheck.rows.reconcile import Claim, Reconciliation
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import Recalled
from tests.kit.cases import case
from tests.kit.cycles import reconciled, record
from tests.kit.samples import FACTS
from tests.kit.twophase import Model

FAIL, INCONCLUSIVE = Verdict.FAIL, Verdict.INCONCLUSIVE
COUNT = 10


def judged(found: Reconciliation, decisions: Decisions | None = None) -> Judgement:
    return judge_rows(found, [], clients=count_losses_by_clients(found, decisions))


def lost_by(*, rolled_back: int = 0, committed: int = 0, gone: int = 0) -> Model:
    """Return what a cut leaves where others decided so many transactions."""
    model, session = Model(), 0
    for count, fate in ((rolled_back, ""), (committed, "row"), (gone, "gone")):
        for _ in range(count):
            session += 1
            model.run(session, COUNT)
            if fate == "gone":
                model.left[session, COUNT] = LeftFate.GONE
                continue
            del model.left[session, COUNT]
            if fate:
                model.item[session, COUNT] = 0
    return model


def fate(model: Model) -> Reconciliation:
    return model.judged(dict.fromkeys(range(1, 4), COUNT))


@pytest.mark.parametrize(
    ("decided", "kind", "counted", "verdict"),
    [
        ("rolled_back", "prepared", Decisions(0, 3), INCONCLUSIVE),
        ("rolled_back", "prepared", Decisions(0, 2), FAIL),
        ("rolled_back", "prepared", Decisions(3, 0), FAIL),
        ("rolled_back", "prepared", Decisions(0, 0), FAIL),
        ("rolled_back", "prepared", None, FAIL),
        ("committed", "unexpected", Decisions(3, 0), INCONCLUSIVE),
        ("committed", "unexpected", Decisions(0, 3), FAIL),
        ("committed", "unexpected", None, FAIL),
    ],
)
def test_another_client_may_have_decided_as_many_as_the_server_counted(
    decided: str, kind: str, counted: Decisions | None, verdict: Verdict
) -> None:
    found = fate(lost_by(**{decided: 3}))
    assert found.counts == {kind: 3}
    assert judged(found, counted).verdict is verdict


@pytest.mark.parametrize(
    ("counted", "verdict"), [(None, INCONCLUSIVE), (Decisions(0, 0), FAIL)]
)
def test_one_that_was_listed_and_then_gone_shows_another_client(
    counted: Decisions | None, verdict: Verdict
) -> None:
    """A server that counts decisions shows that there were none before the list."""
    assert judged(fate(lost_by(gone=3)), counted).verdict is INCONCLUSIVE
    found = fate(lost_by(gone=1, rolled_back=2))
    assert judged(found, counted).verdict is verdict


def test_another_kind_of_loss_is_held_against_the_server_as_ever() -> None:
    model = lost_by(rolled_back=3)
    del model.ledger[1, 3]
    assert judged(fate(model), Decisions(9, 9)).verdict is FAIL
    decided = lost_by(rolled_back=2)
    decided.run(3, COUNT)
    del decided.item[3, 3]
    assert judged(fate(decided), Decisions(9, 9)).verdict is FAIL


@pytest.mark.parametrize(
    ("counted", "too_few"),
    [
        (None, ""),
        (Decisions(0, 0), "no such statement for all 3:"),
        (Decisions(1, 1), "no such statement for 1 of 3:"),
    ],
)
def test_a_fail_names_decisions_first_and_the_server_where_it_counted_too_few(
    counted: Decisions | None, too_few: str
) -> None:
    """A server that has restarted once more counts from 0."""
    found = fate(lost_by(rolled_back=2, committed=1))
    of_run = replace(case(after={"facts": FACTS, "decisions": counted}), found=found)
    outcome = Outcome(RunFolder(Path()), of_run, judged(found, counted), Recalled())
    assert outcome.verdict is FAIL
    first, *_ = outcome_diagnosis(outcome)
    assert (first.cause, first.losses) == (Cause.DECISIONS, 3)
    assert too_few in first.reason
    assert ("or below it" in first.reason) is bool(too_few)


ROWS = [record(1, 1), record(1, 2)]
CLAIM = Claim({1: 3}, {1: 2})


def test_an_operation_without_an_ack_that_stands_twice_breaks_no_promise() -> None:
    again = [record(1, 3), record(1, 3, row_id=9)]
    found = reconciled({1: 2}, [*ROWS, *again], claim=CLAIM)
    assert judged(found).verdict is INCONCLUSIVE
    same = [record(1, 3), record(1, 3)]
    assert judged(reconciled({1: 2}, [*ROWS, *same], claim=CLAIM)).verdict is FAIL
    both = reconciled({1: 2}, [*ROWS, *again, record(1, 1, row_id=8)], claim=CLAIM)
    assert judged(both).verdict is FAIL
    missing = reconciled({1: 2}, [ROWS[1], *again], claim=CLAIM)
    assert judged(missing).verdict is FAIL


def test_losses_without_an_ack_are_counted_apart_from_confirmed_commits() -> None:
    again = [record(1, 3), record(1, 3, row_id=9), record(1, 1, row_id=8)]
    found = reconciled({1: 2}, [*ROWS, *again], claim=CLAIM)
    assert found.own_counts == {"duplicate": 2}
    reason = judged(found).reasons[0]
    assert " 1 of the 2 commits " in reason, reason
    assert "; 1 row was there once more than written" in reason
    less = replace(found, losses=found.losses[:1])
    assert "all 2 acknowledged commits" in judged(less).reasons[0]


def test_a_row_whose_ack_the_witness_lacks_is_not_said_to_have_none() -> None:
    """The client's record has that ack, so the server had promised the row."""
    again = [record(1, 3), record(1, 3, row_id=9)]
    found = reconciled({1: 2}, [*ROWS, *again], claim=Claim({1: 3}, {1: 3}))
    verdict = judged(found)
    assert verdict.verdict is FAIL
    assert "never acknowledged" not in verdict.reasons[0]
