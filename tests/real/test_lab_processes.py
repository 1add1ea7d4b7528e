"""The processes that a lab starts, and those that it left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbcheck.errors import LabError
from dbcheck.lab import programs, state
from dbcheck.lab.process import Process
from tests.kit.state_folder import root as root


def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(LabError, match=r"mount --no-such-option failed: .*option"):
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
