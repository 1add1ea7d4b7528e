"""Ctrl-C while modules are imported and while Python ends: an exit code, no traceback.

The signals come at set moments: sitecustomize, which Python imports before anything
else, sends them from an audit hook (sys.addaudithook, event "import") or a profiler.
Before the first line of dbcheck runs, Python alone decides what a signal does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbcheck.cli import FAILED, PASS

# A shell's background jobs, and so perhaps these tests, ignore SIGINT.
HEEDED = """
import _signal

_signal.signal(_signal.SIGINT, _signal.default_int_handler)
"""
AT_IMPORT = """
import os
import sys

wanted = [int(number) for number in os.environ["AT"].split(",") if number]
seen = 0

def hook(event, args):
    global seen
    if event == "import" and (seen or args[0] == "dbcheck.base.interrupt"):
        seen += 1
        if seen in wanted:
            os.kill(os.getpid(), {signal})
        if not wanted:
            os.write(2, b"import\\n")

sys.addaudithook(hook)
"""
AT_CALL = """
import os
import sys

def profile(frame, event, arg):
    if event == "call" and frame.f_code.co_name == os.environ["AT"]:
        os.kill(os.getpid(), {signal})

sys.setprofile(profile)
"""
AT_TEARDOWN = """
import os

class Last:
    def __del__(self, kill=os.kill, pid=os.getpid()):
        kill(pid, {signal})

os.last = Last()
"""
AT_EXIT = """
import atexit
import os

atexit.register(os.kill, os.getpid(), {signal})
"""
SIGINT, SIGTERM = 2, 15
# All that a cycle needs is imported before that host turns out not to exist.
EVERYTHING = (
    *("run", "--target", "mysql+mysqlconnector://u@127.0.0.1:1/d"),
    *("--witness", "file:acks"),
)


class Interrupted:
    """dbcheck, interrupted by what *script* says."""

    def __init__(self, folder: Path, script: str, signal: int = SIGINT) -> None:
        self.folder = folder
        (folder / "sitecustomize.py").write_text(HEEDED + script.format(signal=signal))

    def run(self, at: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-c", "from dbcheck.cli import main; main()", *words),
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder), "AT": at},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def moments(self, count: int, *words: str) -> list[int]:
        """Return some of the numbers of this command's imports, evenly spread."""
        imports = self.run("", *words).stderr.count("import\n")
        assert imports > 4 * count
        return [1, 2, *(1 + number * imports // count for number in range(1, count))]


def test_an_interrupt_during_any_import_is_exit_4(tmp_path: Path) -> None:
    here = Interrupted(tmp_path, AT_IMPORT)
    for moment in here.moments(6, "--version"):
        done = here.run(str(moment), "--version")
        assert (done.returncode, done.stdout) == (FAILED, ""), (moment, done.stderr)
        assert done.stderr == "dbcheck: interrupted\n", moment


def test_an_interrupt_while_a_verb_imports_is_exit_4(tmp_path: Path) -> None:
    here = Interrupted(tmp_path, AT_IMPORT)
    for moment in here.moments(5, *EVERYTHING):
        done = here.run(str(moment), *EVERYTHING)
        assert done.returncode == FAILED, (moment, done.stderr)
        assert "Traceback" not in done.stderr, moment
        assert "interrupted" in done.stderr, moment


def test_a_second_interrupt_changes_nothing(tmp_path: Path) -> None:
    here = Interrupted(tmp_path, AT_IMPORT)
    for first in (1, 20, 40):
        done = here.run(f"{first},{first + 1}", "--version")
        assert done.returncode == FAILED, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("signal", [SIGINT, SIGTERM])
@pytest.mark.parametrize(
    ("script", "at"),
    [
        pytest.param(AT_CALL, "_exit_code", id="a verb has ended"),
        pytest.param(AT_CALL, "_shutdown", id="threads are waited for"),
        pytest.param(AT_CALL, "_ignore_all", id="functions of atexit begin"),
        pytest.param(AT_EXIT, "", id="functions of atexit end"),
        pytest.param(AT_TEARDOWN, "", id="modules are taken down"),
    ],
)
def test_an_interrupt_at_the_end_is_an_exit_code(
    tmp_path: Path, script: str, at: str, signal: int
) -> None:
    """That of the result where it is known, FAILED else; never that of a signal."""
    done = Interrupted(tmp_path, script, signal).run(at, "--version")
    assert done.returncode in (PASS, FAILED)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if done.returncode == PASS:
        assert done.stdout.startswith("dbcheck, version")
