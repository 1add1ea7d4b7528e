"""Judges a stored run and lists its losses; touches no server and no witness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from dbcheck.base.errors import LogDamaged
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.stored_run import RowStore, StoredLogs
from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import find_cut_us
from dbcheck.judge.judge import has_other_data, judge
from dbcheck.judge.result import to_values
from dbcheck.model.family import FAMILIES
from dbcheck.model.records import AfterRecord
from dbcheck.ports.listener import Progress, Reporter, Unit, ignore_progress
from dbcheck.ports.witness import LogReader
from dbcheck.restore.judging import judge_restored
from dbcheck.restore.loss import find_law
from dbcheck.rows.copied import judge_copy, keep_due
from dbcheck.rows.differences import ChangedRow, RowsLeftOnNode, find_rows_left_on_node
from dbcheck.rows.loss import LossKind
from dbcheck.rows.lossshape import LossShape, Windows, find_shape_of_losses
from dbcheck.rows.plans.plan import Plan
from dbcheck.rows.reconcile import Claim, Observed, Reconciliation, SurvivorStream
from dbcheck.rows.schedule import Sizes
from dbcheck.rows.seen import SeenRows, judge_seen_rows
from dbcheck.rows.summary import AckStream, AckSummary
from dbcheck.rows.survivors import Records
from dbcheck.rows.table import LEDGER
from dbcheck.rows.tasks import HousekeepingTasks
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import StoredRun

HEADER = "kind,session,seq,row_id,acked_utc,acked_before_cut_s,table\n"


def format_losses(
    found: Reconciliation | None,
    after: AfterRecord,
    shift_us: int,
    before_cut_s: Callable[[int], float | None],
) -> Iterator[str]:
    """Yield a line for each loss, by table and id; last the losses without a read row.

    A loss without a read row has no time of the ack.  A loss that an index shows has no
    session and seq, either, as the index is asked for ids alone.

    shift_us:     difference of the wall clock to the clock of the acks.
    before_cut_s: returns how long before the cut an ack came, None if not known.
    """
    yield HEADER
    if found is None:
        return
    for kind, session, seq, row_id, acked_us, table in found.losses.by_id():
        acked = _format_utc(acked_us + shift_us) if acked_us >= 0 else ""
        before_s = before_cut_s(acked_us)
        before = "" if before_s is None else f"{before_s:.4f}"
        yield f"{kind.value},{session},{seq},{row_id},{acked},{before},{table}\n"
    yield from _list_losses_without_row(after)


def _list_losses_without_row(after: AfterRecord) -> Iterator[str]:
    """Yield the losses that no row which was read first shows."""
    if index := after.index:
        for row_id in index.ids:
            yield f"{LossKind.INDEX_MISMATCH.value},,,{row_id},,,{index.table}\n"
    if conditions := after.conditions:
        for broken in conditions.broken:
            yield f"{LossKind.INCONSISTENT.value},{broken.session},,,,,\n"
    if again := after.again:
        yield from _format_loss_rows(LossKind.UNSTABLE, again.first)
    for other in after.others.values():
        yield from _format_loss_rows(LossKind.DIVERGED, other.first)


def _format_loss_rows(kind: LossKind, rows: Iterable[ChangedRow]) -> Iterator[str]:
    for row in rows:
        key_and_id = f"{row.session},{row.seq},{row.row_id}"
        yield f"{kind.value},{key_and_id},,,{row.table}\n"


def _format_utc(wall_us: int) -> str:
    """Return a moment as ISO 8601, "" if it is out of range: logs may hold anything."""
    try:
        moment = datetime.fromtimestamp(wall_us / 1e6, UTC)
    except (OverflowError, ValueError):
        return ""
    return moment.isoformat(timespec="milliseconds")


def judge_run(
    run: RunFolder, reader: LogReader, report: Reporter = ignore_progress
) -> Outcome:
    """Reconcile a run whose log and survivors are stored; write losses and verdict.

    Nothing is written in a folder that others may change; its run is only judged.
    report: is told how many rows of each table were judged, from 0 for each pass.
    """
    records = run.read()
    case = _reconcile_case(run, reader, _build_case(records), report)
    is_copy = case.manifest.copy is not None
    judgement = judge_restored(case) if is_copy else judge(case)
    outcome = Outcome(run, case, judgement, records.recalled)
    if stored.may_write(run.path):
        manifest, after = case.manifest, case.after
        shift_us = manifest.wall_us - manifest.clock_us
        lines = format_losses(case.found, after, shift_us, outcome.before_cut_s)
        run.write_lines("losses.csv", lines)
        run.write_verdict(to_values(outcome.result))
    return outcome


def _build_case(records: StoredRun) -> Case:
    return Case(
        records.manifest,
        records.load,
        records.restore,
        records.after,
        cut_asked=records.cut_asked,
        outage=records.outage,
        fault=records.fault,
        copy=records.copy,
    )


def _reconcile_case(
    run: RunFolder, reader: LogReader, case: Case, report: Reporter
) -> Case:
    """Return *case* with the facts of the witness's logs and the fate of the rows."""
    try:
        logs = StoredLogs(run, reader, case.manifest, case.load)
        case = replace(case, logs=tuple(logs.facts()), clock_set=logs.clock_set)
        if case.after.facts is None or case.after.failure or _is_other_data(case):
            return case
        found = judge_run_rows(run, logs.acks, case, report, logs.summary)
        if (law := find_law(case)) is not None:
            found, copied = judge_copy(logs.acks, found, law)
            case = replace(case, copied=copied)
        seen = _judge_seen_rows(run, logs, case)
        return replace(
            case,
            found=found,
            seen=seen,
            shape=_measure_loss_shape(found, logs, case),
            left=_find_rows_left_behind(run, found, case),
        )
    except LogDamaged as error:
        return replace(case, damage=str(error))


