"""A group whose nodes decide by majority who takes writes.

dbcheck promotes none: once the writer is gone, the others go on without it.  What is
read is a node of the majority that has all that the others have.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence

from dbcheck.core.promise import Promise
from dbcheck.core.replication import PromotedBy, Promotion, Received, most_advanced
from dbcheck.core.site import SiteKind
from dbcheck.errors import EngineError
from dbcheck.ports.abilities import Grouped, may_be_grouped
from dbcheck.ports.site import Node
from dbcheck.site.cluster import Cluster, replicating

JOIN_EVERY_S = 10.0  # a node that was refused is asked again; each try takes seconds


class Group(Cluster):
    """See ports.site.Site.

    As long as a node still counts the writer among its members it may lack what the
    writer sent last: Galera delivers a transaction once it knows that all members have
    it, and only without the writer do the others agree on what that was.  So such a
    node is not read.  One that shows the new view has applied all that came before it
    (Galera 26.4, galera/src/replicator_smm.cpp, process_prim_conf_change()); its queue
    alone does not show that, as it lacks what is being applied.  A member of Group
    Replication has received all of it by then, and shows what it has not applied (see
    engines.mysql.group_replication).

    After a cut of all nodes, one alone may be behind another that is still off: the
    writer is read once all are members again.  A group that does not form by itself is
    begun from the node that has all that any other has, once all of them answer and
    none has joined one.
    """

    def __init__(
        self,
        kind: SiteKind,
        nodes: Mapping[str, Node],
        writer_name: str,
        promise: Promise,
        *,
        begins: bool = False,
    ) -> None:
        """begins: dbcheck has the group begin again if it does not do so by itself.

        Raise UsageError unless these nodes can be a group, and be cut as one.
        """
        kind.require_promise(promise, len(nodes))
        super().__init__(kind, nodes, writer_name, promise, by=PromotedBy.AUTO)
        self._writer_member = ""
        self._again_s: dict[str, float] = {}  # when a node is asked to join again
        self._absent: dict[str, str] = {}  # why it is no member
        self._begins = begins and not kind.forms_by_itself

    def with_writer(self, node: Node) -> Group:
        nodes = {**self._nodes, self.writer_name: node}
        return Group(
            self.kind, nodes, self.writer_name, self.promise, begins=self._begins
        )

    def prepare(self) -> None:
        with contextlib.suppress(EngineError):
            member = replicating(self.writer).membership()
            self._writer_member = member.name if member else ""
        super().prepare()

    def ready(self) -> str | None:
        if self.promise.cuts_all:
            why = self._all_back()
            return self._form() or why if why and self._begins else why
        off = self._look()
        if self._note(off, self._without_writer()):
            return None
        if off.is_back:
            return f"the old writer {self.writer_name} still answers or has power"
        return (
            f"the other nodes still count {self.writer_name} as a member, or are no"
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
                return f"{name} has not joined the majority yet{why}"
            if len(received.members) != len(self._nodes):
                seen = len(received.members)
                return f"{name} sees {seen} members, not {len(self._nodes)}"
            if received.position != received.applied:
                return f"{name} still applies what it has received"
        return None

    def _form(self) -> str:
        """Take a step to form the group again; return what is missing, or ""."""
        found, since = {}, self._received
        for name, node in self._nodes.items():
            try:
                found[name] = replicating(node).received()
            except EngineError as error:
                return f"{name} does not answer yet: {error}"
        self._received = found
        if joined := [name for name, one in found.items() if one.members]:
            return self._join([name for name in self._nodes if name not in joined])
        if found != since:
            return "waiting until no node comes any further"
        return self._begin()

    def _begin(self) -> str:
        name = most_advanced(self._received)
        if name is None:
            return "no node reports how much it has received"
        try:
            others = {n: _grouped(one).history() for n, one in self._nodes.items()}
            del others[name]
            _grouped(self._nodes[name]).begin_group(others)
        except EngineError as error:
            return f"{name} does not begin the group again: {error.with_hint}"
        return f"{name}, which has most, has begun the group again"

    def _join(self, names: Sequence[str]) -> str:
        """Have these join; return why the first of them is no member yet, or ""."""
        for name in names:
            if time.monotonic() < self._again_s.get(name, 0.0):
                continue
            self._again_s[name] = time.monotonic() + JOIN_EVERY_S
            self._absent[name] = f"{name} joined the group and left it; see its log"
            try:
                _grouped(self._nodes[name]).join_group()
            except EngineError as error:
                why = f"{name} does not join the group: {error.with_hint}"
                self._absent[name] = why
        return self._absent[names[0]] if names else ""

    def _without_writer(self) -> str:
        """Return the name of a node that can be read, without the writer in its view.

        "" as long as there is none.
        """
        for name in self._nodes:
            if name == self.writer_name:
                continue
            received, _ = self._asked_for(name)
            if received is None or received.position != received.applied:
                continue
            if not received.members or self._counts_writer(received.members):
                continue
            if replicating(self._nodes[name]).takes_writes():
                return name
        return ""

    def _counts_writer(self, members: Sequence[str]) -> bool:
        """Whether the writer is one of them.

        Where its name was not read before the cut, as in a later reconciliation, it
        counts as one of them as long as all nodes are.
        """
        if self._writer_member:
            return self._writer_member in members
        return len(members) >= len(self._nodes)

    def _asked_for(self, name: str) -> tuple[Received | None, str]:
        """Ask a node how far it is, and note it.

        Return that, or None and the error, "" if it answered that it has not joined.
        """
        try:
            received = replicating(self._nodes[name]).received()
        except EngineError as error:
            return None, f": {error}"
        if not received.connected:
            return None, ""
        self._received[name] = received
        return received, ""


def _grouped(node: Node) -> Grouped:
    engine = node.engine
    assert may_be_grouped(engine)  # those of the families that groups are of can be
    return engine
