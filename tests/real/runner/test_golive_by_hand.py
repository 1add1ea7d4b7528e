"""A go-live check whose power a person cuts, on two days."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.lab.lab import Lab
from dbcheck.model.golive import StepId, StepStatus
from dbcheck.runner.golive_folder import GoLiveFolder
from tests.kit.labs import process_lab
from tests.kit.people import CTRL_C, Person

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with Lab.start(process_lab("postgresql"), tmp_path / "lab") as lab:
        yield Person(lab, tmp_path, Path.cwd())


def test_a_person_is_asked_for_each_cut_and_goes_on_another_day(
    person: Person,
) -> None:
    folder = person.folder / "check"
    words = ("db1", "--cuts", "1", "--no-control", "--folder", str(folder))
    with person.sit_down("golive", *words) as at:
        at.until("5 of 7", "each time you are asked", "[y/N]: ")
        at.type("y\n")
        person.pull_plug(at)
        at.until("6 of 7")
        person.go_to_plug(at)
        at.type(CTRL_C)  # before the plug was pulled
        at.until(f"dbcheck golive --resume {folder}")
    with person.sit_down("golive", "--resume", str(folder)) as at:
        at.until("[y/N]: ")
        at.type("y\n")
        at.until("does not count")
        person.pull_plug(at)
        at.until("PASS", "the page to sign")
    records = {step: GoLiveFolder(folder).record(step) for step in StepId}
    status = {step: record.status for step, record in records.items() if record}
    left_out = {StepId.FLUSHES, StepId.POWER}  # no host to ask, no switch to test
    assert {x for x, how in status.items() if how is StepStatus.LEFT_OUT} == left_out
    assert {x for x, how in status.items() if how is StepStatus.DONE} == (
        set(StepId) - left_out
    )
    page = (folder / "golive.html").read_text("utf-8")
    assert "flushes were not counted" in page  # to accept by name
