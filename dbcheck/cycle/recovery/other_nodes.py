"""Reads the other nodes of a cluster, after the rows that decide were read and stored.

Members of a group are compared once each has applied all.  An old writer that stayed
off is brought back: a commit that the promoted node lacks is lost to its clients, but
it shows whether it can be recovered, and which rows it would serve that no other node
has.  Nodes that rejoin show what a client of a replica sees once the cluster is
complete again: an old writer that follows the new one without an error may hold rows
that the new one never had.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, EngineError, TableLost
from dbcheck.cycle.host import inspect_host_again
from dbcheck.cycle.recovery.pods_again import close_hosts, find_pods_again
from dbcheck.cycle.recovery.survivors import (
    Comparison,
    Survivors,
    compare_stored,
    limit_survivors,
)
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.stored_run import RowStore
from dbcheck.load.sessions import commit
from dbcheck.model.cluster import SiteKind
from dbcheck.model.records import AfterRecord, Elsewhere, Manifest, NodeAfter
from dbcheck.model.replication import Received
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Node, Site
from dbcheck.rows.acks import PREFLIGHT_SESSION
from dbcheck.rows.differences import ChangedRow, OtherNode
from dbcheck.rows.plans.plan import InsertPlan
from dbcheck.rows.schedule import EPOCH_MAX, Schedule
from dbcheck.rows.survivors import Records
from dbcheck.rows.table import LEDGER, TableSpec
from dbcheck.runs.folder import RunFolder

POLL_S = 0.2
APPLIED_S = FOLLOWS_S = 30.0  # the time in which a node must apply all, or follow
_STAYS_OFF = (
    "{} stays off: it must rejoin {}, and may hold commits that no other node has. Keep"
    " its clients away when you restore its power"
)
_STAYS_OFF_UNTIL_JUDGED = (
    "{} stays off until this run is judged, then it gets its power back to follow the"
    " new writer; after a loss that ends the test it stays off"
)
UNCOMPARED = OtherNode(not_done="the client ended before it was compared")
_MARK_BYTES = 16


def describe_nodes_left_off(names: Iterable[str], kind: SiteKind) -> str:
    """Return the notice about nodes that get no power back.

    An old writer that starts as a writer splits a cluster whose nodes follow one
    another.
    """
    way = "the cluster" if kind.is_group else "as a standby"
    return _STAYS_OFF.format(", ".join(sorted(names)), way)


def describe_nodes_kept_off(site: Site) -> str:
    """Return the notice about the nodes of *site* that are off once it was read."""
    if not site.rebuilt:
        return describe_nodes_left_off(site.kept_off, site.kind)
    return _STAYS_OFF_UNTIL_JUDGED.format(", ".join(sorted(site.kept_off)))


def read_old_writer(
    rig: Rig, run: RunFolder, manifest: Manifest, after: AfterRecord
) -> AfterRecord:
    """Return *after*, which is stored, with the rows of the old writer.

    The site must bring it back (Site.brings_back).
    """
    site = rig.site
    if after.facts is None:
        return after
    name, now = site.writer_name, site
    rig.listener.phase(Phase.RESTORE, f"{name}, by itself: to see what is left there")
    try:
        site.bring_back()
        if rig.find_nodes is not None:  # its pod has another address now
            now = find_pods_again(rig, manifest, after.reader_name, {name})
    except DbcheckError as error:
        return replace(after, elsewhere={name: Elsewhere(failure=str(error))})
    node = now.nodes[name]
    try:
        found = _read_markers(rig, run, manifest, name, node)
    except EngineError as error:
        found = Elsewhere(failure=str(error))
    host = inspect_host_again(node, rig.listener, manifest.nodes[name])
    if now is not site:
        close_hosts(now)
    nodes = {**after.nodes, name: NodeAfter(None, host)}
    return replace(after, elsewhere={name: found}, nodes=nodes)


def _read_markers(
    rig: Rig, run: RunFolder, manifest: Manifest, name: str, node: Node
) -> Elsewhere:
    """Store the markers on a node; raise EngineError."""
    if LEDGER not in manifest.plan().tables:
        return Elsewhere(failure="the rows of this workload have no keys")
    _await_queries(rig, node)
    rows = run.write_elsewhere(name, LEDGER.name, _select_markers(run, manifest, node))
    return Elsewhere(rows)


def _select_markers(run: RowStore, manifest: Manifest, node: Node) -> Iterator[Records]:
    load, before = run.load(), manifest.tables[LEDGER.name]
    most = sum(before.rows_by_epoch.values())
    most += sum(load.sent.values()) if load else 0
    inspector, facts = manifest.plan().inspector(LEDGER), node.engine.facts()
    for _, batch in limit_survivors(node.engine, (LEDGER,), facts, most):
        records, _ = inspector.inspect(batch)
        yield records[records["epoch"] == manifest.epoch]


def _await_queries(rig: Rig, node: Node) -> None:
    """Return once the node takes queries; raise EngineError if it does not in time."""
    ends_s = time.monotonic() + rig.limits.return_s
    while (reason := node.engine.ready()) is not None:
        interrupt.raise_if_interrupted()
        if time.monotonic() >= ends_s:
            raise EngineError(reason, id=ErrorId.SERVER_NOT_BACK)
        time.sleep(POLL_S)


def list_comparable_nodes(site: Site, after: AfterRecord) -> list[str]:
    """Return the names of the nodes that must have the rows of the node that was read.

    Return [] if the site is no group.
    """
    if not site.kind.is_group or after.facts is None or after.failure:
        return []
    if after.promotion is None or after.reader_name not in after.promotion.received:
        return []
    return [n for n in site.nodes if n not in site.kept_off and n != after.reader_name]


def compare_members(
    rig: Rig, run: RunFolder, manifest: Manifest, after: AfterRecord, names: list[str]
) -> dict[str, OtherNode]:
    """Compare the rows of the nodes *names* with the rows that were read.

    after: the record of the rows that were read, which is stored.
    names: from list_comparable_nodes().
    Only rows of this run are compared: rows of other runs may have differed before it.
    """
    assert after.promotion is not None
    rig.listener.phase(Phase.READ, f"the same rows of {', '.join(names)}, to compare")
    if after.left_over:
        why = "prepared transactions were decided after the first reading"
        return {name: OtherNode(not_done=why) for name in names}
    read = after.promotion.received[after.reader_name]
    members = _Members(rig, run, manifest, read)
    return {name: members.compare(name) for name in names}


class _Members:
    """Compares the members of a group with the node whose rows were read.

    read: how far that node was, and which members it saw.
    """

    def __init__(
        self, rig: Rig, run: RunFolder, manifest: Manifest, read: Received
    ) -> None:
        self._rig, self._run, self._manifest, self._read = rig, run, manifest, read

    def compare(self, name: str) -> OtherNode:
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
        """Return once the node has applied all that the node that was read had.

        member: the name by which the group lists the node.  Raise EngineError if the
        node does not apply all in time, or is another server.
        """
        engine, target = node.engine, node.engine.target
        ends_s = time.monotonic() + APPLIED_S
        while True:
            interrupt.raise_if_interrupted()
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
        sees_all = received.connected and received.members == read.members
        return sees_all and received.position == applied


def compare_rejoined_nodes(
    rig: Rig, run: RunFolder, manifest: Manifest, after: AfterRecord
) -> dict[str, OtherNode]:
    """Compare the rows of every other node once it has rejoined.

    after: the record of the rows that were read, which is stored.
    """
    site = rig.site
    names = [name for name in site.nodes if name != site.reader_name]
    what = f"{', '.join(names)}: to follow {site.reader_name}, and to compare"
    rig.listener.phase(Phase.RESTORE, what)
    why = ""
    if after.left_over:
        why = "prepared transactions were decided after the first reading"
    elif LEDGER not in manifest.plan().tables:
        why = "the rows of this workload have no keys"
    if why:
        return {name: OtherNode(not_done=why) for name in names}
    refused, mark = site.rejoin(), _Mark(site)
    return {
        name: OtherNode(not_done=f"it could not rejoin: {refused[name]}")
        if refused[name]
        else _Rejoined(rig, run, manifest, mark).compare(site.nodes[name])
        for name in names
    }


class _Mark:
    """A row on the new writer; a node that has it has applied all before it.

    epoch: the epoch of the row, 0 as long as it is not committed.
    """

    def __init__(self, site: Site) -> None:
        self._site, self.epoch = site, 0

    def commit(self) -> None:
        """Commit the row, once; raise EngineError.

        A node must follow by then: the new writer may be set to wait for one.
        """
        if self.epoch:
            return
        epoch, engine = random.randrange(1, EPOCH_MAX), self._site.reader.engine
        plan = InsertPlan(Schedule(epoch, epoch, (_MARK_BYTES,)))
        with closing(engine.open_session(plan.statements)) as session:
            commit(session, plan.operation(PREFLIGHT_SESSION, 1))
        self.epoch = epoch


class _Rejoined:
    """One node, until it has shown its rows or its time is over."""

    def __init__(
        self, rig: Rig, run: RunFolder, manifest: Manifest, mark: _Mark
    ) -> None:
        self._rig, self._run, self._manifest, self._mark = rig, run, manifest, mark
        self._ends_s = time.monotonic() + FOLLOWS_S
        self._arrived = False
        self._extra: Comparison | None = None

    def compare(self, node: Node) -> OtherNode:
        """Read *node* once it follows, until it has applied all, and compare."""
        try:
            self._await_following(node)
            self._mark.commit()
            while True:
                found, failure = self._read(node)
                if self._arrived:
                    return self._of(found, failure)
                self._extra = found
                self._pause("it does not apply all that the new writer has")
        except TableLost as error:
            return OtherNode(failure=str(error))
        except EngineError as error:
            return _describe_stuck_node(str(error), self._extra)

    def _await_following(self, node: Node) -> None:
        """Return once the node is connected at two looks in a row.

        A node that the writer refuses is connected for a moment, too.
        """
        looks = 0
        while looks < 2:
            looks = looks + 1 if self._is_following(node) else 0
            self._pause("it does not follow the new writer")

    def _is_following(self, node: Node) -> bool:
        engine = node.engine
        try:
            return engine.membership() is not None and engine.received().connected
        except EngineError:  # the node is starting
            return False

    def _pause(self, late: str) -> None:
        interrupt.raise_if_interrupted()
        if time.monotonic() >= self._ends_s:
            raise EngineError(
                f"{late} within {FOLLOWS_S:g} s (its log says why)",
                id=ErrorId.WRITER_DID_NOT_REJOIN,
            )
        time.sleep(POLL_S)

    def _read(self, node: Node) -> tuple[Comparison, str]:
        """Compare the tables, the ledger first; stop if the ledger lacks the mark.

        If the ledger shows operations that the node alone has, they changed its other
        tables as well, so these are not compared.  Return also why a table disagrees
        with its own index, "" if none does.
        """
        found = Comparison(self._run.path)
        facts = replace(node.engine.facts(), may_follow=True)
        survivors = Survivors(self._rig, self._run, self._manifest, facts, node)
        tables = self._manifest.plan().tables
        for table in sorted(tables, key=lambda table: table != LEDGER):
            rows = partial(self._read_and_find_mark, survivors, table)
            compare_stored(found, table, self._run, rows)
            if not self._arrived or found.new:
                break
        return found, survivors.index.reason if survivors.index else ""

    def _read_and_find_mark(
        self, survivors: Survivors, table: TableSpec
    ) -> Iterator[Records]:
        for records in survivors.inspected(table):
            self._arrived |= bool((records["epoch"] == self._mark.epoch).any())
            yield records

    def _of(self, found: Comparison, failure: str) -> OtherNode:
        """Return the differences; a row that only the node has is extra."""
        whole = not found.new or self._manifest.plan().tables == (LEDGER,)
        return OtherNode(
            found.rows,
            found.count - found.new,
            tuple(row for row in found.changed if row.was_there),
            failure,
            "" if whole else "its other tables were not compared",
            found.new,
            _list_new_rows(found),
        )


def _describe_stuck_node(why: str, found: Comparison | None) -> OtherNode:
    """Return the extra rows of a node that does not apply all in time.

    found: the comparison of the ledger, from which nothing is ever deleted; None if it
    was not read.
    """
    if found is None:
        return OtherNode(not_done=why)
    return OtherNode(not_done=why, extra=found.new, first_extra=_list_new_rows(found))


def _list_new_rows(found: Comparison) -> tuple[ChangedRow, ...]:
    return tuple(row for row in found.changed if not row.was_there)
