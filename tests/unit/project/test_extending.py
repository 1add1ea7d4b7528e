"""docs/extending.md: its workload is valid, and its plan finds what it says."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from dbcheck.config import files, workload_file
from dbcheck.rows.plans.plan import Plan
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.survivors import DIFFERENT
from dbcheck.rows.workload import PlanKind
from tests.kit.cycles import EPOCH, SEED
from tests.kit.mixed import Model, Rows

TEXT = (Path(__file__).parents[3] / "docs" / "extending.md").read_text("utf-8")


def block(language: str) -> str:
    """Return the one example in that language."""
    (found,) = re.findall(rf"^ *```{language}\n(.*?)^ *```$", TEXT, re.M | re.S)
    return textwrap.dedent(found)


def test_the_workload_can_be_read() -> None:
    values = files.parse_toml(block("toml"), "the example")
    assert (
        workload_file.parse_workload("undo", values, where="the example").plan
        is PlanKind.MIXED
    )


@pytest.fixture
def example() -> ModuleType:
    """Return the module."""
    module = ModuleType("counters")
    exec(compile(block("python"), "counters.py", "exec"), module.__dict__)
    return module


def test_the_plan_has_the_types_that_the_contract_has(example: ModuleType) -> None:
    """A class whose attributes are narrower would be refused by the type checker."""
    given = example.CountersPlan.__annotations__
    assert Plan.__annotations__.items() <= given.items()


@pytest.fixture
def model(example: ModuleType) -> Model:
    """Return a model of the tables after some operations of two sessions."""
    model = Model(example.CountersPlan(Schedule(SEED, EPOCH, (40,))))
    model.run(1, 9)
    model.run(2, 3)
    return model


def stale(rows: Rows) -> None:
    rows[1, 8, 1] = rows.pop((1, 9, 1))


def gone(rows: Rows) -> None:
    del rows[1, 9, 1]


def newer(rows: Rows) -> None:
    rows[1, 10, 1] = rows.pop((1, 9, 1))


def damaged(rows: Rows) -> None:
    rows[1, 9, 1]["content"] = DIFFERENT


@pytest.mark.parametrize(
    ("plant", "kind", "seq"),
    [
        (stale, "stale", 9),
        (gone, "torn", 9),
        (newer, "torn", 10),
        (damaged, "corrupt", 9),
    ],
)
def test_the_plan_finds_what_it_must(
    model: Model, plant: Callable[[Rows], None], kind: str, seq: int
) -> None:
    acked = {1: 9, 2: 3}
    assert not model.judged(acked).counts
    plant(model.tables["register"])
    (loss,) = model.judged(acked).losses
    assert (loss.kind.value, loss.session, loss.seq) == (kind, 1, seq)
    assert loss.table == "register"
