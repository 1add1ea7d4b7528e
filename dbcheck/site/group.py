"""A group whose nodes decide by majority who takes writes.

dbcheck promotes none: once the writer is gone, the others go on without it.  What is
read is a node of the majority that has all that the others have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from dbcheck.base.errors import EngineError
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.replication import PromotedBy, Promotion, Received
from dbcheck.ports.site import Node
from dbcheck.site.bootstrap import Bootstrap
from dbcheck.site.cluster import Cluster


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
    writer is read once all are members again.  See also site.bootstrap.
    """

    def __init__(
        self,
        kind: SiteKind,
        nodes: Mapping[str, Node],
        writer_name: str,
        promise: Promise,
        *,
        bootstrap: bool = False,
        stagger_s: float = 0.0,
    ) -> None:
        """bootstrap: dbcheck forms the group again if it does not do so by itself.

        stagger_s: see Site.
        Raise UsageError unless these nodes can be a group, and be cut as one.
        """
        kind.require_promise(promise, len(nodes))
        super().__init__(
            *(kind, nodes, writer_name, promise),
            by=PromotedBy.AUTO,
            stagger_s=stagger_s,
        )
        self._writer_member = ""
        due = bootstrap and promise.cuts_all and not kind.forms_by_itself
        self._bootstrap = Bootstrap(self._nodes) if due else None

    def with_writer(self, node: Node) -> Group:
        nodes = {**self._nodes, self.writer_name: node}
        return Group(
            *(self.kind, nodes, self.writer_name, self.promise),
            bootstrap=self._bootstrap is not None,
            stagger_s=self.stagger_s,
        )

    def prepare(self, seed: int) -> None:
        with contextlib.suppress(EngineError):
            member = self.writer.engine.membership()
            self._writer_member = member.name if member else ""
        if self._bootstrap:
            self._bootstrap.prepare()
        super().prepare(seed)

    def ready(self) -> str | None:
        if self.promise.cuts_all:
            if self._bootstrap and (why := self._bootstrap.unfinished()):
                return why
            missing = self._missing()
            if missing is None or self._bootstrap is None:
                return missing
            return self._bootstrap.step() or missing
        off = self._look()
        name, why = self._without_writer()
        if self._note(off, name):
            return None
        if off.is_back:
            return f"the old writer {self.writer_name} still answers or has power"
        return why

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

    def _missing(self) -> str | None:
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

    def _without_writer(self) -> tuple[str, str]:
        """Return the name of a node that can be read, without the writer in its view.

        As long as there is none, "" and why the last one is not read.
        """
        why = ""
        for name in self._nodes:
            if name == self.writer_name:
                continue
            if not (why := self._unfit(name)):
                return name, ""
        return "", why

    def _unfit(self, name: str) -> str:
        """Return why another node than the writer cannot be read yet, "" if it can."""
        received, error = self._asked_for(name)
        if received is None:
            return f"{name} is not among a majority{error}"
        if not received.members or self._counts_writer(received.members):
            return f"{name} still counts {self.writer_name} as a member"
        if received.position != received.applied:
            return f"{name} still applies what it has received"
        if not self._nodes[name].engine.takes_writes():
            return f"{name} takes no writes"
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
            received = self._nodes[name].engine.received()
        except EngineError as error:
            return None, f": {error}"
        if not received.connected:
            return None, ""
        self._received[name] = received
        return received, ""
