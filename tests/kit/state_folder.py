"""A state folder of labs that is a test's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own, found as an ordinary user finds it."""
    tmp_path.chmod(0o700)
    if os.getuid() == 0:
        os.chown(tmp_path, 100_000 + os.getpid(), -1)  # an account that nobody has
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = tmp_path / "dbcheck"
    folder.mkdir(mode=0o700)
    os.chown(folder, tmp_path.stat().st_uid, -1)
    return folder
