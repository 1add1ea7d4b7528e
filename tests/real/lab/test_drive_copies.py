"""Drives are copied at one moment, while they are written to, and go on meanwhile."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.drive.control import DriveProcess
from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.lab.storage.copied import TakingOfDrives, find_image
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]

SIZE = 64 << 20
SPEC = DriveSpec(size_bytes=SIZE, flush_ms=0.0, destage_age_s=0.0)
WATCHDOG_S = 0.5


class Copied:
    """A drive without a filesystem, as storage.base.CopiedDrive."""

    def __init__(self, drive: DriveProcess, name: str, folder: Path) -> None:
        self.drive, self.name, self.folder = drive, name, folder
        self.spec = LabSpec("postgresql")

    def hold_requests(self) -> None:
        self.drive.call(DriveServer.hold)

    def begin_copy(self, file: int) -> None:
        self.drive.begin_copy(file)

    def go_on(self) -> None:
        self.drive.call(DriveServer.go_on)

    def copy_is_complete(self) -> bool:
        return self.drive.call(DriveServer.copy_is_complete)

    def give_copy_up(self) -> None:
        self.drive.call(DriveServer.give_copy_up)


@pytest.fixture
def drives(tmp_path: Path) -> Iterator[list[Copied]]:
    made = []
    try:
        for name in ("one", "two"):
            file = tmp_path / name
            file.touch()
            drive = DriveProcess.start(SPEC, file, watchdog_s=WATCHDOG_S)
            made.append(Copied(drive, name, tmp_path))
        yield made
    finally:
        for each in made:
            each.drive.close()


class Writer:
    """Writes 1, 2, 3, ... to each of the drives in turn, each after the one before."""

    def __init__(self, drives: Sequence[Copied]) -> None:
        self._files = [each.drive.descriptor for each in drives]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.number = 0

    def __enter__(self) -> Writer:
        self._thread.start()
        wait_until(lambda: self.number > 20, "the writer is at work")
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        for number in itertools.count(1):
            if self._ended.is_set():
                return
            content = number.to_bytes(8, "big") * 64
            os.pwrite(self._files[number % len(self._files)], content, number * 512)
            self.number = number


def read_numbers(image: Path) -> list[int]:
    """Return the numbers in the image of a copy."""
    content = image.read_bytes()
    assert len(content) == SIZE
    found = (int.from_bytes(content[at : at + 8]) for at in range(0, SIZE, 512))
    return [number for number in found if number]


def take(
    drives: Sequence[Copied], groups: Sequence[Sequence[Copied]], folder: Path
) -> list[int]:
    """Return the numbers in the copies of *drives*, sorted."""
    taking = TakingOfDrives(groups, 0.3, folder)
    wait_until(taking.poll, "the copies are complete")
    images = [find_image(folder, each) for each in drives]
    return sorted(number for image in images for number in read_numbers(image))


def test_copies_of_one_moment_have_each_write_before_the_last(
    drives: list[Copied], tmp_path: Path
) -> None:
    """Nothing was flushed: a copy has what was written."""
    with Writer(drives) as writer:
        for turn in range(3):
            before = writer.number
            numbers = take(drives, [drives], tmp_path / f"copy-{turn}")
            assert numbers == list(range(1, len(numbers) + 1))
            assert before <= len(numbers) < writer.number
    for each in drives:
        assert each.drive.call(DriveServer.counters).flushes == 0


def test_copies_of_two_moments_have_a_gap(drives: list[Copied], tmp_path: Path) -> None:
    one, two = drives
    with Writer(drives):
        for order in ([(one,), (two,)], [(two,), (one,)]):
            copy = tmp_path / f"first-{order[0][0].name}"
            numbers = take(drives, order, copy)
            assert numbers != list(range(1, len(numbers) + 1))


def test_a_held_drive_goes_on_by_itself_and_then_is_not_copied(
    drives: list[Copied], tmp_path: Path
) -> None:
    one = drives[0]
    one.hold_requests()
    began_s = time.monotonic()
    assert os.pread(one.drive.descriptor, 4, 0) == bytes(4)  # answered once it goes on
    assert time.monotonic() - began_s >= WATCHDOG_S * 0.9
    with refused(ErrorId.VIRTUAL_DRIVE_REFUSED, LabError, naming="not held"):
        one.go_on()
    for name in ("refused", "again"):
        file = os.open(tmp_path / name, os.O_RDWR | os.O_CREAT)
        with refused(ErrorId.VIRTUAL_DRIVE_REFUSED, LabError, naming="not held"):
            one.begin_copy(file)
        os.close(file)
    os.pwrite(one.drive.descriptor, b"x" * 512, 0)
    taken = TakingOfDrives([[one]], 0, tmp_path / "copy")
    wait_until(taken.poll, "the copy is complete")
    image = find_image(tmp_path / "copy", one)
    assert image.read_bytes()[:512] == b"x" * 512
    assert (tmp_path / "refused").stat().st_size == 0


def test_a_drive_without_power_is_not_copied(
    drives: list[Copied], tmp_path: Path
) -> None:
    """The other one, which was held before it, goes on at once."""
    one, two = drives
    two.drive.call(DriveServer.fail)
    with refused(ErrorId.VIRTUAL_DRIVE_REFUSED, LabError, naming="no power"):
        TakingOfDrives([drives], 0, tmp_path / "copy")
    began_s = time.monotonic()
    assert os.pread(one.drive.descriptor, 4, 0) == bytes(4)
    assert time.monotonic() - began_s < WATCHDOG_S / 2


def test_a_copy_that_cannot_be_written_is_an_error(
    drives: list[Copied], tmp_path: Path
) -> None:
    one = drives[0]
    os.pwrite(one.drive.descriptor, b"x" * 512, 0)
    (tmp_path / "empty").touch()
    file = os.open(tmp_path / "empty", os.O_RDONLY)
    one.hold_requests()
    one.begin_copy(file)
    one.go_on()
    os.close(file)

    def fails() -> bool:
        try:
            return one.copy_is_complete()
        except LabError as error:
            return "the copy was not written" in str(error)

    wait_until(fails, "the copy has failed")
    with refused(ErrorId.VIRTUAL_DRIVE_REFUSED, LabError, naming="was not written"):
        one.copy_is_complete()
