"""A group whose nodes elect the writer by majority.

dbcheck promotes no node: once the writer is gone, the others go on without it.  The
node that is read belongs to the majority and has all transactions of the others.  If
all nodes were cut and do not form a group by themselves, one of them bootstraps it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, StillBootstraps
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.cut import Cut
from dbcheck.model.replication import (
    Membership,
    PromotedBy,
    Promotion,
    RebuiltBy,
    Received,
    find_most_advanced_node,
)
from dbcheck.ports.site import Node
from dbcheck.site.cluster import Cluster, Follow
from dbcheck.site.cut_promoted import observe_power

AGAIN_S = 10.0  # until a request that was refused is made again


class Bootstrap:
    """Has the node with all transactions of the others form the group; the rest join.

    This is done once, and only while every node answers, is the server that it was
    before the cut, and neither is in a group nor tries to join one: a second group
    would take writes beside the first.  No node is asked to join a group that somebody
    else formed: a node with transactions that such a group lacks is refused at first,
    but let in once the group has used the same GTIDs for other rows.

    nodes: all nodes of the group, by their names.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._before: dict[str, Membership] = {}
        self._received: dict[str, Received] = {}
        self._formed_by = self._still_bootstraps = ""
        self._next_try_s: dict[str, float] = {}
        self._why_not_by_name: dict[str, str] = {}

    def prepare(self) -> None:
        """Note the nodes' identities before the cut.

        Raise EngineError, with nothing cut, if a node has left the group, or if an
        account lacks the privileges to form it again.
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
        """Try to end a bootstrap that is still set; return the risk that is left.

        The risk is that of a second group; "" if there is none.
        """
        if not (name := self._still_bootstraps):
            return ""
        try:
            self._nodes[name].engine.end_bootstrap()
        except EngineError as error:
            return f"{name}: {error.with_hint}"
        self._still_bootstraps = ""
        return ""

    def step(self) -> str:
        """Take the next step; return what the group still lacks, "" if all joined.

        This blocks while a server is asked to form the group or to join it.
        """
        received_by_name, received_before = {}, self._received
        for name, node in self._nodes.items():
            try:
                received_by_name[name] = node.engine.received()
            except EngineError as error:
                return f"{name} does not answer yet: {error}"
        self._received = received_by_name
        absent = [
            name for name, received in received_by_name.items() if not received.members
        ]
        if len(absent) < len(received_by_name):
            return _describe_split(received_by_name) or self._ask_to_join(absent)
        if self._formed_by:
            return self._why_not_by_name[self._formed_by]
        if received_by_name != received_before:
            return "waiting until no node comes any further"
        return self._form_group()

    def _form_group(self) -> str:
        name = find_most_advanced_node(self._received)
        if name is None:
            return "no node reports how much it has received"
        if not self._is_due(name):
            return self._why_not_by_name[name]
        try:
            others = {n: self._read_transactions(n) for n in self._nodes}
            del others[name]
            self._nodes[name].engine.require_all_of(others)
        except EngineError as error:
            why = f"{name} cannot form the group again: {error.with_hint}"
            return self._postpone(name, why)
        return self._bootstrap_once(name)

    def _bootstrap_once(self, name: str) -> str:
        """Bootstrap the group from this node; never retried, even after an error."""
        self._formed_by = name
        self._why_not_by_name[name] = (
            f"{name} formed the group and left it: its error log says why. Form the"
            " group by hand"
        )
        try:
            self._nodes[name].engine.bootstrap_group()
        except StillBootstraps as error:
            self._still_bootstraps = name
            return f"{name}: {error.with_hint}"
        except EngineError as error:
            self._why_not_by_name[name] = (
                f"{name} did not form the group: {error.with_hint} Form it by hand."
            )
            return self._why_not_by_name[name]
        return f"{name}, which has most transactions, has formed the group again"

    def _read_transactions(self, name: str) -> str:
        """Return a node's transactions; raise EngineError unless it is as before."""
        before = self._before.get(name)
        try:
            facts = self._nodes[name].engine.detached()
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
        if (facts.name, facts.group) != (before.name, before.source):
            raise EngineError(
                f"at the address of {name} answers server {facts.name} of group"
                f" {facts.group}; it was server {before.name} of group {before.source}",
                id=ErrorId.NODE_IS_OTHER_SERVER,
                hint="Have the URL of each node lead to its own server.",
            )
        return facts.transactions

    def _ask_to_join(self, names: Sequence[str]) -> str:
        """Ask one of these nodes to join; return why one has not joined yet, or ""."""
        if not names:
            return ""
        if not self._formed_by:
            return (
                f"{names[0]} is not in the group, which dbcheck did not form: have it"
                " join, or clone it if it is refused"
            )
        due = [name for name in names if self._is_due(name)]
        if not due:
            return self._why_not_by_name[names[0]]
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
        earlier = self._why_not_by_name.get(name, "")
        self._postpone(name, why)
        asked = f"{name} was asked to join the group"
        return f"{asked} once more; before that, {earlier}" if earlier else asked

    def _is_due(self, name: str) -> bool:
        return self._next_try_s.get(name, 0.0) <= time.monotonic()

    def _postpone(self, name: str, why: str) -> str:
        self._next_try_s[name], self._why_not_by_name[name] = (
            time.monotonic() + AGAIN_S,
            why,
        )
        return why


def _describe_split(received_by_name: Mapping[str, Received]) -> str:
    """Return the two nodes that are in groups of their own, "" if none are."""
    joined = {
        name: set(received.members)
        for name, received in received_by_name.items()
        if received.members
    }
    first, *rest = joined
    for name in rest:
        if joined[name].isdisjoint(joined[first]):
            return (
                f"{first} and {name} are in different groups of one name. Stop Group"
                " Replication on one of them before any client writes"
            )
    return ""


