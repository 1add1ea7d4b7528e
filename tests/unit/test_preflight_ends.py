"""What is closed when a cycle ends between its canary and its load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.campaign import control, preflight
from dbcheck.campaign.rig import Rig
from dbcheck.core.operation import StatementSpec
from dbcheck.core.table import TableSpec
from dbcheck.errors import EngineError
from tests.fuzz.stored_run import manifest
from tests.unit.rigs import Told


class Closed:
    """Counts how often it was closed; a log that takes every note."""

    def __init__(self) -> None:
        self.times = 0

    def note(self, event: object) -> None:
        pass

    def close(self) -> None:
        self.times += 1


class Parts:
    """An engine and a witness, as far as the end of a preflight needs them."""

    family, target, url, kind = "mysql", "mysql://h/d", "file:/w", "file"

    def __init__(self, failure: BaseException) -> None:
        self.held, self.log, self.failure = Closed(), Closed(), failure

    def check(self, statements: Sequence[StatementSpec]) -> None:
        pass

    def places(self, tables: Sequence[TableSpec]) -> tuple[()]:
        return ()

    def plant_canary(self, epoch: int, **options: Any) -> Closed:
        return self.held

    canary = open_weak_session = None

    def create(self, run_id: str, content: bytes) -> Closed:
        return self.log

    def facts(self) -> Any:
        return manifest().before

    def checkpoint(self) -> str | None:
        raise self.failure

    def weaken_durability(self, *, process: bool) -> str:
        raise self.failure


def rig_with(parts: Any, runs: Path) -> Rig:
    nothing: Any = None
    return Rig(parts, parts, nothing, nothing, Told(), runs, lab={"rung": "process"})


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), EngineError("gone")])
def test_a_preflight_that_ends_in_its_checkpoint_closes_all_it_began(
    failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, ended = Parts(failure), []
    monkeypatch.setattr(preflight, "_manifest", lambda *_: manifest())
    monkeypatch.setattr(preflight, "_warm", lambda *_: None)
    monkeypatch.setattr(preflight, "look_at_host", lambda *_: (None, "canaries"))
    monkeypatch.setattr(
        preflight, "end_canaries", lambda _, canaries, remove: ended.append(canaries)
    )
    with pytest.raises(type(failure)):
        preflight.preflight(rig_with(parts, tmp_path), manifest().workload, 1)
    assert (parts.held.times, parts.log.times, ended) == (1, 1, ["canaries"])


def test_a_control_that_cannot_weaken_the_server_closes_all_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, ended = Parts(EngineError("no privilege")), []
    started: Any = SimpleNamespace(log=parts.log, held=parts.held, canaries="canaries")
    monkeypatch.setattr(
        control, "end_canaries", lambda _, canaries, remove: ended.append(canaries)
    )
    with pytest.raises(EngineError, match="no privilege"):
        control._weaken(rig_with(parts, tmp_path), started)
    assert (parts.held.times, parts.log.times, ended) == (1, 1, ["canaries"])
