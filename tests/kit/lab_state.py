"""A folder for the state of labs that a test module has to itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from subprocess import PIPE

import pytest

from dbcheck.lab import syscalls
from tests.kit.waiting import await_end


@pytest.fixture(scope="module", autouse=True)
def own_state(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give the module a state folder of its own: `lab down` ends all labs in one.

    The module must have the fixture own_mounts as well.
    """
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            request.getfixturevalue("own_mounts")
            syscalls.mount("none", "/run", "tmpfs", 0)
        else:
            patch.setenv("XDG_RUNTIME_DIR", folder)
        with labs_end_with_this_process():
            yield


_AFTERWARDS = """
import sys
sys.stdin.read()
from dbcheck.lab import lab
for name in lab.list_persistent_labs():
    lab.down(name)
"""


@contextlib.contextmanager
def labs_end_with_this_process() -> Iterator[None]:
    """End the labs that are up in the state folder, also if this process is killed.

    Nobody else finds them: their records are where only this module looks.
    """
    command = [sys.executable, "-c", _AFTERWARDS]
    with subprocess.Popen(command, stdin=PIPE, start_new_session=True) as ending:
        yield
        assert ending.stdin is not None
        ending.stdin.close()  # as the kernel has it after a kill
        assert await_end(ending, 120) == 0
