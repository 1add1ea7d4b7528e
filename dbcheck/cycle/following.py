"""Watches during the load which nodes follow the writer of a cluster."""

from __future__ import annotations

import logging
import threading

from dbcheck.base.errors import EngineError
from dbcheck.base.system import now_us
from dbcheck.cycle.rig import Rig
from dbcheck.model.replication import ReplicationSeen, ReplicationTally
from dbcheck.model.server import ServerFacts
from dbcheck.ports.connection import Followers

log = logging.getLogger(__name__)

SAMPLE_S = 0.04
_END_S = 3.0
_AGAIN_S = 0.5  # of one wait for a sample; an interrupt is seen after it


class Following:
    """Asks the writer who follows it, in a thread of its own, as long as it answers."""

    def __init__(self, followers: Followers) -> None:
        """Take over *followers*, and ask once; raise EngineError."""
        self._followers = followers
        self._tally, self._ended = ReplicationTally(), ""
        self._ending = threading.Event()
        self._answered = threading.Condition()
        self._asked_us = 0
        self._ask()
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)
        self._thread.start()

    def seen(self) -> ReplicationSeen | None:
        """Return what the writer showed, once it is asked no more."""
        return self._tally.seen(self._ended)

    def await_sample(self, asked_us: int) -> bool:
        """Wait a moment for the answer to a question of after *asked_us*.

        Return False if none came, and one may come yet.
        """

        def is_there() -> bool:
            return self._asked_us >= asked_us or not self._thread.is_alive()

        with self._answered:
            return self._answered.wait_for(is_there, _AGAIN_S)

    def end(self) -> None:
        """Ask no more; never raises.  Idempotent."""
        self._ending.set()
        self._followers.sever()
        self._thread.join(_END_S)

    def _ask(self) -> None:
        """Ask once; raise EngineError.

        Dated before the question, so that no sample looks newer than it is.
        """
        asked_us = now_us()
        found = self._followers.read()
        self._tally.add(asked_us, found, now_us())
        with self._answered:
            self._asked_us = asked_us
            self._answered.notify_all()

    def _run(self) -> None:
        try:
            while not self._ending.wait(SAMPLE_S):
                self._ask()
        except EngineError as error:
            log.debug("the writer is asked no more: %s", error)
            self._ended = "" if self._ending.is_set() else str(error)
        finally:
            self._followers.close()


def begin_following(rig: Rig, server: ServerFacts) -> Following | None:
    """Ask the writer of a cluster who follows it from now on; None of a single server.

    server: the writer's facts.  Raise EngineError.
    """
    if rig.site.promise is None:
        return None
    return Following(rig.site.writer.engine.open_followers(server=server))
