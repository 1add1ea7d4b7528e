"""Reads the rows once more, after the server was restarted in an orderly way."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, NotBack, PowerError, TableLost, UsageError
from dbcheck.cycle.recovery.pods_again import explain_moved_pod
from dbcheck.cycle.recovery.reading import describe_other_lineage
from dbcheck.cycle.recovery.reading_log import ReadingLog
from dbcheck.cycle.recovery.survivors import Comparison, Survivors
from dbcheck.cycle.recovery.untrusted_run import find_log_of_run
from dbcheck.cycle.recovery.waiting import await_facts, read_settled_facts
from dbcheck.cycle.rig import Rig
from dbcheck.model.cluster import SiteKind
from dbcheck.model.records import AfterRecord, Manifest
from dbcheck.model.server import ServerFacts, is_restarted
from dbcheck.ports.listener import Phase
from dbcheck.rows.differences import SecondReading
from dbcheck.rows.survivors import Records
from dbcheck.rows.table import TableSpec
from dbcheck.runs.folder import RunFolder

UNFINISHED = SecondReading(not_done="the client ended before it was made")


def require_restarter(rig: Rig) -> None:
    """Raise UsageError if a second reading is wanted that cannot be made.

    Each node of a cluster may be the one that is read.
    """
    if not rig.read_twice:
        return
    require_readable_twice(rig.site.kind)
    for name, node in rig.site.nodes.items():
        if node.restarter is None:
            which = "the server" if rig.site.promise is None else f"node {name}"
            raise UsageError(
                f"--twice needs a way to restart {which} cleanly, and none is given",
                id=ErrorId.RESTART_COMMAND_MISSING,
                hint="Name a program: --restart-command 'ssh root@db1 systemctl restart"
                " postgresql', or dbcheck_restart in the inventory.",
            )


def require_readable_twice(kind: SiteKind) -> None:
    """Raise UsageError if a second reading of such a site would show nothing."""
    if kind.is_group:
        raise UsageError(
            "--twice is not possible with a group: a node that restarts copies what it"
            " lost from the others",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave it out; the rows of all nodes are compared in any case.",
        )


def read_second_time(
    rig: Rig,
    run: RunFolder,
    manifest: Manifest,
    after: AfterRecord,
    before: ServerFacts,
) -> SecondReading:
    """Restart the server, read every row again, and compare.

    after: the first reading, which is stored.  before: the facts of the server then.
    Raise PowerError if the drive failed and not the server.
    A restart may give the server another pod, and that one another volume; then this is
    no second reading of the same data.
    """
    found = _restart_and_read(rig, run, manifest, after, before)
    if found.not_done:
        return found
    name = rig.site.reader_name
    is_primary = name == manifest.writer_name and not rig.site.kind.is_group
    node, listener = rig.site.nodes[name], rig.listener
    doubt = explain_moved_pod(
        node, listener, manifest.nodes[name], is_primary=is_primary
    )
    if doubt:
        return SecondReading(not_done=f"after the restart, {doubt}")
    return found


def _restart_and_read(
    rig: Rig,
    run: RunFolder,
    manifest: Manifest,
    after: AfterRecord,
    before: ServerFacts,
) -> SecondReading:
    """Do what read_second_time() does, of whatever pod the server is in then."""
    restarter, engine = rig.site.reader.restarter, rig.site.reader.engine
    assert restarter is not None
    log = ReadingLog(rig.site, find_log_of_run(rig.site, run, manifest, before), before)
    rig.listener.phase(Phase.RESTART, "the server is stopped cleanly and started again")
    try:
        before = read_settled_facts(engine, rig.listener)
        restarter.restart()
        facts, failure = await_facts(rig)
    except (PowerError, EngineError) as error:
        return SecondReading(not_done=str(error))
    if facts is None:
        return SecondReading(failure=failure)
    if other := describe_other_lineage(rig.site, manifest, facts):
        return SecondReading(not_done=f"another server answers: {other}")
    if not is_restarted(before, facts):
        why = "its start time did not change: the server was not restarted"
        return SecondReading(not_done=why)
    orderly = log.had_orderly_end()
    if orderly is False:
        why = "its log shows no orderly shutdown before it started again"
        return SecondReading(not_done=why, orderly=False)
    detail = "every row, to be compared with the first reading"
    rig.listener.phase(Phase.READ_AGAIN, detail)
    try:
        return _SecondReader(rig, run, manifest, after, facts).compare(orderly=orderly)
    except TableLost as error:
        rig.site.failure()  # raises if it was the drive that went meanwhile
        return SecondReading(failure=str(error), orderly=orderly)
    except (NotBack, EngineError) as error:
        return SecondReading(not_done=str(error), orderly=orderly)


class _SecondReader:
    """Reads the rows of the server of *facts* for the second time, and compares."""

    def __init__(
        self,
        rig: Rig,
        run: RunFolder,
        manifest: Manifest,
        after: AfterRecord,
        facts: ServerFacts,
    ) -> None:
        self._run, self._after = run, after
        self._epoch = manifest.epoch
        self._survivors = Survivors(rig, run, manifest, facts)
        plan, engine = manifest.plan(), rig.site.reader.engine
        tables = plan.housekeeping_tables
        present = engine.present(tables, server=facts) if tables else ()
        stored = [table for table in tables if table.name in after.survivors]
        self._tables = (*plan.tables, *dict.fromkeys((*stored, *present)))
        self._absent = {table for table in tables if table not in present}
        # The first reading came before these transactions were decided.
        self._decided = {
            (transaction.session, transaction.seq) for transaction in after.left_over
        }

    def compare(self, *, orderly: bool | None) -> SecondReading:
        """Read, and compare table by table."""
        found = Comparison(self._run.path)
        for table in self._tables:
            found.add(
                table, partial(self._read_stored, table), partial(self._read_now, table)
            )
        index = self._survivors.index
        reason = index.reason if index else ""
        changed = tuple(found.changed)
        return SecondReading(found.rows, found.count, changed, reason, orderly)

    def _read_now(self, table: TableSpec) -> Iterator[Records]:
        if table not in self._absent:
            yield from map(self._drop_decided, self._survivors.inspected(table))

    def _read_stored(self, table: TableSpec) -> Iterator[Records]:
        if rows := self._after.survivors.get(table.name):
            yield from map(self._drop_decided, self._run.survivors(table.name, rows))

    def _drop_decided(self, records: Records) -> Records:
        """Return *records* without rows that a decision after the reading changed."""
        if not self._decided:
            return records
        names = zip(records["session"].tolist(), records["seq"].tolist(), strict=True)
        decided = np.array([name in self._decided for name in names], np.bool_)
        undecided: Records = records[~(decided & (records["epoch"] == self._epoch))]
        return undecided
