"""A rig of whose parts only those are there that a test is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dbcheck.cycle.rig import Rig
from dbcheck.model.cut import CutClass, SwitchKind
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Node
from dbcheck.ports.witness import WitnessHostFacts
from dbcheck.rows.operation import StatementSpec, Usage
from dbcheck.rows.table import TableSpec
from tests.kit.bare_engine import BareEngine
from tests.kit.nodes import site_of
from tests.kit.stored_run import manifest


class RecordingListener:
    """A listener that remembers the phases."""

    def __init__(self) -> None:
        self.phases: list[tuple[Phase, str]] = []

    def phase(self, phase: Phase, detail: str) -> None:
        self.phases.append((phase, detail))

    def load(self, status: object) -> None:
        raise AssertionError("there is no load")

    def progress(self, progress: object) -> None:
        pass


def rig_of(listener: RecordingListener, *, engine: Any = None, host: Any = None) -> Rig:
    """Return a rig that has nothing else."""
    nothing: Any = None
    return Rig(site_of(engine, host=host), nothing, nothing, listener, Path())


def node_of(engine: Any = None, host: Any = None) -> Node:
    """Return a node that has nothing else."""
    return site_of(engine, host=host).writer


class Closed:
    """Counts how often it was closed; a log that takes every note."""

    def __init__(self) -> None:
        self.times = 0

    def note(self, event: object) -> None:
        pass

    def close(self) -> None:
        self.times += 1


class Parts(BareEngine):
    """An engine, and a witness's log, as far as the end of a preflight needs them."""

    family, target = "mysql", "mysql://h/d"

    def __init__(self, failure: BaseException) -> None:
        self.held, self.log, self.failure = Closed(), Closed(), failure

    def require_rights(self, usage: Usage, **options: bool) -> None:
        pass

    def check(
        self, statements: Sequence[StatementSpec], payload_bytes: int = 0
    ) -> None:
        pass

    def places(self, tables: Sequence[TableSpec]) -> tuple[()]:
        return ()

    def plant_canary(self, epoch: int, **options: Any) -> Closed:
        return self.held

    canary = open_weak_session = None

    def create(self, run_id: str, content: bytes) -> Closed:
        return self.log

    def facts(self) -> Any:
        return manifest().writer.facts

    def checkpoint(self) -> str | None:
        raise self.failure

    def weaken_durability(self, *, process: bool) -> str:
        raise self.failure


def rig_with(parts: Any, runs: Path) -> Rig:
    nothing: Any = None
    listener, lab = RecordingListener(), {"cut": "process"}
    witness: Any = SimpleNamespace(
        url="file:/w",
        kind="file",
        facts=lambda: WitnessHostFacts("w", "", "", frozenset(), "/w", "xfs", 1, 1),
        create=getattr(parts, "create", None),
    )
    power = SimpleNamespace(kind=SwitchKind.MANUAL, cut_class=CutClass.UNKNOWN)
    return Rig(site_of(parts, power), witness, nothing, listener, runs, lab=lab)
