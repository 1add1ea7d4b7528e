"""What is stored of the volumes of a server while it is copied, and once restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.volumes import read_volumes, watched_volumes
from dbcheck.ports.site import VolumeSteps
from dbcheck.rows.copied import CopyRecord, VolumeNumbers, VolumesRecord
from dbcheck.runs.folder import RunFolder
from tests.kit.refusals import refused

GONE = HostError("db1 is gone", id=ErrorId.AGENT_ENDED, hint="")


class Watch:
    """Volumes that show what they are told to."""

    def __init__(self, *steps: VolumeSteps | HostError, found: Any = GONE) -> None:
        self.steps, self.found = list(steps), found
        self.did: list[str] = []
        self.folders: tuple[str, ...] = ("/data", "/log")

    def start(self, nonce: str) -> None:
        self.did.append(f"start {len(nonce)}")

    def count(self) -> VolumeSteps:
        step = self.steps.pop(0)
        if isinstance(step, HostError):
            raise step
        return step

    def stop(self) -> None:
        self.did.append("stop")

    def read(self, run_id: str, nonce: str) -> Mapping[str, Sequence[range]]:
        self.did.append(f"read {run_id} {nonce}")
        if isinstance(self.found, HostError):
            raise self.found
        return cast("Mapping[str, Sequence[range]]", self.found)


class Run:
    """The records of a run, in memory."""

    def __init__(self, record: CopyRecord | None) -> None:
        self.record = record

    def copy(self) -> CopyRecord | None:
        return self.record

    def write_copy(self, record: CopyRecord) -> None:
        self.record = record

    def manifest(self) -> Any:
        return SimpleNamespace(run_id="run-1")

    @property
    def volumes(self) -> VolumesRecord:
        assert self.record is not None
        assert self.record.volumes is not None
        return self.record.volumes


def rig_of(watch: Watch | None) -> Rig:
    listener = SimpleNamespace(phase=lambda *_: None)
    copying = SimpleNamespace(volumes=watch)
    return cast("Rig", SimpleNamespace(copying=copying, listener=listener))


def read(watch: Watch | None, run: Run) -> str:
    return read_volumes(rig_of(watch), cast("RunFolder", run))


def step(number: int, stopped: str = "") -> VolumeSteps:
    return VolumeSteps(number + 1, number, 0.25, stopped)


TAKEN = VolumesRecord(
    *("00", 40, 50, 0.25),
    folders=("/data", "/log"),
)
APART = {"/data": [range(1, 48, 2)], "/log": [range(2, 43, 2)]}


def test_the_record_has_the_numbers_around_the_copy() -> None:
    watch = Watch(step(40), step(49))
    with watched_volumes(rig_of(watch)) as volumes:
        record = volumes.end(volumes.begin())
    assert record == replace(TAKEN, nonce=volumes.nonce)
    assert watch.did == ["start 32", "stop"]


def test_without_volumes_nothing_is_recorded() -> None:
    with watched_volumes(rig_of(None)) as volumes:
        assert volumes.end(volumes.begin()) is None
    run = Run(CopyRecord(1, 2))
    assert read(None, run) == ""
    assert run.record == CopyRecord(1, 2)


def test_the_numbers_end_also_after_an_error() -> None:
    watch = Watch()
    with (
        pytest.raises(KeyboardInterrupt, match="now"),
        watched_volumes(rig_of(watch)),
    ):
        raise KeyboardInterrupt("now")
    assert watch.did[-1] == "stop"


@pytest.mark.parametrize(
    "steps",
    [
        (GONE,),
        (step(40), GONE),
        (step(40, "db1 is gone"),),
        (step(40), step(49, "db1 is gone")),
    ],
)
def test_a_host_that_goes_meanwhile_leaves_its_reason_and_is_not_read(
    steps: tuple[VolumeSteps | HostError, ...],
) -> None:
    watch = Watch(*steps)
    with watched_volumes(rig_of(watch)) as volumes:
        record = volumes.end(volumes.begin())
    assert record is not None
    assert record.failure == "db1 is gone"
    run = Run(CopyRecord(1, 2, volumes=record))
    assert read(watch, run) == ""
    assert run.volumes.failure == "db1 is gone"
    assert watch.did[-1] == "stop"


def test_restored_volumes_are_stored_with_how_they_are_apart() -> None:
    run, watch = Run(CopyRecord(1, 2, volumes=TAKEN)), Watch(found=APART)
    assert "/log is older than /data" in read(watch, run)
    assert run.volumes.numbers == VolumeNumbers(43, {"/data": 47, "/log": 42})
    assert watch.did == ["read run-1 00"]


def test_volumes_that_could_not_be_read_are_read_by_a_later_command() -> None:
    run = Run(CopyRecord(1, 2, volumes=TAKEN))
    assert read(Watch(), run) == ""
    assert run.volumes.failure == "db1 is gone"
    assert read(None, run) == ""
    assert "is not known" in run.volumes.failure
    read(Watch(found=APART), run)
    assert run.volumes.failure == ""
    assert run.volumes.numbers is not None


def test_other_volumes_than_those_of_the_copy_are_not_read() -> None:
    """Without one of them each number that was written there would be missing."""
    run, watch = Run(CopyRecord(1, 2, volumes=TAKEN)), Watch(found=APART)
    watch.folders = ("/data",)
    assert read(watch, run) == ""
    assert "other volumes are named now" in run.volumes.failure
    assert watch.did == []


def test_a_host_that_refuses_ends_it_before_the_body() -> None:
    class Refusing(Watch):
        def start(self, nonce: str) -> None:
            raise GONE

    with refused(ErrorId.AGENT_ENDED, HostError), watched_volumes(rig_of(Refusing())):
        raise AssertionError("the body ran")


def test_records_of_the_run_folder_keep_the_volumes(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    numbers = VolumeNumbers(43, {"/data": 47, "/log": 42})
    record = CopyRecord(1, 2, volumes=replace(TAKEN, numbers=numbers))
    folder.write_copy(record)
    assert folder.copy() == record
