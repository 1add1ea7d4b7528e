"""A cluster: one node takes the load, others follow it, and one of them may take over.

What loses its power, and what is read afterwards, follows from the promise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType

from dbcheck.core.cut import Cut, PowerState
from dbcheck.core.promise import Promise
from dbcheck.core.replication import (
    PromotedBy,
    Promotion,
    Received,
    WriterOff,
    most_advanced,
)
from dbcheck.core.site import SiteKind
from dbcheck.errors import EngineError, UsageError
from dbcheck.ports.abilities import Replicates, replicates
from dbcheck.ports.power import Preparing
from dbcheck.ports.site import Node

SETTLED_S = 1.0  # a standby that comes no further for so long has applied all it has

Promote = Callable[[str, Node], None]  # of the node of that name; raises EngineError


class Cluster:
    """See ports.site.Site.

    Where the writer is not to come back, the standby that has received most takes over,
    once none of those that have power comes any further.  The old writer is looked at
    before that, after it, and when the rows were read.
    """

    def __init__(
        self,
        kind: SiteKind,
        nodes: Mapping[str, Node],
        writer_name: str,
        promise: Promise,
        *,
        by: PromotedBy = PromotedBy.SQL,
        promote: Promote | None = None,
        brings_back: bool = False,
    ) -> None:
        """promote: by COMMAND, what promotes a node.  brings_back: see Site.

        Raise UsageError unless each node can be one of a cluster.
        """
        for name, node in nodes.items():
            if not replicates(node.engine):
                raise UsageError(
                    f"node {name} cannot be one of a cluster: dbcheck does not know how"
                    f" {node.engine.family} servers follow one another"
                )
        self.kind, self.promise, self.brings_back = kind, promise, brings_back
        self._nodes = dict(nodes)
        self.writer_name = self.reader_name = writer_name
        self._by, self._promote = by, promote or _by_sql
        self._received: dict[str, Received] = {}
        self._since_s = 0.0
        self._asked = self._promoted = False
        self._old: list[WriterOff] = []

    @property
    def nodes(self) -> Mapping[str, Node]:
        return MappingProxyType(self._nodes)

    @property
    def writer(self) -> Node:
        return self._nodes[self.writer_name]

    @property
    def reader(self) -> Node:
        return self._nodes[self.reader_name]

    def with_writer(self, node: Node) -> Cluster:
        nodes = {**self._nodes, self.writer_name: node}
        return Cluster(
            self.kind,
            nodes,
            self.writer_name,
            self.promise,
            by=self._by,
            promote=self._promote,
            brings_back=self.brings_back,
        )

    @property
    def away(self) -> frozenset[str]:
        gone = not self.promise.writer_returns
        return frozenset({self.writer_name} if gone else ())

    @property
    def attended(self) -> bool:
        return any(node.power.attended for node in self._cut_nodes().values())

    def prepare(self) -> None:
        for node in self._cut_nodes().values():
            if isinstance(node.power, Preparing):
                node.power.prepare()

    def cut(self) -> Mapping[str, Cut]:
        """Cut them at the same moment, as far as their switches allow."""
        nodes = self._cut_nodes()
        with ThreadPoolExecutor(len(nodes)) as pool:
            asked = {name: pool.submit(node.power.cut) for name, node in nodes.items()}
        return {name: cut.result() for name, cut in asked.items()}

    def state(self) -> PowerState:
        states = {node.power.state() for node in self._cut_nodes().values()}
        for state in (PowerState.OFF, PowerState.UNKNOWN):
            if state in states:
                return state
        return PowerState.ON

    def restore(self) -> Mapping[str, float | None]:
        names = self.promise.returning(self._nodes, self.writer_name)
        return {name: self._nodes[name].power.restore() for name in names}

    def bring_back(self) -> Mapping[str, float | None]:
        return {name: self._nodes[name].power.restore() for name in self.away}

    def failure(self) -> str | None:
        return self.reader.power.failure()

    def ready(self) -> str | None:
        if self.promise.writer_returns or self._promoted:
            return self.reader.engine.ready()
        off = self._look()
        if not self._old:
            self._old.append(off)
        if taken := self._taken_over():
            self.reader_name, self._promoted = taken, True
            return None
        if off.is_back:
            return f"the writer {self.writer_name} is not off: no other may take over"
        if self._by is PromotedBy.AUTO:
            return "no standby has taken over yet"
        return self._coming() or self._have_promoted()

    def promotion(self) -> Promotion | None:
        if self.promise.writer_returns:
            return None
        self._old.append(self._look())
        found = Promotion(self._by, dict(self._received), None, tuple(self._old))
        if not self._promoted:
            return found
        engine = _replicating(self.reader)
        try:
            return replace(found, branch=engine.branch())
        except EngineError:
            return found

    def _cut_nodes(self) -> dict[str, Node]:
        names = self.promise.cut(self._nodes, self.writer_name)
        return {name: self._nodes[name] for name in names}

    def _look(self) -> WriterOff:
        """Look at the old writer now."""
        answers = self.writer.engine.ready() is None
        return WriterOff(self.writer.power.state(), answers)

    def _taken_over(self) -> str:
        """Return which standby takes writes by now, "" if none does.

        Something else promoted it, or a client that was lost.
        """
        standbys = (name for name in self._nodes if name != self.writer_name)
        ready = (n for n in standbys if self._nodes[n].engine.ready() is None)
        return next(ready, "")

    def _have_promoted(self) -> str:
        """Have the most advanced standby promoted, once; return what it waits for."""
        name = most_advanced(self._received)
        if name is None:
            return "no standby shows how far it has come"
        if not self._asked:
            try:
                self._promote(name, self._nodes[name])
            except EngineError as error:
                return str(error)
            self._asked = True
        return f"{name} was asked to take over, and is still in recovery"

    def _coming(self) -> str:
        """Return which standby still receives or applies, "" once all have settled."""
        found: dict[str, Received] = {}
        for name, node in self._nodes.items():
            if name == self.writer_name:
                continue
            try:
                found[name] = _replicating(node).received()
            except EngineError as error:
                return f"{name} does not answer: {error}"
        if any(one.applied is None for one in found.values()):
            return "a standby does not show what it has applied"
        if found != self._received:
            self._received, self._since_s = found, time.monotonic()
        if time.monotonic() - self._since_s < SETTLED_S:
            return "the standbys apply what they have received"
        return ""


def _replicating(node: Node) -> Replicates:
    engine = node.engine
    assert replicates(engine)  # as the constructor requires
    return engine


def _by_sql(_name: str, node: Node) -> None:
    _replicating(node).promote()
