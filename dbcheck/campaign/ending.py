"""Did the server end itself while its rows were read?

MySQL does, at a page that its recovery left damaged (buf0buf.cc: "Aborting because of
a corrupt database page").  The client sees a lost connection, which proves nothing; the
server's own log, from the moment at which the reading began, does: it names the damage
and the crash, or the start after it.
"""

from __future__ import annotations

import contextlib
import time

from dbcheck import interrupt
from dbcheck.campaign.rig import Rig
from dbcheck.core.startlog import damage_that_ended
from dbcheck.core.target import LogMarks
from dbcheck.errors import EngineError, HostError
from dbcheck.ports import ServerFacts
from dbcheck.runs import Manifest

LOOK_S = 10.0  # a server that dumps a page and a stack trace takes a second
POLL_S = 0.2


class Ending:
    """Notes where the server's log ends before the rows are read, and looks there."""

    def __init__(self, rig: Rig, manifest: Manifest, facts: ServerFacts) -> None:
        """Note where the log ends, if the run has one; never raises."""
        self._rig, self._since_us = rig, facts.clock_us
        self._path = manifest.host.log_path if manifest.host and rig.host else ""
        self._marks: LogMarks | None = None
        if rig.host is not None and self._path:
            with contextlib.suppress(HostError):
                self._marks = rig.host.mark_log(self._path)

    def why(self) -> str:
        """Return why the server ended itself, "" if nothing tells that it did.

        Raise PowerError if what failed was the rig and not the server.
        """
        ends_s = time.monotonic() + LOOK_S
        while True:
            interrupt.require_none()
            if failure := self._rig.power.failure():
                return failure
            if lines := damage_that_ended(self._logged()):
                return "; ".join(lines)
            if time.monotonic() >= ends_s:
                return ""
            time.sleep(POLL_S)

    def _logged(self) -> str:
        """Return what the server logged since the reading began, as far as known."""
        with contextlib.suppress(HostError):
            if self._rig.host is not None and self._marks is not None:
                return self._rig.host.read_log(self._path, self._marks).text
        with contextlib.suppress(EngineError):  # it may be down
            return self._rig.engine.logged(self._since_us) or ""
        return ""
