"""The state folder: who may use it, what counts as alive, what dead labs leave."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.lab import state
from dbcheck.lab.process import Process
from dbcheck.lab.state import LabRecord
from tests.kit.refusals import refused
from tests.kit.state_folder import root as root


def test_the_folder_is_for_its_owner_alone(root: Path) -> None:
    assert state.open_state_folder() == root
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o705, 0o755])
def test_a_folder_others_may_use_is_refused(root: Path, mode: int) -> None:
    root.chmod(mode)
    with refused(ErrorId.FOLDER_OF_OTHER_USER, LabError):
        state.open_state_folder()


def test_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    root.rename(tmp_path / "elsewhere")
    root.symlink_to(tmp_path / "elsewhere")
    with refused(ErrorId.FOLDER_OF_OTHER_USER, LabError):
        state.open_state_folder()


def test_a_runtime_folder_of_somebody_else_is_not_used(
    root: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    user = os.geteuid()
    folder = Path(f"/tmp/dbcheck-{user}")
    was_there = folder.exists()
    try:
        if os.getuid() == user:
            assert state.open_state_folder() == folder
        else:  # made by root in the test, so not the pretended account's
            with refused(ErrorId.FOLDER_OF_OTHER_USER, LabError, naming=str(folder)):
                state.open_state_folder()
    finally:
        if not was_there:
            with contextlib.suppress(OSError):  # somebody began to use it
                folder.rmdir()


@pytest.mark.parametrize("name", ["..", "a/b", ".lock", "Lab", "-a", "a" * 41, "a\n"])
def test_a_name_that_could_be_a_path_is_refused(root: Path, name: str) -> None:
    with refused(ErrorId.LAB_NAME_INVALID, UsageError):
        state.create(name)


def test_a_lab_lives_as_long_as_its_lock(root: Path) -> None:
    entry, lock = state.create("one")
    copy = os.dup(lock)
    os.close(lock)
    assert entry.alive()
    assert state.find("one") == entry
    os.close(copy)
    assert not entry.alive()
    with refused(ErrorId.LAB_NOT_RUNNING, LabError, naming="one"):
        state.find("one")


def test_two_labs_of_one_name_are_refused(root: Path) -> None:
    _, lock = state.create("one")
    with refused(ErrorId.LAB_EXISTS, LabError):
        state.create("one")
    os.close(lock)


def test_unnamed_labs_differ(root: Path) -> None:
    labs = [state.create("") for _ in range(3)]
    assert len({entry.name for entry, _ in labs}) == 3
    for _, lock in labs:
        os.close(lock)


def test_notes_add_up_and_only_the_owner_reads_them(root: Path) -> None:
    entry, lock = state.create("one")
    entry.note(folder="/somewhere")
    entry.note(daemon=Process(1, 2), processes=[Process(3, 4)])
    assert entry.folder() == Path("/somewhere")
    assert entry.daemon() == Process(1, 2)
    assert entry.processes() == [Process(3, 4)]
    assert stat.S_IMODE(entry.facts.stat().st_mode) == 0o600
    os.close(lock)


def test_a_torn_note_is_no_note(tmp_path: Path) -> None:
    entry = LabRecord(tmp_path)
    entry.facts.write_text('{"folder": "/some')
    assert entry.folder() is None


def test_mend_removes_dead_labs_alone(root: Path, tmp_path: Path) -> None:
    dead, lock = state.create("dead")
    folder = tmp_path / "files of the dead"
    (folder / "witness").mkdir(parents=True)
    dead.note(folder=str(folder))
    os.close(lock)
    alive, lock = state.create("alive")
    assert state.remove_dead() == ["dead"]
    assert not folder.exists()
    assert state.list_labs() == [alive]
    os.close(lock)


def test_mend_spares_a_later_process_of_the_same_id(root: Path) -> None:
    us = Process.of(os.getpid())
    assert us is not None
    entry, lock = state.create("dead")
    entry.note(processes=[us._replace(start_ticks=us.start_ticks - 1)])
    os.close(lock)
    assert state.remove_dead() == ["dead"]
    assert us.alive()


@pytest.mark.parametrize(
    "noted", ["[]", "5", '{"daemon": [1], "processes": [5, [], ["a", "b"]]}']
)
def test_a_lab_that_noted_garbage_has_no_processes(tmp_path: Path, noted: str) -> None:
    entry = LabRecord(tmp_path)
    entry.facts.write_text(noted)
    assert entry.processes() == []
    assert entry.daemon() is None
