"""A folder for the state of labs that a test module has to itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest

from dbcheck.lab import syscalls


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
        yield