def _is_other_data(case: Case) -> bool:
    """Return True if other data answered; the rows of a copy show whose they are."""
    return case.manifest.copy is None and has_other_data(case)


def _measure_loss_shape(
    found: Reconciliation, logs: StoredLogs, case: Case
) -> LossShape | None:
    if not found.losses:
        return None
    schedule, plan = case.manifest.schedule(), case.manifest.plan()
    tables = (*plan.tables, *plan.housekeeping_tables)
    sizes = Sizes(schedule) if len(set(schedule.payload_bytes)) > 1 else None
    kinds, windows = case.manifest.workload.housekeeping, None
    if kinds and not case.manifest.control:
        windows = Windows(
            HousekeepingTasks(case.manifest.seed, kinds),
            logs.acks,
            to_the_cut=case.load is None or case.load.task_at_end > 0,
        )
    acks: AckStream = logs.acks
    went_us, late_us = find_cut_us(case), logs.late_us
    if case.copied is not None:  # it need not have the others
        acks = keep_due(acks, case.copied)
    if not case.manifest.is_cut:
        went_us = None
    return find_shape_of_losses(
        found.losses, acks, went_us, sizes, tables, windows, late_us
    )


def judge_run_rows(
    run: RowStore,
    acks: AckStream,
    case: Case,
    report: Reporter = ignore_progress,
    summary: AckSummary | None = None,
) -> Reconciliation:
    """Return the fate of *acks* and of the rows that were read; see Plan.judge().

    summary: of *acks*, if they were read already.
    """
    plan, load = case.manifest.plan(), case.load
    names = _list_tables_read(plan, case)
    return plan.judge(
        Observed(
            acks,
            {
                name: partial(_stream_survivors, run, name, case, report)
                for name in names
            },
            case.manifest.tables,
            Claim(load.sent, load.acked) if load else None,
            case.manifest.window_acks,
            case.after.left_over,
            FAMILIES[case.manifest.family].has_atomic_ddl,
            summary,
        )
    )


def _stream_survivors(
    run: RowStore, name: str, case: Case, report: Reporter
) -> Iterator[Records]:
    """Yield the stored rows of a table; report how many were yielded."""
    rows, done = case.after.stored_rows(name), 0
    total = rows.rows if name in case.after.survivors else None
    for records in run.survivors(name, rows):
        yield records
        done += len(records)
        report(Progress(name, done, total, Unit.ROWS))


def _list_tables_read(plan: Plan, case: Case) -> list[str]:
    """Return the names of the tables whose rows were read.

    Side tables that were not there are left out.
    """
    sides = [
        table
        for table in plan.housekeeping_tables
        if table.name in case.after.survivors
    ]
    return [table.name for table in (*plan.tables, *sides)]


def _find_rows_left_behind(
    run: RunFolder, found: Reconciliation, case: Case
) -> dict[str, RowsLeftOnNode]:
    """Return the rows of the other nodes that the node which was read lacks."""
    survivors = _stream_ledger(run, case)
    left = {}
    for name, other in case.after.elsewhere.items():
        if other.rows is not None:
            rows = run.read_survivors_elsewhere(name, LEDGER.name, other.rows)
            left[name] = find_rows_left_on_node(
                rows, survivors(), found.losses, case.manifest.epoch
            )
    return left


def _judge_seen_rows(run: RunFolder, logs: StoredLogs, case: Case) -> SeenRows | None:
    """Return the fate of the rows that readers saw, None if it cannot be told."""
    manifest, load = case.manifest, case.load
    if not manifest.seen_log or load is None or manifest.copy is not None:
        return None  # of a copy: what was seen after it need not be there
    claim = Claim(load.sent, load.acked)
    return judge_seen_rows(
        logs.seen,
        logs.summary.counts,
        _stream_ledger(run, case),
        manifest.epoch,
        claim,
    )


def _stream_ledger(run: RunFolder, case: Case) -> SurvivorStream:
    return partial(run.survivors, LEDGER.name, case.after.stored_rows(LEDGER.name))
