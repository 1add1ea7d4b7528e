"""Reads the other nodes of a group, once the rows that decide were read and stored."""

from __future__ import annotations

import time
from functools import partial

from dbcheck import interrupt
from dbcheck.campaign.comparing import Comparison, compare_stored
from dbcheck.campaign.rig import Rig
from dbcheck.campaign.survivors import Survivors
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError, TableLost
from dbcheck.model.records import AfterRecord, Manifest
from dbcheck.model.replication import Received
from dbcheck.ports.abilities import replicates
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Node, Site
from dbcheck.rows.differences import OtherNode
from dbcheck.runs import RunFolder

APPLIED_S, POLL_S = 30.0, 0.1
UNCOMPARED = OtherNode(not_done="the client ended before it was compared")


def comparable(site: Site, after: AfterRecord) -> list[str]:
    """Return the names of the nodes that are to have the rows of the one that was read.

    [] unless it is of a group.
    """
    if not site.kind.is_group or after.facts is None or after.failure:
        return []
    if after.promotion is None or after.reader_name not in after.promotion.received:
        return []
    return [n for n in site.nodes if n not in site.away and n != after.reader_name]


def read_others(
    rig: Rig, run: RunFolder, manifest: Manifest, after: AfterRecord, names: list[str]
) -> dict[str, OtherNode]:
    """Return how the rows of each of these nodes compare.

    after: what was read, and is stored.  names: see comparable().  Only rows of this
    run count: others may have differed before it.
    """
    assert after.promotion is not None
    rig.listener.phase(Phase.READ, f"the same rows of {', '.join(names)}, to compare")
    if after.left_over:
        why = "prepared transactions were decided after the first reading"
        return {name: OtherNode(not_done=why) for name in names}
    read = after.promotion.received[after.reader_name]
    others = _Others(rig, run, manifest, read)
    return {name: others.compared(name) for name in names}


class _Others:
    """read: how far the node was whose rows were read, and who was in its view."""

    def __init__(
        self, rig: Rig, run: RunFolder, manifest: Manifest, read: Received
    ) -> None:
        self._rig, self._run, self._manifest, self._read = rig, run, manifest, read

    def compared(self, name: str) -> OtherNode:
        """Read the node *name*, once it has applied all, and compare."""
        node, found = self._rig.site.nodes[name], Comparison(self._run.path)
        try:
            self._await_all(node, self._manifest.nodes[name].member)
            facts = node.engine.facts()
            survivors = Survivors(self._rig, self._run, self._manifest, facts, node)
            for table in self._manifest.plan().tables:
                compare_stored(
                    found, table, self._run, partial(survivors.inspected, table)
                )
        except TableLost as error:
            return OtherNode(failure=str(error))
        except EngineError as error:
            return OtherNode(not_done=str(error))
        failure = survivors.index.reason if survivors.index else ""
        return OtherNode(found.rows, found.count, tuple(found.changed), failure)

    def _await_all(self, node: Node, member: str) -> None:
        """Return once the node has applied what the one that was read had.

        member: by which the group lists it.  Raise EngineError if it does not in time,
        or is another server.
        """
        engine, target = node.engine, node.engine.target
        ends_s = time.monotonic() + APPLIED_S
        assert replicates(engine)  # as every node of a group
        while True:
            interrupt.require_none()
            membership, received = engine.membership(), engine.received()
            if membership is not None and membership.name != member:
                raise EngineError(
                    f"{target} is {membership.name}, not {member}",
                    id=ErrorId.NODE_IS_OTHER_SERVER,
                )
            if membership is not None and self._has_all(received):
                return
            if time.monotonic() >= ends_s:
                raise EngineError(
                    f"it did not apply all within {APPLIED_S:.0f} s,"
                    " or is not a member",
                    id=ErrorId.NODE_DID_NOT_APPLY,
                )
            time.sleep(POLL_S)

    def _has_all(self, received: Received) -> bool:
        read, applied = self._read, received.applied
        if applied is None or read.applied is None or applied < read.applied:
            return False
        whole = received.connected and received.members == read.members
        return whole and received.position == applied
