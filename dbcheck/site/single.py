"""One server: it takes the load, loses its power, and is read when it is back.

It is the only node, so nothing is promoted, kept off or rejoined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from dbcheck.model.cluster import ONLY_NODE, Promise, SiteKind
from dbcheck.model.cut import Cut, PowerState
from dbcheck.ports.power import Preparing
from dbcheck.ports.site import Node


@dataclass(frozen=True, slots=True)
class SingleServer:
    """A ports.site.Site of one node."""

    writer: Node
    kind = SiteKind.SINGLE
    promise = None
    stagger_s = 0.0
    brings_back = rejoins = False  # there is no other node
    rebuilt = True
    kept_off: ClassVar[frozenset[str]] = frozenset()
    writer_name = reader_name = ONLY_NODE

    @property
    def nodes(self) -> Mapping[str, Node]:
        return MappingProxyType({ONLY_NODE: self.writer})

    @property
    def reader(self) -> Node:
        return self.writer

    def with_writer(self, node: Node) -> SingleServer:
        return SingleServer(node)

    def led_by(self, _name: str) -> SingleServer:
        return self

    def promising(self, _promise: Promise) -> SingleServer:
        return self

    @property
    def attended(self) -> bool:
        return self.writer.power.attended

    def prepare(self, seed: int) -> None:
        """Prepare the switch; *seed* draws nothing, as there is one cut alone."""
        if isinstance(self.writer.power, Preparing):
            self.writer.power.prepare()

    def cut(self) -> Mapping[str, Cut]:
        return {ONLY_NODE: self.writer.power.cut()}

    def state(self) -> PowerState:
        return self.writer.power.state()

    def restore(self) -> Mapping[str, float | None]:
        """Restore the power; return the seconds without it, None if not measured."""
        return {ONLY_NODE: self.writer.power.restore()}

    def ready(self) -> str | None:
        """Return the reason why the server takes no queries yet, None if it does."""
        return self.writer.engine.ready()

    def failure(self) -> str | None:
        """Return the reason why the server will never come back, None if it may."""
        return self.writer.power.failure()

    def promotion(self) -> None:
        return None

    def bring_back(self) -> Mapping[str, float | None]:
        return {}

    def rejoin(self) -> Mapping[str, str]:
        return {}

    def rebuild(self, _name: str) -> None:
        """Do nothing: there is no other node."""
