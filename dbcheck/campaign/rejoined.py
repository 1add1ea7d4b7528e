"""Has the other nodes follow the one that was read, and compares their rows.

It shows what a client of a replica sees once the cluster is whole again: an old writer
that follows the new one without an error may hold rows that the latter never had.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from dbcheck import interrupt
from dbcheck.campaign.comparing import Comparison, compare_stored
from dbcheck.campaign.rig import Rig
from dbcheck.campaign.survivors import Survivors
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError, TableLost
from dbcheck.load.commit import commit
from dbcheck.model.records import AfterRecord, Manifest
from dbcheck.ports.abilities import replicates
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Node, Site
from dbcheck.rows.acks import PREFLIGHT_SESSION
from dbcheck.rows.differences import ChangedRow, OtherNode
from dbcheck.rows.plans.plan import InsertPlan
from dbcheck.rows.schedule import EPOCH_MAX, Schedule
from dbcheck.rows.survivors import Records
from dbcheck.rows.table import LEDGER, TableSpec
from dbcheck.runs import RunFolder

FOLLOWS_S, POLL_S = 30.0, 0.2
_MARK_BYTES = 16


def read_rejoined(
    rig: Rig, run: RunFolder, manifest: Manifest, after: AfterRecord
) -> dict[str, OtherNode]:
    """Return how the rows of every other node compare once it has rejoined.

    after: what was read, and is stored.
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
        else _Rejoined(rig, run, manifest, mark).compared(site.nodes[name])
        for name in names
    }


class _Mark:
    """A row on the new writer, whose arrival shows that all before it was applied.

    epoch: by which it is known, 0 as long as it was not committed.
    """

    def __init__(self, site: Site) -> None:
        self._site, self.epoch = site, 0

    def commit(self) -> None:
        """Commit it, once; raise EngineError.

        Only when a node follows: the new writer may be set to wait for one.
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

    def compared(self, node: Node) -> OtherNode:
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
            return _of_stuck(str(error), self._extra)

    def _await_following(self, node: Node) -> None:
        """Return once it is connected at two looks: one that is refused is, shortly."""
        seen = 0
        while seen < 2:
            seen = seen + 1 if self._follows(node) else 0
            self._pause("it does not follow the new writer")

    def _follows(self, node: Node) -> bool:
        engine = node.engine
        assert replicates(engine)  # as every node of a cluster
        try:
            return engine.membership() is not None and engine.received().connected
        except EngineError:  # it starts
            return False

    def _pause(self, late: str) -> None:
        interrupt.require_none()
        if time.monotonic() >= self._ends_s:
            raise EngineError(
                f"{late} within {FOLLOWS_S:g} s (its log says why)",
                id=ErrorId.WRITER_DID_NOT_REJOIN,
            )
        time.sleep(POLL_S)

    def _read(self, node: Node) -> tuple[Comparison, str]:
        """Compare the tables, the ledger first, as long as the mark is there.

        Operations that the node alone has, as the ledger shows, change its other tables
        as well, so these are not compared then.  Return also why a table disagrees with
        its own index, "" if none does.
        """
        found = Comparison(self._run.path)
        facts = replace(node.engine.facts(), may_follow=True)
        survivors = Survivors(self._rig, self._run, self._manifest, facts, node)
        tables = self._manifest.plan().tables
        for table in sorted(tables, key=lambda table: table != LEDGER):
            rows = partial(self._watched, survivors, table)
            compare_stored(found, table, self._run, rows)
            if not self._arrived or found.new:
                break
        return found, survivors.index.reason if survivors.index else ""

    def _watched(self, survivors: Survivors, table: TableSpec) -> Iterator[Records]:
        for records in survivors.inspected(table):
            self._arrived |= bool((records["epoch"] == self._mark.epoch).any())
            yield records

    def _of(self, found: Comparison, failure: str) -> OtherNode:
        """Return what differs; a row that the node alone has is extra."""
        whole = not found.new or self._manifest.plan().tables == (LEDGER,)
        return OtherNode(
            found.rows,
            found.count - found.new,
            tuple(row for row in found.changed if row.was_there),
            failure,
            "" if whole else "its other tables were not compared",
            found.new,
            _new(found),
        )


def _of_stuck(why: str, found: Comparison | None) -> OtherNode:
    """Return what a node alone has that does not apply the rest.

    found: of the ledger, from which nothing is ever deleted; None if it was not read.
    """
    if found is None:
        return OtherNode(not_done=why)
    return OtherNode(not_done=why, extra=found.new, first_extra=_new(found))


def _new(found: Comparison) -> tuple[ChangedRow, ...]:
    return tuple(row for row in found.changed if not row.was_there)
