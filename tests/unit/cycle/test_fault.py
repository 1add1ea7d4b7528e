"""A fault beside the load: when it begins, and that it always ends."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.cycle.fault import FaultWatch, end_fault_left, require_fault_ended
from dbcheck.model.cut import FaultRecord
from dbcheck.ports.listener import Phase
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.stored import to_bytes
from tests.kit.refusals import refused
from tests.kit.samples import MANIFEST
from tests.kit.waiting import wait_until

NODE = MANIFEST.writer_name


class Programs:
    """What the programs were asked to do; each fails as often as it is told to."""

    def __init__(self, begin_fails: int = 0, end_fails: int = 0) -> None:
        self.calls: list[tuple[str, str]] = []
        self.fails = {"begin": begin_fails, "end": end_fails}
        self.may_begin = threading.Event()
        self.may_begin.set()
        self.run: RunFolder | None = None

    def begin(self, name: str) -> None:
        assert self.run is not None
        assert self.run.fault() is not None  # stored before it begins
        self.may_begin.wait(30)
        self._call("begin", name)

    def end(self, name: str) -> None:
        self._call("end", name)

    def _call(self, what: str, name: str) -> None:
        self.calls.append((what, name))
        if self.fails[what]:
            self.fails[what] -= 1
            raise EngineError(f"it could not {what}", id=ErrorId.FAULT_NOT_ENDED)


def made(
    folder: Path, programs: Programs | None
) -> tuple[FaultWatch, RunFolder, Any, list[str]]:
    """Return the fault of a cycle whose cut is due after 10 s, its run and its rig."""
    said: list[str] = []

    def note(phase: Phase, text: str) -> None:
        assert phase is Phase.FAULT
        said.append(text)

    rig: Any = SimpleNamespace(
        fault=programs,
        listener=SimpleNamespace(phase=note),
        site=SimpleNamespace(nodes={NODE: None}),
        reconcile_command=lambda path: f"dbcheck reconcile {path}",
    )
    run = RunFolder.create(folder, MANIFEST)
    if programs is not None:
        programs.run = run
    started: Any = SimpleNamespace(manifest=MANIFEST, run=run)
    return FaultWatch(rig, started, 10.0), run, rig, said


def test_the_cut_waits_until_the_fault_is_there(tmp_path: Path) -> None:
    programs = Programs()
    programs.may_begin.clear()
    watch, run, _, _ = made(tmp_path, programs)
    assert not watch.allows_cut(3.9)
    assert run.fault() is None
    assert not watch.allows_cut(10.0)
    assert not watch.allows_cut(99.0)
    programs.may_begin.set()
    wait_until(lambda: watch.allows_cut(10.1), "the fault")
    watch.end()
    watch.end()
    assert programs.calls == [("begin", NODE), ("end", NODE)]
    record = run.fault()
    assert record is not None and record.is_over
    assert record.asked_us <= (record.began_us or 0) <= (record.ended_us or 0)


def test_without_programs_nothing_waits(tmp_path: Path) -> None:
    watch, run, rig, said = made(tmp_path, None)
    assert watch.allows_cut(0.0)
    assert watch.extend(5.0) == 5.0
    watch.end()
    end_fault_left(rig, run)
    require_fault_ended(rig, run)
    assert run.fault() is None and not said


def test_a_load_that_is_over_before_begins_none(tmp_path: Path) -> None:
    programs = Programs()
    watch, run, _, _ = made(tmp_path, programs)
    assert not watch.allows_cut(0.1)
    watch.end()
    assert run.fault() is None and not programs.calls


def test_a_fault_that_does_not_begin_is_ended_and_nothing_is_cut(
    tmp_path: Path,
) -> None:
    programs = Programs(begin_fails=1)
    watch, run, _, _ = made(tmp_path, programs)

    def is_refused() -> bool:
        try:
            return watch.allows_cut(10.0)
        except EngineError as error:
            return "could not begin" in str(error)

    wait_until(is_refused, "the failure")
    watch.end()
    assert programs.calls == [("begin", NODE), ("end", NODE)]
    record = run.fault()
    assert record is not None and record.is_over
    assert record.failure == "it could not begin"


def test_an_end_that_fails_is_tried_again_and_shown(tmp_path: Path) -> None:
    programs = Programs(end_fails=1)
    watch, run, rig, said = made(tmp_path, programs)
    watch.allows_cut(10.0)
    watch.end()
    assert said[-1] == f"{NODE}: STILL THERE: it could not end"
    with refused(ErrorId.FAULT_NOT_ENDED, EngineError, naming="it could not end"):
        require_fault_ended(rig, run)
    watch.end()
    assert programs.calls[1:] == [("end", NODE), ("end", NODE)]
    require_fault_ended(rig, run)


def test_who_finishes_the_run_ends_what_its_client_left(tmp_path: Path) -> None:
    programs = Programs(end_fails=1)
    _, run, rig, _ = made(tmp_path, programs)
    run.write_fault(FaultRecord(NODE, 1))
    with refused(ErrorId.FAULT_NOT_ENDED, EngineError, naming="could not end"):
        end_fault_left(rig, run)
    end_fault_left(rig, run)
    end_fault_left(rig, run)
    assert programs.calls == [("end", NODE)] * 2
    record = run.fault()
    assert record is not None and record.is_over


def test_a_run_that_only_a_witness_knows_may_have_begun_its_fault(
    tmp_path: Path,
) -> None:
    """The record of the fault is with the client that began it, and that is gone."""
    programs = Programs()
    _, _, rig, said = made(tmp_path, programs)
    for planned, calls in ((False, []), (True, [("end", NODE)])):
        content = to_bytes(replace(MANIFEST, fault=planned))
        folder = tmp_path / str(planned)
        run = RunFolder.recall(folder, MANIFEST.run_id, content, None, "w")
        end_fault_left(rig, run)
        end_fault_left(rig, run)
        assert programs.calls == calls
    assert said == [f"{NODE}: it may still be there; ending it"]
    record = run.fault()
    assert record is not None and record.is_over and record.began_us is None
    run = RunFolder.recall(tmp_path / "again", MANIFEST.run_id, content, None, "w")
    rig.fault = None
    with refused(ErrorId.FAULT_NOT_ENDED, UsageError, naming="may have begun a fault"):
        end_fault_left(rig, run)


@pytest.mark.parametrize("known", [False, True])
def test_what_cannot_be_ended_keeps_the_run_from_being_read(
    tmp_path: Path, known: bool
) -> None:
    """Without the programs, or for a node that the target does not have."""
    programs = Programs()
    _, run, rig, _ = made(tmp_path, programs if known else None)
    run.write_fault(replace(FaultRecord(NODE, 1), node="-x" if known else NODE))
    with refused(ErrorId.FAULT_NOT_ENDED, UsageError, naming="no record that it ended"):
        end_fault_left(rig, run)
    assert not programs.calls
