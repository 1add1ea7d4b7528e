"""What the server's own check of the tables is worth."""

from __future__ import annotations

import pytest

from dbcheck.judge.after_reading import judge_dropped_tables, judge_table_check
from dbcheck.judge.item import Status
from dbcheck.model.server import CheckOutcome, TableCheck
from tests.kit.cases import case


@pytest.mark.parametrize(
    ("outcome", "status", "required"),
    [
        (CheckOutcome.SOUND, Status.PRESENT, False),
        (CheckOutcome.INDEX, Status.CONTRADICTED, True),
        (CheckOutcome.TABLE, Status.CONTRADICTED, True),
        (CheckOutcome.BROKE_OFF, Status.ABSENT, True),
        (CheckOutcome.NOT_DONE, Status.NOT_OBSERVABLE, False),
    ],
)
def test_a_check_that_broke_off_or_complains_holds_a_pass_back(
    outcome: CheckOutcome, status: Status, required: bool
) -> None:
    item = judge_table_check(case(after={"check": TableCheck(outcome, "why")}))
    assert item is not None
    assert (item.status, item.required, item.reason) == (status, required, "why")


def test_a_run_without_a_check_has_no_such_item() -> None:
    assert judge_table_check(case()) is None
    assert judge_dropped_tables(case()) is None


def test_a_side_table_that_cannot_be_opened_is_shown() -> None:
    item = judge_dropped_tables(
        case(after={"sides_lost": {"side1": "1932: no engine"}})
    )
    assert item is not None
    assert (item.status, item.required) == (Status.ABSENT, False)
    assert item.reason == "side1 cannot be opened: 1932: no engine"
