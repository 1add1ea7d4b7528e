"""What a cycle on a target knows of the one before it, and when none may follow."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.cycle import cycle
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.inventory.entry import Entry
from dbcheck.judge.verdict import Judgement
from dbcheck.model.verdict import Verdict
from dbcheck.rows.table import TableFacts
from dbcheck.runner import matrix_cycles
from dbcheck.runner.matrix_cycles import RowResults
from dbcheck.runner.matrix_rows import Row
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bare_engine import BareEngine
from tests.kit.nodes import with_node
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.stored_run import manifest, stored_run

Cycle = Callable[..., Outcome]
FLAGS = ("--password-command", "pass db")
LEFT = TableFacts({7: 9}, 12, {7: 3})


@pytest.fixture
def outcome(tmp_path: Path) -> Outcome:
    """A cycle that passed, and left rows."""
    run = stored_run(RunFolder.create(tmp_path, manifest()))
    run.write_after(replace(run.after(), tables={"ledger": LEFT}))
    return judge_run(run, FrameLogReader())


def noting(known: list[Known], outcome: Outcome) -> Cycle:
    """Return a cycle that notes what it is given, and shows *outcome*."""

    def cycle(*given: Any) -> Outcome:
        known.extend(each for each in given if isinstance(each, Known))
        return outcome

    return cycle


def test_a_control_knows_what_the_one_before_it_left(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Judgement(Verdict.INCONCLUSIVE, ("nothing was lost",), ())
    known: list[Known] = []
    noted = noting(known, replace(outcome, judgement=chance))
    monkeypatch.setattr(cycle, "run_control", noted)
    power: Any = SimpleNamespace(attended=False)
    rig = with_node(rig_of(RecordingListener()), power=power)
    assert len(list(cycle.run_controls(rig, manifest().workload, 1))) == 3
    assert [each.tables.get("ledger") for each in known] == [None, LEFT, LEFT]


def rows(
    view: RecordingListener, outcome: Outcome, cycle: Cycle, patch: Any
) -> list[RowResults]:
    """Run two rows of two cuts each on a target."""
    patch.setattr(matrix_cycles, "run_resumable_cycle", cycle)
    engine: Any = BareEngine(
        target="", check=lambda *_: None, require_rights=lambda *_, **__: None
    )
    load = outcome.manifest.workload
    each = [Row(n, None, load, {}, False, "", None, None, cuts=2) for n in "ab"]
    measured = list(map(RowResults, each))
    lines: Any = SimpleNamespace(line=view.phase)
    rig = replace(rig_of(view, engine=engine), reconcile_flags=FLAGS)
    matrix_cycles.run_on_target(measured, rig, 1, lines, Entry("", ""))
    return measured


def test_a_row_of_a_matrix_knows_what_the_one_before_it_left(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[Known] = []
    measured = rows(RecordingListener(), outcome, noting(known, outcome), monkeypatch)
    assert [each.tables.get("ledger") for each in known] == [None, *[LEFT] * 3]
    assert [(len(each.outcomes), each.error) for each in measured] == [(2, ""), (2, "")]


def test_a_row_whose_table_was_not_read_is_followed_by_one_that_knows_nothing(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[Known] = []
    unread = replace(outcome, case=replace(outcome.case, found=None))
    rows(RecordingListener(), outcome, noting(known, unread), monkeypatch)
    assert known == [NOTHING_KNOWN] * 4


def test_a_matrix_ends_at_a_run_that_is_to_be_reconciled(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another cycle would write to the server before its rows were read."""
    known: list[Known] = []
    after = replace(outcome.after, unanswered="it may still be recovering")
    pending = replace(outcome, case=replace(outcome.case, after=after))
    measured = rows(RecordingListener(), outcome, noting(known, pending), monkeypatch)
    assert [len(each.outcomes) for each in measured] == [1, 0]
    command = ["dbcheck", "reconcile", str(outcome.run.path), *FLAGS]
    assert shlex.join(command) in measured[0].error
    assert measured[1].error == "not run"
