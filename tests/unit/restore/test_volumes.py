"""The evidence of volumes that were copied, and what it does to a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.verdict import Verdict
from dbcheck.restore.judging import judge_restored
from dbcheck.restore.volumes import find_numbers
from dbcheck.rows.copied import CopyRecord, VolumeNumbers, VolumesRecord
from dbcheck.rows.loss import IndexLoss, LossKind
from tests.kit.copied_cases import COPIED, RECORD
from tests.kit.copied_cases import case_of as of
from tests.kit.copied_cases import lost_in_copy as lost

WHOLE = {"/copy/data": 201, "/copy/log": 202}


def record(
    newest: Mapping[str, int], until: int | None = None, **changed: Any
) -> CopyRecord:
    """Return the record of a copy; the numbers in it are whole up to *until*."""
    until = max(newest.values()) if until is None else until
    volumes = VolumesRecord(
        "00", before=150, after=250, numbers=VolumeNumbers(until, newest)
    )
    return replace(RECORD, volumes=replace(volumes, **changed))


def item_of(case: Case) -> Item:
    (found,) = (
        each for each in judge_restored(case).items if each.id is ItemId.ONE_INSTANT
    )
    return found


APART = record({"/copy/data": 205, "/copy/log": 160}, until=160)


def test_volumes_of_one_moment_are_evidence_of_a_pass() -> None:
    case = of(record=record(WHOLE, longest_s=0.02))
    assert judge_restored(case).verdict is Verdict.PASS
    found = item_of(case)
    assert found.required
    assert found.status is Status.PRESENT
    assert found.reason == (
        "all of the 202 steps that were written to 2 volumes in turn are there, up to"
        " the last; moments less than 0.080 s apart could look so, too"
    )


def test_a_run_that_asks_nothing_of_volumes_has_no_such_evidence() -> None:
    judgement = judge_restored(of())
    assert ItemId.ONE_INSTANT not in {each.id for each in judgement.items}


def test_a_long_step_makes_a_pass_say_what_it_assumes() -> None:
    judgement = judge_restored(of(record=record(WHOLE, longest_s=1.5)))
    assert judgement.verdict is Verdict.PASS
    assert judgement.reasons[1].startswith("assumed, not seen: volumes of one instant")


def test_copies_that_are_several_steps_apart_may_not_be_seen_to_be() -> None:
    """/copy/data is copied as step 9 is written, /copy/log just before step 12 is."""
    data, log = [range(1, 10, 2)], [range(2, 11, 2)]
    numbers = find_numbers({"/copy/data": data, "/copy/log": log})
    assert numbers.until == max(numbers.newest.values()) == 10  # 9, 10, 11 and 12
    found = item_of(of(record=record(WHOLE, longest_s=0.3)))
    assert found.status is Status.ASSUMED
    assert "less than 1.200 s apart" in found.reason


@pytest.mark.parametrize(
    ("given", "status", "text"),
    [
        (
            APART,
            Status.CONTRADICTED,
            "step 161 is missing, and step 205 is there, 44 steps later: /copy/log is"
            " older than /copy/data",
        ),
        (
            record({"/copy/data": 205}, until=160),
            Status.CONTRADICTED,
            "step 161 is missing, and step 205 is there",
        ),
        (
            record({"/copy/data": 251, "/copy/log": 250}),
            Status.CONTRADICTED,
            "they are the server's own, or follow them",
        ),
        (
            record({"/copy/data": 149, "/copy/log": 148}),
            Status.CONTRADICTED,
            "they end 1 steps before the copy was begun: they are older copies",
        ),
        (
            record({"/copy/data": 0, "/copy/log": 0}),
            Status.NOT_OBSERVABLE,
            "they are older copies, or other folders",
        ),
        (
            record({"/copy/data": 0, "/copy/log": 202}, until=0),
            Status.CONTRADICTED,
            "step 1 is missing",
        ),
        (
            record({"/copy/data": 3, "/copy/log": 4}, before=3, after=9),
            Status.NOT_OBSERVABLE,
            "only 3 steps before the copy was begun",
        ),
        (
            record(WHOLE, numbers=None),
            Status.NOT_OBSERVABLE,
            "the restored volumes were not read",
        ),
        (
            record(WHOLE, after=None),
            Status.NOT_OBSERVABLE,
            "the restored volumes were not read",
        ),
        (record(WHOLE, failure="host db1 is gone"), Status.NOT_OBSERVABLE, "is gone"),
    ],
)
def test_what_is_not_of_one_moment_or_not_seen_never_passes(
    given: CopyRecord, status: Status, text: str
) -> None:
    case = of(record=given)
    assert item_of(case).status is status
    assert text in item_of(case).reason
    judgement = judge_restored(case)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert sum(text in reason for reason in judgement.reasons) == 1


@pytest.mark.parametrize("kind", [LossKind.MISSING_HOLE, LossKind.CORRUPT])
def test_a_loss_stays_a_fail_and_says_that_the_volumes_are_apart(
    kind: LossKind,
) -> None:
    case = of(lost(kind), replace(COPIED, due_kept=11), APART)
    judgement = judge_restored(case)
    assert judgement.verdict is Verdict.FAIL
    assert "of the 12 commits" in judgement.reasons[0]
    assert "the volumes were not copied at one moment" in judgement.reasons[1]


def test_an_index_that_disagrees_stays_a_fail_and_says_so_too() -> None:
    case = of(record=APART, index=IndexLoss("a row is not found", 1, (7,), "ledger"))
    judgement = judge_restored(case)
    assert judgement.verdict is Verdict.FAIL
    assert "index" in judgement.reasons[0]
    assert "the volumes were not copied at one moment" in judgement.reasons[-1]


def test_a_server_that_takes_no_queries_on_such_volumes_is_explained() -> None:
    case = of(None, None, APART, unanswered="it took no queries")
    judgement = judge_restored(case)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.reasons[0] == "it took no queries"
    assert "not copied at one moment" in judgement.reasons[1]
