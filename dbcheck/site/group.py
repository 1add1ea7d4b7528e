"""A group whose nodes decide by majority who takes writes: Galera.

No node is promoted: once the writer is gone, the others go on without it.  What is read
is a node of the majority that has all that the others have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dbcheck.core.promise import Promise
from dbcheck.core.replication import PromotedBy, Promotion, Received
from dbcheck.core.site import SiteKind
from dbcheck.errors import EngineError
from dbcheck.ports.site import Node
from dbcheck.site.cluster import Cluster, replicating


class Group(Cluster):
    """See ports.site.Site.

    As long as a node still counts the writer among its members it may lack what the
    writer sent last: Galera delivers a transaction once it knows that all members have
    it, and only without the writer do the others agree on what that was.  So such a
    node is not read.  After a cut of all nodes, one alone may be behind another that is
    still off: the writer is read once all are members again.
    """

    def __init__(
        self,
        kind: SiteKind,
        nodes: Mapping[str, Node],
        writer_name: str,
        promise: Promise,
    ) -> None:
        """Raise UsageError unless these nodes can be a group, and be cut as one."""
        kind.require_promise(promise, len(nodes))
        super().__init__(kind, nodes, writer_name, promise, by=PromotedBy.AUTO)

    def with_writer(self, node: Node) -> Group:
        nodes = {**self._nodes, self.writer_name: node}
        return Group(self.kind, nodes, self.writer_name, self.promise)

    def ready(self) -> str | None:
        if self.promise.cuts_all:
            return self._all_back()
        off = self._look()
        found = self._without_writer()
        if off.is_back or found or not self._old:
            self._old.append(replace(off, taken_over=bool(found)))
        if found:
            self.reader_name, self._promoted = found, True
            return None
        if off.is_back:
            return f"the old writer {self.writer_name} still answers or has power"
        return (
            f"the other nodes have not yet gone on without {self.writer_name} as a"
            " majority that takes writes"
        )

    def failure(self) -> str | None:
        if not self.promise.cuts_all:
            return super().failure()
        found = ((name, node.power.failure()) for name, node in self._nodes.items())
        return next((f"{name}: {why}" for name, why in found if why), None)

    def promotion(self) -> Promotion | None:
        if not self.promise.cuts_all:
            return super().promotion()
        found = Promotion(self._by, dict(self._received))
        return self._with_descent(found)

    def _all_back(self) -> str | None:
        for name in self._nodes:
            received, why = self._asked_for(name)
            if received is None:
                return f"{name} is not a member of the majority yet{why}"
            if len(received.members) != len(self._nodes):
                seen = len(received.members)
                return f"{name} sees {seen} members, not {len(self._nodes)}"
            if received.position != received.applied:
                return f"{name} applies what it has received"
        return None

    def _without_writer(self) -> str:
        """Return which node to read now that the writer is no member, "" if none."""
        for name in self._nodes:
            if name == self.writer_name:
                continue
            received, _ = self._asked_for(name)
            if received is None or received.position != received.applied:
                continue
            if 0 < len(received.members) < len(self._nodes):
                return name
        return ""

    def _asked_for(self, name: str) -> tuple[Received | None, str]:
        """Note how far a node is; return that, or None and why it does not say."""
        try:
            received = replicating(self._nodes[name]).received()
        except EngineError as error:
            return None, f": {error}"
        if not received.connected:
            return None, ""
        self._received[name] = received
        return received, ""
