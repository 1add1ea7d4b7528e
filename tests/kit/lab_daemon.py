"""The daemon of a lab in the test's own process."""

from __future__ import annotations

import os
import signal

import pytest

from dbcheck.lab.daemon import serve
from dbcheck.lab.state import LabRecord


def run_daemon(entry: LabRecord, lock: int) -> None:
    """Build the lab, serve it and end it; this process stays as it is."""
    here, mask = os.getcwd(), os.umask(0o022)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "signal", lambda *_: None)
        try:
            serve._run_lab(entry, lock, -1, -1, isolated=False)
        finally:
            os.chdir(here)
            os.umask(mask)
