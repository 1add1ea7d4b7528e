"""Programs of the user's that take a copy, restore it and remove it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.base.points import Point, PointKind
from dbcheck.config.target import RestoreSettings
from dbcheck.power.kinds.command import CopyByPrograms
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

RUN = "20261201-042651-d0443e"
SETTINGS = RestoreSettings(("true",), "postgresql://db1/postgres", ("true",))


def shell(script: str) -> tuple[str, ...]:
    """Return a command whose last argument, the run's id, is $1 of *script*."""
    return ("sh", "-c", script, "sh")


def test_each_program_gets_the_run_and_the_load_is_looked_at_meanwhile(
    tmp_path: Path,
) -> None:
    """The copy goes on until the test has looked twice."""
    looks, go_on = list[int](), tmp_path / "go-on"
    taken = shell(f"while ! [ -e {go_on} ]; do sleep 0.01; done; mkdir {tmp_path}/$1")
    programs = CopyByPrograms(
        RestoreSettings(
            shell(f"mv {tmp_path}/$1 {tmp_path}/$1.restored"),
            SETTINGS.target,
            taken,
            shell(f"rm -r {tmp_path}/$1.restored"),
        )
    )

    def look() -> None:
        looks.append(1)
        if len(looks) == 2:
            go_on.touch()

    programs.take(RUN, look)
    assert len(looks) >= 2
    programs.restore(RUN)
    assert (tmp_path / f"{RUN}.restored").is_dir()
    programs.remove(RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["go-on"]


def test_the_program_that_restores_to_a_point_gets_it_after_the_run(
    tmp_path: Path,
) -> None:
    file = tmp_path / "given"
    restore = shell(f'printf "%s\\n" "$@" >{file}')
    programs = CopyByPrograms(RestoreSettings(restore, SETTINGS.target))
    programs.restore(RUN, Point(PointKind.LSN, "0/3000148"))
    assert file.read_text().split() == [RUN, "0/3000148"]
    programs.restore(RUN)
    assert file.read_text().split() == [RUN]


def test_a_load_that_ends_ends_the_copy_with_all_its_processes(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    programs = CopyByPrograms(
        replace(
            SETTINGS,
            copy=shell(f"sleep 600 & echo $! > {file}.new; mv {file}.new {file}; wait"),
        )
    )

    def look() -> None:
        if file.exists():
            raise EngineError("the load ended", id=ErrorId.ALL_SESSIONS_ENDED)

    with refused(ErrorId.ALL_SESSIONS_ENDED, EngineError):
        programs.take(RUN, look)
    process = int(file.read_text())
    wait_until(lambda: not is_running(process), "the end of the copy's own process")


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{process}/status").read_text().split("State:")[1][:3]


@pytest.mark.parametrize(
    ("key", "id"),
    [
        ("copy", ErrorId.COPY_NOT_TAKEN),
        ("restore", ErrorId.COPY_NOT_RESTORED),
        ("remove", ErrorId.COPY_NOT_REMOVED),
    ],
)
def test_a_program_that_fails_is_named_with_its_last_words(
    key: str, id: ErrorId
) -> None:
    failing: dict[str, Any] = {key: shell("echo no space left; exit 3")}
    programs = CopyByPrograms(replace(SETTINGS, **failing))
    calls = {
        "copy": lambda: programs.take(RUN, lambda: None),
        "restore": lambda: programs.restore(RUN),
        "remove": lambda: programs.remove(RUN),
    }
    with refused(id, EngineError, naming=("ended with 3", "no space left")):
        calls[key]()


def test_a_copy_that_takes_too_long_is_ended() -> None:
    programs = CopyByPrograms(replace(SETTINGS, copy=shell("sleep 600"), timeout_s=0.2))
    with refused(ErrorId.POWER_COMMAND_TOO_SLOW, EngineError) as raised:
        programs.take(RUN, lambda: None)
    assert "dbcheck_restore: timeout_s" in raised.value.hint


def test_a_program_that_is_not_here_is_refused_first() -> None:
    programs = CopyByPrograms(replace(SETTINGS, restore=("no-such-program",)))
    with refused(ErrorId.COPY_PROGRAM_MISSING, UsageError, naming="restore"):
        programs.require_programs()


def test_without_a_program_that_removes_it_the_copy_stays() -> None:
    CopyByPrograms(SETTINGS).remove(RUN)
