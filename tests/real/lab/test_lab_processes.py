"""The processes that a lab starts, and those that it left."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import programs, state
from dbcheck.lab.process import Process, kill_group
from tests.kit.lab_daemon import run_daemon
from tests.kit.refusals import refused
from tests.kit.state_folder import root as root


def test_a_program_that_fails_is_quoted() -> None:
    with refused(
        ErrorId.PROGRAM_FAILED,
        LabError,
        naming=("mount --no-such-option failed:", "option"),
    ):
        programs.run("mount", "--no-such-option")


def test_remove_dead_kills_the_processes_that_were_noted(root: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    entry, lock = state.create("dead")
    entry.note(processes=[Process.of(child.pid)])
    os.close(lock)
    state.remove_dead()
    assert child.wait() == -9
    assert child.stdin is not None
    child.stdin.close()


def test_a_zombie_is_no_process() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert Process.of(child.pid) is None
    child.wait()


# The kernel takes a while to free so much memory, and until then the process runs.
_LARGE = """
import os, signal
content = b"x" * (1 << 28)
print(os.getpid(), flush=True)
signal.pause()
"""


def test_a_killed_group_has_no_process_left_that_runs() -> None:
    shell = '"$0" -c "$1" & wait'
    with subprocess.Popen(
        ["sh", "-c", shell, sys.executable, _LARGE],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as leader:
        assert leader.stdout is not None
        inner = os.pidfd_open(int(leader.stdout.readline()))
        kill_group(leader.pid)
        ended, _, _ = select.select([inner], [], [], 0)
        os.close(inner)
        assert leader.wait() == -9
    assert ended


def test_folders_that_a_server_nested_too_deep_stay_known(
    root: Path, tmp_path: Path
) -> None:
    entry, lock = state.create("deep")
    os.close(lock)
    folder = tmp_path / "deep"
    entry.note(folder=str(folder))
    nest = 'import os\nfor _ in range(2000):\n os.mkdir("d")\n os.chdir("d")'
    folder.mkdir()
    subprocess.run([sys.executable, "-c", nest], cwd=folder, check=True)
    with refused(ErrorId.LAB_NOT_REMOVED, LabError, naming=(str(folder), "lab deep")):
        state.remove_dead()
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    assert state.remove_dead() == ["deep"]


def test_what_cannot_be_removed_stays_known(root: Path, tmp_path: Path) -> None:
    """A daemon leaves its entry, from which `lab down` removes the rest."""
    entry, lock = state.create("stuck")
    folder = tmp_path / "stuck"
    folder.write_text("no folder, so it cannot be emptied")
    entry.note(folder=str(folder))
    with pytest.raises(NotADirectoryError, match=str(folder)):
        run_daemon(entry, lock)
    os.close(lock)
    assert [one.name for one in state.list_labs()] == ["stuck"]
    with refused(ErrorId.LAB_NOT_REMOVED, LabError, naming=(str(folder), "lab stuck")):
        state.remove_dead()
    folder.unlink()
    assert state.remove_dead() == ["stuck"]
    assert state.list_labs() == []
