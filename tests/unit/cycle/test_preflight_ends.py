"""What is closed when a cycle ends between its canary and its load."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle import cycle
from dbcheck.cycle.preflight import before_load
from dbcheck.model.cluster import ONLY_NODE
from tests.kit.partial_rig import Parts, rig_with
from tests.kit.refusals import refused
from tests.kit.stored_run import manifest

RUNNING = "canaries"


@pytest.mark.parametrize(
    "failure",
    [KeyboardInterrupt("Ctrl-C"), EngineError("gone", id=ErrorId.STATEMENT_FAILED)],
)
def test_a_preflight_that_ends_in_its_checkpoint_closes_all_it_began(
    failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, ended = Parts(failure), []
    monkeypatch.setattr(before_load, "_make_manifest", lambda *_, **__: manifest())
    monkeypatch.setattr(before_load, "commit_first_rows", lambda *_: None)
    monkeypatch.setattr(before_load, "inspect_host", lambda *_, **__: (None, RUNNING))
    monkeypatch.setattr(
        before_load, "end_canaries", lambda _, canaries, remove: ended.append(canaries)
    )
    with pytest.raises(type(failure), match=str(failure)):
        before_load.run_preflight(rig_with(parts, tmp_path), manifest().workload, 1)
    assert (parts.held.times, parts.log.times, ended) == (1, 1, [{ONLY_NODE: RUNNING}])


def test_a_control_that_cannot_weaken_the_server_closes_all_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, ended = Parts(EngineError("no privilege", id=ErrorId.STATEMENT_FAILED)), []
    started: Any = SimpleNamespace(log=parts.log, held=parts.held, canaries="canaries")
    monkeypatch.setattr(
        cycle, "end_canaries", lambda _, canaries, remove: ended.append(canaries)
    )
    with refused(ErrorId.STATEMENT_FAILED, EngineError, naming="no privilege"):
        cycle._weaken(rig_with(parts, tmp_path), started)
    assert (parts.held.times, parts.log.times, ended) == (1, 1, ["canaries"])


@pytest.mark.parametrize("step", ["run_preflight", "_weaken"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt("Ctrl-C"), ValueError("no")])
def test_only_a_control_that_may_have_changed_the_server_undoes_that(
    step: str,
    failure: BaseException,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that the preflight did not reach is not told as a weak one."""

    def fail(*_: object, **__: object) -> None:
        raise failure

    undone: list[object] = []
    for name in ("require_none_on_witness", "run_preflight", "_weaken"):
        monkeypatch.setattr(cycle, name, lambda *_, **__: None)
    monkeypatch.setattr(cycle, "wait_for_turn", contextlib.nullcontext)
    monkeypatch.setattr(cycle, "undo_weakening", undone.append)
    monkeypatch.setattr(cycle, step, fail)
    rig = rig_with(Parts(KeyboardInterrupt()), tmp_path)
    with pytest.raises(type(failure), match=str(failure)):
        cycle.run_control(rig, manifest().workload, 1)
    assert undone == [rig] * (step == "_weaken")
