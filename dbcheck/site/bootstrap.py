"""Forms a group again whose nodes do not do so by themselves once all were cut."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, StillBootstraps
from dbcheck.model.replication import Membership, Received, most_advanced
from dbcheck.ports.site import Node

AGAIN_S = 10.0  # what was refused is tried again so much later


class Bootstrap:
    """Has one node form the group, which has all that any other has, and the rest join.

    Once, and only while every node answers, is the server that it was before the cut,
    and neither is in a group nor tries to join one: a second group would take writes
    beside the first.  No node is asked to join a group that somebody else formed: one
    that has what the group lacks is refused at first, and let in once the group has
    used the same GTIDs, with other rows.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        """nodes: all of the group, by their names."""
        self._nodes = nodes
        self._before: dict[str, Membership] = {}
        self._received: dict[str, Received] = {}
        self._formed_by = self._left_on = ""
        self._next_try_s: dict[str, float] = {}
        self._why: dict[str, str] = {}

    def prepare(self) -> None:
        """Note what the nodes are before the cut.

        Raise EngineError, with nothing cut, if one has left the group, or if an account
        lacks the privileges to form it again.
        """
        for name, node in self._nodes.items():
            membership = node.engine.membership()
            if membership is None:
                raise EngineError(
                    f"node {name} has left the group since it was checked",
                    id=ErrorId.GROUP_NOT_COMPLETE,
                    hint="Have it join (START GROUP_REPLICATION), then run again.",
                )
            self._before[name] = membership
            try:
                node.engine.require_may_bootstrap()
            except EngineError as error:
                raise EngineError(
                    f"node {name}: {error}", id=error.id, hint=error.hint
                ) from error

    def unfinished(self) -> str:
        """Return why a node may still form a second group, after one try to prevent it.

        "" if none does.
        """
        if not (name := self._left_on):
            return ""
        try:
            self._nodes[name].engine.end_bootstrap()
        except EngineError as error:
            return f"{name}: {error.with_hint}"
        self._left_on = ""
        return ""

    def step(self) -> str:
        """Do what is due now; return what the group still lacks, "" if all joined.

        It blocks while a server is asked to form the group or to join it.
        """
        found, before = {}, self._received
        for name, node in self._nodes.items():
            try:
                found[name] = node.engine.received()
            except EngineError as error:
                return f"{name} does not answer yet: {error}"
        self._received = found
        absent = [name for name, one in found.items() if not one.members]
        if len(absent) < len(found):
            return _split(found) or self._join(absent)
        if self._formed_by:
            return self._why[self._formed_by]
        if found != before:
            return "waiting until no node comes any further"
        return self._form()

    def _form(self) -> str:
        name = most_advanced(self._received)
        if name is None:
            return "no node reports how much it has received"
        if not self._is_due(name):
            return self._why[name]
        try:
            others = {n: self._transactions(n) for n in self._nodes}
            del others[name]
            self._nodes[name].engine.require_all_of(others)
        except EngineError as error:
            why = f"{name} cannot form the group again: {error.with_hint}"
            return self._put_off(name, why)
        return self._formed(name)

    def _formed(self, name: str) -> str:
        """Have the node form the group; whatever becomes of that, none does again."""
        self._formed_by = name
        self._why[name] = (
            f"{name} formed the group and left it: its error log says why. Form the"
            " group by hand"
        )
        try:
            self._nodes[name].engine.bootstrap_group()
        except StillBootstraps as error:
            self._left_on = name
            return f"{name}: {error.with_hint}"
        except EngineError as error:
            self._why[name] = (
                f"{name} did not form the group: {error.with_hint} Form it by hand."
            )
            return self._why[name]
        return f"{name}, which has most transactions, has formed the group again"

    def _transactions(self, name: str) -> str:
        """Return those that a node has; raise EngineError unless it is as before."""
        before = self._before.get(name)
        try:
            found = self._nodes[name].engine.detached()
        except EngineError as error:
            raise EngineError(
                f"{name}: {error}", id=error.id, hint=error.hint
            ) from error
        if before is None:
            raise EngineError(
                f"which server {name} was before the cut is not known",
                id=ErrorId.GROUP_SERVER_UNKNOWN,
                hint="Form the group by hand.",
            )
        if (found.name, found.group) != (before.name, before.source):
            raise EngineError(
                f"at the address of {name} answers server {found.name} of group"
                f" {found.group}; it was server {before.name} of group {before.source}",
                id=ErrorId.NODE_IS_OTHER_SERVER,
                hint="Have the URL of each node lead to its own server.",
            )
        return found.transactions

    def _join(self, names: Sequence[str]) -> str:
        """Ask one of these to join; return why one has not joined yet, or ""."""
        if not names:
            return ""
        if not self._formed_by:
            return (
                f"{names[0]} is not in the group, which dbcheck did not form: have it"
                " join, or clone it if it is refused"
            )
        due = [name for name in names if self._is_due(name)]
        if not due:
            return self._why[names[0]]
        name = due[0]
        try:
            self._nodes[name].engine.join_group()
        except EngineError as error:
            why = f"{name} did not join the group: {error.with_hint}"
        else:
            why = (
                f"{name} joined the group and left it: its error log says why, for"
                " example data that no member's binary log has any more"
            )
        self._put_off(name, why)
        return f"{name} was asked to join the group"

    def _is_due(self, name: str) -> bool:
        return self._next_try_s.get(name, 0.0) <= time.monotonic()

    def _put_off(self, name: str, why: str) -> str:
        self._next_try_s[name], self._why[name] = time.monotonic() + AGAIN_S, why
        return why


def _split(found: Mapping[str, Received]) -> str:
    """Return which two nodes are in groups of their own, "" if none are."""
    joined = {name: set(one.members) for name, one in found.items() if one.members}
    first, *rest = joined
    for name in rest:
        if joined[name].isdisjoint(joined[first]):
            return (
                f"{first} and {name} are in different groups of one name. Stop Group"
                " Replication on one of them before any client writes"
            )
    return ""
