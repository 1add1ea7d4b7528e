"""Who follows the writer of a cluster: before the load, and all through it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from dbcheck.campaign.rig import Rig
from dbcheck.clock import now_us
from dbcheck.core.promised import contradiction
from dbcheck.core.records import NodeBefore
from dbcheck.core.replication import ReplicationSeen, ReplicationTally
from dbcheck.core.server import ServerFacts
from dbcheck.errors import EngineError
from dbcheck.ports.abilities import Followers, replicates
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Site

log = logging.getLogger(__name__)

SAMPLE_S = 0.04
_END_S = 3.0


class Following:
    """Asks the writer who follows it, in a thread of its own, as long as it answers."""

    def __init__(self, followers: Followers) -> None:
        """Take over *followers*, and ask once; raise EngineError."""
        self._followers = followers
        self._tally, self._ended = ReplicationTally(), ""
        self._ending = threading.Event()
        self._tally.add(now_us(), followers.read())
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)
        self._thread.start()

    def seen(self) -> ReplicationSeen | None:
        """Return what the writer showed, once it is asked no more."""
        return self._tally.seen(self._ended)

    def end(self) -> None:
        """Ask no more; never raises.  Idempotent."""
        self._ending.set()
        self._followers.sever()
        self._thread.join(_END_S)

    def _run(self) -> None:
        try:
            while not self._ending.wait(SAMPLE_S):
                # Taken before the question: what is seen is no older than that.
                asked_us = now_us()
                self._tally.add(asked_us, self._followers.read())
        except EngineError as error:
            log.debug("the writer is asked no more: %s", error)
            self._ended = "" if self._ending.is_set() else str(error)
        finally:
            self._followers.close()


def begin_following(rig: Rig, server: ServerFacts) -> Following | None:
    """Ask the writer of a cluster who follows it from now on; None of a single server.

    server: the writer's facts.  Raise EngineError.
    """
    engine = rig.site.writer.engine
    if rig.site.promise is None or not replicates(engine):
        return None
    return Following(engine.open_followers(server=server))


def member_of(
    site: Site, name: str, facts: ServerFacts, known: Mapping[str, NodeBefore]
) -> str:
    """Return by which name the writer lists the node *name*, "" of the writer itself.

    facts: of the node.  known: the nodes that were described before it.  Raise
    EngineError unless a node that is to follow does, and is of the same cluster.
    """
    engine = site.nodes[name].engine
    if site.promise is None or name == site.writer_name or not replicates(engine):
        return ""
    member = engine.member()
    if not member:
        raise EngineError(
            f"node {name} ({site.nodes[name].engine.target}) follows no other server",
            hint="Check its primary_conninfo and its log, or remove it from the"
            " topology.",
        )
    writer = known.get(site.writer_name)
    before = writer.facts if writer else site.writer.engine.facts()
    ours = before.identity.get("system_identifier")
    theirs = facts.identity.get("system_identifier")
    if ours != theirs:
        raise EngineError(
            f"node {name} is of another cluster: its system_identifier is {theirs}, and"
            f" the writer's is {ours}",
            hint="Name the standbys of this writer in the topology.",
        )
    return member


def require_promise(rig: Rig, nodes: Mapping[str, NodeBefore]) -> None:
    """Show what contradicts the promise, before anything is cut.

    Raise EngineError if two nodes go by one name, so that they cannot be told apart.
    """
    site = rig.site
    if site.promise is None:
        return
    members = [node.member for node in nodes.values() if node.member]
    if len(set(members)) < len(members):
        raise EngineError(
            f"several standbys go by one name: {', '.join(sorted(members))}",
            hint="Give each an application_name of its own in primary_conninfo.",
        )
    settings = nodes[site.writer_name].facts.settings
    if why := contradiction(site.promise, settings):
        text = f"against the promise {site.promise.value}: {why}"
        rig.listener.phase(Phase.PREFLIGHT, text)