class Group(Cluster):
    """See ports.site.Site.

    As long as a node still counts the writer among its members, it may lack what the
    writer sent last: Galera delivers a transaction once it knows that all members have
    it, and the others agree on the last transactions only without the writer.  So such
    a node is not read.  A node that shows the new view has applied all that came before
    the view (Galera 26.4, galera/src/replicator_smm.cpp, process_prim_conf_change());
    its queue does not show that, as it lacks the transactions that are being applied.
    A member of Group Replication has received all transactions by then, and shows which
    it has not applied (see engines.mysql.group_replication).  A writer that was not
    cut, as its load ended before that, may be a member again: then another node is read
    once all are members and each has applied all.

    After a cut of all nodes, a node may be behind another one that is still off: so the
    writer is read once all nodes are members again.
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
        rebuilt_by: RebuiltBy = RebuiltBy.NOBODY,
        rebuild: Follow | None = None,
        stagger_of_all_s: float = 0.0,
    ) -> None:
        """bootstrap: dbcheck forms the group again if it does not do so by itself.

        stagger_s: see Site.  rebuilt_by: SQL has dbcheck ask a node to join.
        rebuild, stagger_of_all_s: see Cluster.
        Raise UsageError unless these nodes can be a group, and be cut as one.
        """
        kind.require_promise(promise, len(nodes))
        super().__init__(
            *(kind, nodes, writer_name, promise),
            by=PromotedBy.AUTO,
            stagger_s=stagger_s,
            rebuilt_by=rebuilt_by,
            rebuild=self._join if rebuilt_by is RebuiltBy.SQL else rebuild,
            stagger_of_all_s=stagger_of_all_s,
        )
        self._writer_member, self._is_cut = "", False
        self._bootstraps = bootstrap
        may_bootstrap = bootstrap and promise.cuts_all and not kind.forms_by_itself
        self._bootstrap = Bootstrap(self._nodes) if may_bootstrap else None

    def _copy(
        self,
        *,
        nodes: Mapping[str, Node] | None = None,
        writer_name: str = "",
        promise: Promise | None = None,
    ) -> Group:
        promise = promise or self.promise
        return Group(
            *(self.kind, nodes or self._nodes),
            *(writer_name or self.writer_name, promise),
            bootstrap=self._bootstraps,
            stagger_s=self._find_stagger_s(promise),
            rebuilt_by=self._rebuilt_by,
            rebuild=self._rebuild,
            stagger_of_all_s=self._stagger_of_all_s,
        )

    def _join(self, name: str, _writer_name: str) -> None:
        self._nodes[name].engine.join_group()

    def prepare(self, seed: int) -> None:
        with contextlib.suppress(EngineError):
            member = self.writer.engine.membership()
            self._writer_member = member.name if member else ""
        if self._bootstrap:
            self._bootstrap.prepare()
        super().prepare(seed)

    def cut(self) -> Mapping[str, Cut]:
        self._is_cut = True
        return super().cut()

    def ready(self) -> str | None:
        if self.promise.cuts_all:
            if self._bootstrap and (why := self._bootstrap.unfinished()):
                return why
            missing = self._describe_missing()
            if missing is None or self._bootstrap is None:
                return missing
            return self._bootstrap.step() or missing
        old_writer = observe_power(self.writer)
        name, why = self._find_node_without_writer()
        is_uncut = old_writer.is_back and not self._is_cut
        if not name and is_uncut and self._describe_missing() is None:
            name = self._choose_member()
        if self._note_takeover(old_writer, name):
            return None
        if old_writer.is_back:
            return f"the old writer {self.writer_name} still answers or has power"
        return why

    def failure(self) -> str | None:
        if not self.promise.cuts_all:
            return super().failure()
        failures = ((name, node.power.failure()) for name, node in self._nodes.items())
        return next((f"{name}: {why}" for name, why in failures if why), None)

    def promotion(self) -> Promotion | None:
        if not self.promise.cuts_all:
            return super().promotion()
        promotion = Promotion(self._promoted_by, dict(self._received))
        return self._add_descent(promotion)

    def _describe_missing(self) -> str | None:
        for name in self._nodes:
            received, why = self._ask_received(name)
            if received is None:
                return f"{name} has not joined the majority yet{why}"
            if len(received.members) != len(self._nodes):
                seen = len(received.members)
                return f"{name} sees {seen} members, not {len(self._nodes)}"
            if received.position != received.applied:
                return f"{name} still applies what it has received"
        return None

    def _find_node_without_writer(self) -> tuple[str, str]:
        """Return the name of a node that can be read, without the writer in its view.

        As long as there is none, return "" and why the last node is not read.
        """
        why = ""
        for name in self._nodes:
            if name == self.writer_name:
                continue
            if not (why := self._describe_unfit(name)):
                return name, ""
        return "", why

    def _choose_member(self) -> str:
        """Return the node to read in a group that has all its members, and all applied.

        The writer, which was not cut, has then given the others all that the group took
        from it.  Another node is read in any case: only that shows what the group has.
        """
        others = [name for name in self._nodes if name != self.writer_name]
        leading = (n for n in others if self._nodes[n].engine.takes_writes())
        return next(leading, others[0])

    def _describe_unfit(self, name: str) -> str:
        """Return the reason why a node cannot be read yet, "" if it can."""
        received, error = self._ask_received(name)
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
        """Return True if the writer is one of *members*.

        If its name was not read before the cut, as in a later reconciliation, it counts
        as a member as long as there are as many members as nodes.
        """
        if self._writer_member:
            return self._writer_member in members
        return len(members) >= len(self._nodes)

    def _ask_received(self, name: str) -> tuple[Received | None, str]:
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
