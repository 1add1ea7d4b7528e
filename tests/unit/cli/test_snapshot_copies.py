"""Several copies of one server: when they end, and what is shown of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cli.snapshot import _end_with_copies
from dbcheck.model.verdict import Verdict
from tests.kit.partial_rig import RecordingListener
from tests.kit.refusals import refused
from tests.kit.reports import run_result

COPY = {"target": "postgresql://u@copy/d", "taken_s": 3.0, "restore_s": 1.0}
COUNTS = ("due", "due_kept", "by_order", "open", "open_kept", "after", "after_kept")


def outcome(verdict: Verdict, *, final: bool = True) -> Any:
    """Return the outcome of a copy."""
    copy = {**COPY, **dict.fromkeys(COUNTS, 3)}
    result = run_result({"copy": copy, "verdict": verdict.value, "final": final})
    run = SimpleNamespace(path="runs/1")
    return SimpleNamespace(verdict=verdict, result=result, run=run)


def taken(*outcomes: Any) -> tuple[Callable[[int], Any], list[int]]:
    """Return what takes copies with these outcomes, and the seeds that were used."""
    each: Iterator[Any] = iter(outcomes)
    seeds: list[int] = []

    def take(seed: int) -> Any:
        seeds.append(seed)
        found = next(each)
        if isinstance(found, BaseException):
            raise found
        return found

    return take, seeds


RIG: Any = SimpleNamespace(
    listener=RecordingListener(), reconcile_command=lambda run: f"reconcile {run}"
)
PASSED, FAILED = outcome(Verdict.PASS), outcome(Verdict.FAIL)
OPEN = outcome(Verdict.INCONCLUSIVE)
LATE = outcome(Verdict.INCONCLUSIVE, final=False)


@pytest.mark.parametrize(
    ("outcomes", "copies", "code"),
    [
        pytest.param((PASSED, PASSED, PASSED), 3, 0, id="all are whole"),
        pytest.param((PASSED, FAILED, PASSED), 2, 1, id="one lost commits"),
        pytest.param((OPEN, PASSED, PASSED), 3, 3, id="one does not count"),
        pytest.param((PASSED, LATE, PASSED), 2, 3, id="the server of one is late"),
    ],
)
def test_they_end_at_a_loss_and_where_one_is_to_be_reconciled(
    outcomes: Any, copies: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    take, seeds = taken(*outcomes)
    with pytest.raises(SystemExit, match=f"^{code}$"):
        _end_with_copies(RIG, take, range(7, 10), as_json=False)
    assert seeds == [7, 8, 9][:copies]
    shown = capsys.readouterr().out
    assert f"of {copies} copies came back" in shown
    assert ("reconcile runs/1" in shown) is (LATE in outcomes)


def test_what_was_judged_before_an_error_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    take, _ = taken(PASSED, EngineError("no", id=ErrorId.COPY_NOT_TAKEN))
    with refused(ErrorId.COPY_NOT_TAKEN, EngineError):
        _end_with_copies(RIG, take, range(3), as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [one["verdict"] for one in found["copies"]] == ["PASS"]


def test_an_error_of_the_first_shows_no_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    take, _ = taken(EngineError("no", id=ErrorId.COPY_NOT_TAKEN))
    with refused(ErrorId.COPY_NOT_TAKEN, EngineError):
        _end_with_copies(RIG, take, range(3), as_json=False)
    assert capsys.readouterr().out == ""
