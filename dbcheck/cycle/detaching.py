"""Keeps the commits of a cluster's control from the nodes that follow the writer.

Where no setting of a session does that, dbcheck ends the connections of these nodes,
again and again: each of them connects again by itself, and fetches what it lacks.  What
is committed after the last time, just before the cut, reaches none of them.
"""

from __future__ import annotations

import logging
import threading

from dbcheck.base.errors import EngineError
from dbcheck.cycle.rig import Rig
from dbcheck.model.cluster import Weakens
from dbcheck.model.records import Manifest
from dbcheck.ports.connection import Detaching

log = logging.getLogger(__name__)

EVERY_S = 0.05
_END_WAIT_S = 3.0  # how long end() waits for the thread


class DetachingWatch:
    """Ends the connections of the followers, in a thread of its own."""

    def __init__(self, detaching: Detaching) -> None:
        """Take over *detaching*; nothing is ended yet."""
        self._detaching = detaching
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="detaching", daemon=True)

    def begin(self) -> None:
        """Go on until end(), or until the writer is gone."""
        self._thread.start()

    def end(self) -> None:
        """End no more connections; never raises.  Idempotent."""
        self._ending.set()
        self._detaching.sever()
        if self._thread.ident is None:
            self._detaching.close()
        else:
            self._thread.join(_END_WAIT_S)

    def _run(self) -> None:
        try:
            while not self._ending.wait(EVERY_S):
                self._detaching.detach()
        except EngineError as error:  # as when the writer is cut
            log.debug("no connection is ended any more: %s", error)
        finally:
            self._detaching.close()


def begin_detaching(rig: Rig, manifest: Manifest) -> DetachingWatch | None:
    """Connect to the writer for the control of a cluster; raise EngineError.

    None for another cycle, and where the sessions alone keep their commits.
    """
    weakens = Weakens.for_promise(manifest.promise)
    if not manifest.control or weakens is not Weakens.REPLICATION:
        return None
    names = [
        node.member
        for name, node in manifest.nodes.items()
        if name != manifest.writer_name and node.member
    ]
    detaching = rig.site.writer.engine.open_detaching(
        names, server=manifest.writer.facts
    )
    return None if detaching is None else DetachingWatch(detaching)
