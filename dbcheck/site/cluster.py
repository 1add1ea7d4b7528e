"""A cluster: one node takes the load, others follow it, and one of these may take over.

The promise decides which nodes lose their power, and which one is read afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    DbcheckError,
    EngineError,
    PartlyCut,
    PowerError,
    UsageError,
)
from dbcheck.base.system import now_us
from dbcheck.model.cluster import Promise, SiteKind, draw_stagger, require_stagger
from dbcheck.model.cut import Cut, PowerState
from dbcheck.model.replication import (
    CutWhilePromoted,
    PromotedBy,
    Promotion,
    RebuiltBy,
    Received,
    ReturnedWriter,
    WriterOff,
    find_most_advanced_node,
)
from dbcheck.ports.feature import Feature
from dbcheck.ports.power import DriveScoped, Preparing
from dbcheck.ports.site import Node
from dbcheck.site.cut_promoted import Promote, PromotionCutter, observe_power

POLL_S = 0.2
STARTS_S = 30.0  # until the server of an old writer that returns accepts connections
SETTLED_S = 1.0  # a standby that makes no progress for so long has applied all it has

# Has the first node follow the second one, by their names; raises DbcheckError.
Follow = Callable[[str, str], None]
T = TypeVar("T")


class Cluster:
    """See ports.site.Site.

    If the writer is not to come back, the standby that has received most takes over,
    once no standby with power makes any progress.  No standby is promoted unless the
    writer is off: its switch says so, or nothing accepts connections at its address
    and no standby is connected to it any more.
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
        stagger_s: float = 0.0,
        cut_promoted_s: float = 0.0,
        promoted_stays_off: bool = False,
        old_writer_returns_s: float = 0.0,
        reconnect: Callable[[], object] = lambda: None,
        isolate: Callable[[], object] | None = None,
        rejoin: Follow | None = None,
        rebuilt_by: RebuiltBy = RebuiltBy.NOBODY,
        rebuild: Follow | None = None,
        stagger_of_all_s: float = 0.0,
    ) -> None:
        """promote: what promotes a node, if *by* is COMMAND.

        brings_back, stagger_s: see Site.  stagger_of_all_s: stagger_s of the promise
                ALL, see promising().
        cut_promoted_s: the node that takes over loses its power once, within so many
                seconds of the order, and comes back; 0: it does not.
        promoted_stays_off: it does not come back, and another node takes over.
        rejoin: None if no node is to rejoin.
        old_writer_returns_s: the old writer gets its power back once another node has
                taken over, and clients reach both for so many seconds; 0: it stays off.
        reconnect: ends what cuts it off from the other nodes, before it comes back;
                raises DbcheckError.
        isolate: cuts the nodes that are brought back off from the others, which may
                still follow them; raises DbcheckError.  None: *rebuild* has the others
                follow the new writer instead.
        rebuild: what rebuilds a node, unless *rebuilt_by* is NOBODY or AUTO.
        Raise UsageError unless these nodes can be a cluster, and be cut as one.
        """
        require_stagger(promise, stagger_s)
        self.kind, self.promise, self.brings_back = kind, promise, brings_back
        self.stagger_s = stagger_s
        self._stagger_of_all_s = stagger_of_all_s or stagger_s
        self._isolate, self._rejoin = isolate, rejoin
        self._rebuilt_by, self._rebuild = rebuilt_by, rebuild
        self._delays_s: Mapping[str, float] = {}
        self._nodes = {writer_name: nodes[writer_name], **nodes}  # the writer first
        self.writer_name = self.reader_name = writer_name
        self._promoted_by, self._promote = by, promote or _promote_by_sql
        self._old_writer_returns_s, self._reconnect = old_writer_returns_s, reconnect
        self._returned: ReturnedWriter | None = None
        self._cut_promoted_s = cut_promoted_s
        self._promoted_stays_off = promoted_stays_off
        self._cutter: PromotionCutter | None = None
        if cut_promoted_s:
            self._cutter = PromotionCutter(
                cut_promoted_s, self._promote, stays_off=promoted_stays_off
            )
        self._require_possible()
        self._received: dict[str, Received] = {}
        self._since_s = 0.0
        self._refused = ""
        self._asked_us: int | None = None
        self._promotion_asked = self._promoted = False
        self._old_writer_states: list[WriterOff] = []

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
        return self._copy(nodes={**self._nodes, self.writer_name: node})

    def led_by(self, name: str) -> Cluster:
        return self._copy(writer_name=name)

    def promising(self, promise: Promise) -> Cluster:
        return self._copy(promise=promise)

    def _copy(
        self,
        *,
        nodes: Mapping[str, Node] | None = None,
        writer_name: str = "",
        promise: Promise | None = None,
    ) -> Cluster:
        """Return this cluster before a cut, with what is given in place of its own."""
        promise = promise or self.promise
        return Cluster(
            *(self.kind, nodes or self._nodes),
            *(writer_name or self.writer_name, promise),
            by=self._promoted_by,
            promote=self._promote,
            brings_back=self.brings_back,
            stagger_s=self._find_stagger_s(promise),
            cut_promoted_s=self._cut_promoted_s,
            promoted_stays_off=self._promoted_stays_off,
            old_writer_returns_s=self._old_writer_returns_s,
            reconnect=self._reconnect,
            isolate=self._isolate,
            rejoin=self._rejoin,
            rebuilt_by=self._rebuilt_by,
            rebuild=self._rebuild,
            stagger_of_all_s=self._stagger_of_all_s,
        )

    def _find_stagger_s(self, promise: Promise) -> float:
        return self._stagger_of_all_s if promise is Promise.ALL else 0.0

    @property
    def rejoins(self) -> bool:
        return self._rejoin is not None

    def rejoin(self) -> Mapping[str, str]:
        if self._rejoin is None:
            return {}
        failures = {name: "" for name in self._nodes if name != self.reader_name}
        for name in failures:
            try:
                self._rejoin(name, self.reader_name)
            except DbcheckError as error:
                failures[name] = str(error)
        return failures

    @property
    def rebuilt(self) -> bool:
        return self.promise.writer_returns or self._rebuilt_by is not RebuiltBy.NOBODY

    def rebuild(self, name: str) -> None:
        if self._rebuild is not None:
            self._rebuild(name, self.reader_name)

    @property
    def kept_off(self) -> frozenset[str]:
        if self.promise.writer_returns:
            return frozenset()
        return frozenset({self.writer_name, *self._lost})

    @property
    def _lost(self) -> tuple[str, ...]:
        """The node that was cut on its way and stays off; () without one."""
        seen = self._cutter.seen if self._cutter else None
        return (seen.node,) if seen is not None and seen.off is not None else ()

    @property
    def attended(self) -> bool:
        return any(node.power.attended for node in self._cut_nodes().values())

    def prepare(self, seed: int) -> None:
        writer, stagger_s = self.writer_name, self.stagger_s
        self._delays_s = draw_stagger(self._nodes, writer, stagger_s, seed)
        if self._cutter is not None:
            self._cutter.prepare(seed)
        for node in self._cut_nodes().values():
            if isinstance(node.power, Preparing):
                node.power.prepare()

    def cut(self) -> Mapping[str, Cut]:
        """Cut the nodes at one moment, as far as their switches allow, or staggered.

        Raise PartlyCut, with the cuts that were made, if a switch fails.
        """
        ending = threading.Event()
        done, failed = _run_on_nodes(
            self._cut_nodes(), partial(self._cut, ending), ending
        )
        if failed is not None:
            raise PartlyCut(str(failed), done, id=failed.id, hint=failed.hint)
        return done

    def _cut(self, ending: threading.Event, name: str, node: Node) -> Cut:
        """Cut a node once its time has come, unless *ending* was set before."""
        delay_s = self._delays_s.get(name, 0.0)
        if delay_s and ending.wait(delay_s):
            raise PowerError(
                f"{name} was not cut: the cut of the nodes was ended",
                id=ErrorId.CUT_ABANDONED,
                hint="See why another node could not be cut.",
            )
        try:
            return node.power.cut()
        except PowerError:
            ending.set()
            raise

    def state(self) -> PowerState:
        states = {node.power.state() for node in self._cut_nodes().values()}
        for state in (PowerState.OFF, PowerState.UNKNOWN):
            if state in states:
                return state
        return PowerState.ON

    def restore(self) -> Mapping[str, float | None]:
        return self._restore_nodes(
            self.promise.returning(self._nodes, self.writer_name)
        )

    def bring_back(self) -> Mapping[str, float | None]:
        try:
            self._keep_off_old_writer()
        except DbcheckError as error:
            raise PowerError(
                f"{error}; {self.writer_name} stays off", id=error.id, hint=error.hint
            ) from None
        return self._restore_nodes(self.kept_off.difference(self._lost))

    def _keep_off_old_writer(self) -> None:
        """Have no node follow the nodes that are brought back; raise DbcheckError."""
        if self._isolate is not None:
            self._isolate()
            return
        for name in self._nodes.keys() - self.kept_off - {self.reader_name}:
            self.rebuild(name)

    def failure(self) -> str | None:
        return self.reader.power.failure()

    def ready(self) -> str | None:
        if self.promise.writer_returns or self._promoted:
            return self.reader.engine.ready()
        old_writer = observe_power(self.writer)
        why_waiting = self._note_positions()
        new_writer = self._find_promoted()
        if self._note_takeover(old_writer, new_writer):
            return None
        if old_writer.is_back:
            return (
                f"the old writer {self.writer_name} still answers or has power; dbcheck"
                " promotes no standby until it is off"
            )
        if self._promoted_by is PromotedBy.AUTO:
            return "no standby has taken over yet"
        return (
            why_waiting
            or self._describe_writer_contact(old_writer)
            or self._promote_most_advanced()
        )

    def _note_takeover(self, off: WriterOff, taken: str) -> bool:
        """Note the old writer's state, and the node that took over, if one did.

        taken: the name of that node, or "".  Return True if there is one: it is the
               node that is read from now on.
        """
        if off.is_back or taken or not self._old_writer_states:
            self._old_writer_states.append(replace(off, taken_over=bool(taken)))
        if taken:
            self.reader_name, self._promoted = taken, True
            if self._old_writer_returns_s:
                self._return_old_writer()
        return bool(taken)

    def _return_old_writer(self) -> None:
        """Let clients reach the old writer beside the node that took over.

        Return after that time, which begins once its server accepts connections, or
        STARTS_S after the power is back.  Raise PowerError.
        """
        self._reconnect()
        self.writer.power.restore()
        back_us = now_us()
        self._returned = ReturnedWriter(back_us, back_us)
        starts_s = time.monotonic() + STARTS_S
        while not self.writer.engine.accepts() and time.monotonic() < starts_s:
            interrupt.raise_if_interrupted()
            time.sleep(POLL_S)
        self._note_old_writer()
        ends_s = time.monotonic() + self._old_writer_returns_s
        while (left_s := ends_s - time.monotonic()) > 0:
            interrupt.raise_if_interrupted()
            time.sleep(min(left_s, POLL_S))
        self._returned = ReturnedWriter(back_us, now_us())

    def _note_old_writer(self) -> None:
        self._old_writer_states.append(
            replace(
                observe_power(self.writer),
                taken_over=self._promoted,
                planned=self._returned is not None,
            )
        )

    def promotion(self) -> Promotion | None:
        if self.promise.writer_returns:
            return None
        self._note_old_writer()
        promotion = Promotion(
            self._promoted_by,
            dict(self._received),
            None,
            tuple(self._old_writer_states),
            self._asked_us,
            self._look_at_cut(),
            self._returned,
        )
        return self._add_descent(promotion) if self._promoted else promotion

    def _look_at_cut(self) -> CutWhilePromoted | None:
        """Return the cut of a node on its way, with a new look at whether it is off."""
        seen = self._cutter.seen if self._cutter else None
        if seen is None or seen.off is None or seen.off.is_back:
            return seen
        return replace(seen, off=observe_power(self._nodes[seen.node]))

    def _add_descent(self, promotion: Promotion) -> Promotion:
        try:
            return replace(promotion, descent=self.reader.engine.descent())
        except EngineError:
            return promotion

    def _require_possible(self) -> None:
        for name, node in self._nodes.items():
            engine, family = node.engine, node.engine.family
            if family != self.kind.family or not engine.has(Feature.REPLICATION):
                raise UsageError(
                    f"node {name} cannot be one of a cluster of the topology"
                    f" {self.kind.value}: it is a {family} server",
                    id=ErrorId.TOPOLOGY_NOT_FOR_ENGINE,
                    hint="PostgreSQL: dbcheck_topology: streaming. MySQL: semi-sync or"
                    " group-replication. MariaDB: semi-sync or galera.",
                )
            if isinstance(node.power, DriveScoped):
                raise UsageError(
                    f"node {name}: in a cluster no drives can lose their power alone",
                    id=ErrorId.DRIVES_ALONE_IN_CLUSTER,
                    hint="Cut the host: remove dbcheck_power_scope.",
                )
        by_hand = [n for n, node in self._cut_nodes().items() if node.power.attended]
        if by_hand and len(self._cut_nodes()) > 1:
            raise UsageError(
                f"{', '.join(by_hand)} cannot be cut by hand: several nodes have to"
                " lose their power at one moment",
                id=ErrorId.CLUSTER_CUT_BY_HAND,
                hint="Give each a switch (dbcheck_power), or set dbcheck_survives:"
                " writer-gone.",
            )

    def _cut_nodes(self) -> dict[str, Node]:
        names = self.promise.cut(self._nodes, self.writer_name)
        return {name: self._nodes[name] for name in names}

    def _restore_nodes(self, names: Iterable[str]) -> Mapping[str, float | None]:
        """Restore all nodes; raise the first PowerError after trying each."""
        nodes = {name: self._nodes[name] for name in names}
        done, failed = _run_on_nodes(nodes, lambda _, node: node.power.restore())
        if failed is not None:
            raise failed
        return done

    def _find_promoted(self) -> str:
        """Return the name of the standby that takes writes now, "" if none does.

        It was promoted by something else, or by a client that was lost.
        """
        standbys = (name for name in self._nodes if name not in self.kept_off)
        taken = (n for n in standbys if self._nodes[n].engine.takes_writes())
        return next(taken, "")

    def _describe_writer_contact(self, off: WriterOff) -> str:
        """Return the sign that the silent writer may be alive, or "".

        No sign is looked for if the switch says that the writer is off.
        """
        if off.state is PowerState.OFF:
            return ""
        standbys = (n for n in self._received if n not in self.kept_off)
        names = [name for name in standbys if self._received[name].connected]
        if not names:
            return ""
        return (
            f"{names[0]} is still connected to {self.writer_name}, and no switch shows"
            " that it is off"
        )

    def _promote_most_advanced(self) -> str:
        """Promote the most advanced standby, once; return the result in words.

        If that is lost on its way, the next call promotes another one.
        """
        name = find_most_advanced_node(self._received, self._lost)
        if name is None:
            return (
                "no standby reports how much it has received; check that replication is"
                " configured on it"
            )
        if not self._promotion_asked:
            self._promotion_asked, self._asked_us = True, now_us()
            try:
                self._order_promotion(name)
            except EngineError as error:
                self._refused = f"{name} was not promoted: {error.with_hint}"
        asked = f"{name} was asked to take over, and does not accept writes yet"
        return self._refused or asked

    def _order_promotion(self, name: str) -> None:
        if self._cutter is None or self._lost:
            self._promote(name, self._nodes[name])
            return
        self._cutter.promote(name, self._nodes[name])
        self._promotion_asked = not self._lost
        if self._cutter.failed:  # then it is the node that would have been read
            self.reader_name = name

    def _note_positions(self) -> str:
        """Note each standby's position; return the reason to promote none yet, or "".

        A standby that takes writes does not show any more how far it had come: its last
        position counts.
        """
        received_by_name, silent = dict(self._received), ""
        for name, node in self._nodes.items():
            if name in self.kept_off:
                continue
            try:
                received = node.engine.received()
            except EngineError as error:
                silent = silent or f"{name} does not answer: {error}"
                continue
            if received.position is not None or name not in received_by_name:
                received_by_name[name] = received
        if received_by_name != self._received:
            self._received, self._since_s = received_by_name, time.monotonic()
        if silent:
            return silent
        if any(standby.applied is None for standby in received_by_name.values()):
            return "a standby does not report how much it has applied"
        if time.monotonic() - self._since_s < SETTLED_S:
            return "waiting for the standbys to apply what they have received"
        return self._describe_unapplied()

    def _describe_unapplied(self) -> str:
        """Return the reason why the standby to promote would lose received rows, or "".

        PostgreSQL replays all that it has received when it is promoted.  A replica of
        MySQL or MariaDB that stops following deletes what it has not applied.
        """
        name = find_most_advanced_node(self._received, self._lost)
        if self.kind is SiteKind.STREAMING or name is None:
            return ""
        position, applied = self._received[name].position, self._received[name].applied
        if position is None or applied is None or applied >= position:
            return ""
        return (
            f"{name} has received transaction {position:,} and applied {applied:,};"
            " waiting before the promotion, which would delete the rest"
        )


def _run_on_nodes(
    nodes: Mapping[str, Node],
    work: Callable[[str, Node], T],
    ending: threading.Event | None = None,
) -> tuple[dict[str, T], PowerError | None]:
    """Do *work* on all nodes at once; return the results, and the first failure.

    ending: set if this thread is interrupted, so that nothing more is begun.
    """
    done: dict[str, T] = {}
    first_failure: PowerError | None = None
    if not nodes:
        return done, first_failure
    with ThreadPoolExecutor(len(nodes)) as pool:
        futures = {name: pool.submit(work, name, node) for name, node in nodes.items()}
        try:
            wait(futures.values())
        except BaseException:
            if ending is not None:
                ending.set()
            raise
    for name, result in futures.items():
        try:
            done[name] = result.result()
        except PowerError as error:
            first_failure = first_failure or error
    return done, first_failure


def _promote_by_sql(_name: str, node: Node) -> None:
    node.engine.promote()
