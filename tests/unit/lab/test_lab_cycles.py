"""When a campaign in the lab ends by itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.config.workload_file import load
from dbcheck.cycle.outcome import Outcome
from dbcheck.lab.clusters.spec import PATRONI_4, ClusterSpec
from dbcheck.lab.drive.control import copy_drive
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.lab_clusters import run_cluster_cycles
from dbcheck.runner.lab_cycles import describe_lab, run_lab_cycles, stop_at_first_loss
from tests.kit.refusals import refused


def outcomes(letters: str, closed: list[bool]) -> Generator[Outcome, None, None]:
    """Yield a cycle for each letter: Pass, Fail, Inconclusive, Control."""
    verdicts = {"P": "PASS", "F": "FAIL", "I": "INCONCLUSIVE", "C": "PASS"}
    try:
        for letter in letters:
            cycle = SimpleNamespace(
                verdict=Verdict(verdicts[letter]),
                manifest=SimpleNamespace(control=letter == "C"),
            )
            yield cast(Outcome, cycle)
    finally:
        closed.append(True)


@pytest.mark.parametrize(
    ("letters", "cycles"),
    [
        pytest.param("PPPPP", 3, id="enough passes"),
        pytest.param("CPPPP", 4, id="a control is no cut"),
        pytest.param("PIPIP", 5, id="an inconclusive cycle does not count"),
        pytest.param("PFPPP", 2, id="the first loss ends it"),
        pytest.param("PI", 2, id="there are no more"),
    ],
)
def test_it_ends_at_the_first_loss_or_when_enough_is_shown(
    letters: str, cycles: int
) -> None:
    closed: list[bool] = []
    assert len(list(stop_at_first_loss(outcomes(letters, closed), 3))) == cycles
    assert closed, "the lab has ended too"


@pytest.mark.parametrize(
    ("engine", "plan", "given", "error_id", "named"),
    [
        (
            *("mysql", "insert", {"topology": "group-replication", "promise": "all"}),
            *(ErrorId.CONTROL_NOT_SUPPORTED, "group-replication with the promise all"),
        ),
        (
            *("postgresql", "insert", {"promoted_by": PATRONI_4}),
            *(ErrorId.CONTROL_NOT_SUPPORTED, "below Patroni"),
        ),
        ("postgresql", "two-phase", {}, ErrorId.CONTROL_CANNOT_PREPARE, "two-phase"),
        ("postgresql", "classic", {}, ErrorId.CONTROL_CANNOT_PREPARE, "classic"),
    ],
)
def test_a_control_of_a_cluster_that_cannot_be_is_refused_before_the_lab(
    tmp_path: Path,
    engine: str,
    plan: str,
    given: dict[str, Any],
    error_id: ErrorId,
    named: str,
) -> None:
    spec, progress = ClusterSpec(3, **given), PlainProgress(Console())
    cycles = run_cluster_cycles(
        *(LabSpec(engine), spec, load(plan), 1, 1, progress, tmp_path), control=True
    )
    with refused(error_id, UsageError, naming=named):
        next(cycles)


def test_a_group_is_not_read_twice_and_no_lab_is_made(tmp_path: Path) -> None:
    spec = ClusterSpec(3, topology="galera")
    cycles = run_cluster_cycles(
        *(LabSpec("mariadb"), spec, load("insert"), 1, 1),
        *(PlainProgress(Console()), tmp_path),
        twice=True,
    )
    with refused(ErrorId.OPTIONS_CONFLICT, UsageError, naming="--twice"):
        next(cycles)


def test_an_image_that_has_no_room_is_refused_before_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = SimpleNamespace(free=(1 << 30) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    quiet = PlainProgress(Console(quiet=True))
    given = (LabSpec("postgresql"), load("insert"), 1, 1, quiet, tmp_path / "runs")
    with refused(ErrorId.IMAGE_NEEDS_ROOM, UsageError, naming=("1,024", "1,023")):
        next(run_lab_cycles(*given, keep_image=True))


def test_an_image_is_the_drive_without_its_zeros(tmp_path: Path) -> None:
    drive = tmp_path / "drive"
    drive.write_bytes(bytes(1 << 20) + b"a" + bytes((3 << 20) - 1))
    descriptor = os.open(drive, os.O_RDONLY)
    try:
        copy_drive(descriptor, 4 << 20, tmp_path / "image")
        with refused(ErrorId.FILE_EXISTS, LabError, naming="already exists"):
            copy_drive(descriptor, 4 << 20, tmp_path / "image")
        with refused(ErrorId.FILE_NOT_WRITABLE, LabError, naming="none/image"):
            copy_drive(descriptor, 4 << 20, tmp_path / "none" / "image")
    finally:
        os.close(descriptor)
    image = tmp_path / "image"
    assert image.read_bytes() == drive.read_bytes()
    assert image.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize(
    ("drive", "honest"),
    [
        (DriveSpec(), True),
        (DriveSpec("lying"), False),
        (DriveSpec("write-through"), False),
        (DriveSpec(tear_bytes=4096), False),
        (DriveSpec("lying", lost_above_bytes=4096), False),
        (DriveSpec(forget_bytes=4096), False),
    ],
    ids=["no fault", "lies", "no cache", "tears", "lies and leaves out", "forgets"],
)
def test_only_a_drive_without_a_fault_is_called_honest(
    drive: DriveSpec, honest: bool
) -> None:
    text = describe_lab(LabSpec("postgresql", drive=drive))
    assert ("honest" in text) is honest
    assert ("4,096" in text) is (4096 in asdict(drive).values())


@pytest.mark.parametrize(
    ("container", "said"),
    [
        ("none", "postgresql, xfs on"),
        ("volume", "postgresql, in a container, data on a volume, xfs on"),
        ("layer", "postgresql, in a container, data in its writable layer, xfs on"),
    ],
)
def test_a_container_is_named(container: str, said: str) -> None:
    assert describe_lab(LabSpec("postgresql", container=container)).startswith(said)
