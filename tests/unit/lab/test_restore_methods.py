"""Which methods a lab has to copy its server, and what is refused before it starts."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.config.workload_file import load
from dbcheck.lab.programs import PACKAGES
from dbcheck.lab.restoring.methods import MariadbBackup, MethodName
from dbcheck.lab.restoring.registry import (
    METHODS,
    choose_method,
    list_methods,
    require_programs,
)
from dbcheck.lab.servers.mariadb import MariadbServer
from dbcheck.lab.spec import ENGINES, LabSpec
from dbcheck.runner.lab_restores import require_restorable
from tests.kit.refusals import refused


def test_every_method_is_one_of_a_server_and_its_programs_are_known() -> None:
    assert set(METHODS) == set(MethodName)
    for kinds in METHODS.values():
        assert kinds.keys() <= set(ENGINES)
        for method in kinds.values():
            assert set(method.needs) <= PACKAGES.keys()
    assert all(list_methods(engine) for engine in ENGINES)


@pytest.mark.parametrize(
    ("name", "engine", "known"),
    [
        (
            "clone",
            "postgresql",
            "base-backup, dump, archive, receiver, pgbackrest, point-in-time, files,"
            " drives, drives-apart",
        ),
        (
            "base-backup",
            "mariadb",
            "mariadb-backup, dump, point-in-time, drives, drives-apart",
        ),
        ("dump", "mysql", "clone, drives, drives-apart"),
        ("nightly", "myrocks", "dump, drives, drives-apart"),
    ],
)
def test_a_method_of_another_server_is_refused(
    name: str, engine: str, known: str
) -> None:
    with refused(
        ErrorId.RESTORE_METHOD_NOT_FOR_ENGINE, UsageError, naming=(name, engine)
    ) as caught:
        choose_method(name, engine)
    assert caught.value.hint == f"This server has: {known}."


@pytest.mark.parametrize(
    ("lab", "flag"),
    [
        (LabSpec("postgresql", container="volume"), "--container"),
        (LabSpec("postgresql", log_drive=True), "--log-drive"),
    ],
)
def test_files_of_the_server_must_be_in_one_folder(lab: LabSpec, flag: str) -> None:
    with refused(ErrorId.OPTIONS_CONFLICT, UsageError, naming=flag):
        require_restorable(lab, "files", load("insert"))


@pytest.mark.parametrize(
    ("lab", "method", "id", "named"),
    [
        (
            LabSpec("mariadb", cut="process"),
            "drives",
            ErrorId.DRIVE_CUT_NEEDED,
            "--cut process has none",
        ),
        (
            LabSpec("mariadb"),
            "drives-apart",
            ErrorId.OPTIONS_CONFLICT,
            "needs two drives",
        ),
        (
            LabSpec("mariadb", container="volume"),
            "drives",
            ErrorId.OPTIONS_CONFLICT,
            "--container",
        ),
    ],
)
def test_what_copies_drives_needs_drives(
    lab: LabSpec, method: str, id: ErrorId, named: str
) -> None:
    with refused(id, UsageError, naming=named):
        require_restorable(lab, method, load("insert"))


def test_drives_are_copied_with_and_without_a_log_drive() -> None:
    for log_drive in (False, True):
        lab = LabSpec("mariadb", log_drive=log_drive)
        require_restorable(lab, "drives", load("insert"))


def test_a_workload_that_changes_rows_is_refused_before_a_lab_starts() -> None:
    lab = LabSpec("postgresql")
    with refused(ErrorId.WORKLOAD_NOT_FOR_COPY, UsageError, naming="mixed"):
        require_restorable(lab, "dump", load("mixed"))


def test_a_missing_program_is_named_with_its_package() -> None:
    class Bare(MariadbServer):
        @classmethod
        def find(cls, name: str) -> None:
            return None

    wanted = "install the Debian package mariadb-backup"
    with refused(ErrorId.PROGRAM_MISSING, LabError, naming=wanted):
        require_programs(MariadbBackup, Bare)
