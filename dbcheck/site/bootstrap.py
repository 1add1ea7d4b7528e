"""Forms a group again whose nodes do not do so by themselves once all were cut."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from dbcheck.core.replication import Received, most_advanced
from dbcheck.errors import EngineError
from dbcheck.ports.abilities import Bootstraps, may_bootstrap
from dbcheck.ports.site import Node
from dbcheck.site.cluster import replicating

JOIN_EVERY_S = 10.0  # a node that was refused is asked again so much later


class Bootstrap:
    """Has the node form the group that has all that any other has, and the others join.

    Only once every node answers and none is a member of a group: a second group would
    take writes beside the first.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        """nodes: all of the group, by their names."""
        self._nodes = nodes
        self._received: dict[str, Received] = {}
        self._next_try_s: dict[str, float] = {}
        self._why_absent: dict[str, str] = {}

    def step(self) -> str:
        """Do what is due now; return what the group still lacks, "" if all joined.

        It blocks while the server is asked to form the group or to join it.
        """
        found, before = {}, self._received
        for name, node in self._nodes.items():
            try:
                found[name] = replicating(node).received()
            except EngineError as error:
                return f"{name} does not answer yet: {error}"
        self._received = found
        absent = [name for name, one in found.items() if not one.members]
        if len(absent) < len(found):
            return self._join(absent)
        if found != before:
            return "waiting until no node comes any further"
        return self._form()

    def _form(self) -> str:
        name = most_advanced(self._received)
        if name is None:
            return "no node reports how much it has received"
        try:
            others = {n: _able(node).transactions() for n, node in self._nodes.items()}
            del others[name]
            _able(self._nodes[name]).bootstrap_group(others)
        except EngineError as error:
            return f"{name} did not form the group again: {error.with_hint}"
        return f"{name}, which has most transactions, has formed the group again"

    def _join(self, names: Sequence[str]) -> str:
        """Ask one of these to join; return why one of them is no member yet, or ""."""
        now_s = time.monotonic()
        due = [name for name in names if self._next_try_s.get(name, 0.0) <= now_s]
        if not due:
            return self._why_absent[names[0]] if names else ""
        name = due[0]
        try:
            _able(self._nodes[name]).join_group()
        except EngineError as error:
            why = f"{name} did not join the group: {error.with_hint}"
        else:
            why = (
                f"{name} joined the group and left it: its error log says why"
                " (transactions that the group lacks, or data that no member's binary"
                " log has any more)"
            )
        self._why_absent[name] = why
        self._next_try_s[name] = time.monotonic() + JOIN_EVERY_S
        return f"{name} was asked to join the group"


def _able(node: Node) -> Bootstraps:
    engine = node.engine
    assert may_bootstrap(engine)  # those of the family that such groups are of can
    return engine
