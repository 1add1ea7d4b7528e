"""losses.csv: every loss, where the report shows only ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from dbcheck.model.records import AfterRecord
from dbcheck.rows.differences import ChangedRow
from dbcheck.rows.loss import LossKind
from dbcheck.rows.reconcile import Reconciliation

HEADER = "kind,session,seq,row_id,acked_utc,acked_before_cut_s,table\n"


def loss_lines(
    found: Reconciliation | None,
    after: AfterRecord,
    shift_us: int,
    before_cut_s: Callable[[int], float | None],
) -> Iterator[str]:
    """Yield a line for each loss, by table and id; last those that no row read shows.

    Of these the time of the ack stays empty, and of an index, which is asked for ids
    alone, session and seq as well.

    shift_us:     from the clock of the acks to that of the wall.
    before_cut_s: how long before the cut an ack came, None if that is not known.
    """
    yield HEADER
    if found is None:
        return
    for kind, session, seq, row_id, acked_us, table in found.losses.by_id():
        acked = _utc(acked_us + shift_us) if acked_us >= 0 else ""
        before_s = before_cut_s(acked_us)
        before = "" if before_s is None else f"{before_s:.4f}"
        yield f"{kind.value},{session},{seq},{row_id},{acked},{before},{table}\n"
    yield from _beside_rows(after)


def _beside_rows(after: AfterRecord) -> Iterator[str]:
    """Yield the losses that no row which was read first shows."""
    if index := after.index:
        for row_id in index.ids:
            yield f"{LossKind.INDEX_MISMATCH.value},,,{row_id},,,{index.table}\n"
    if conditions := after.conditions:
        for broken in conditions.broken:
            yield f"{LossKind.INCONSISTENT.value},{broken.session},,,,,\n"
    if again := after.again:
        yield from _named(LossKind.UNSTABLE, again.first)
    for other in after.others.values():
        yield from _named(LossKind.DIVERGED, other.first)


def _named(kind: LossKind, rows: Iterable[ChangedRow]) -> Iterator[str]:
    for row in rows:
        named = f"{row.session},{row.seq},{row.row_id}"
        yield f"{kind.value},{named},,,{row.table}\n"


def _utc(wall_us: int) -> str:
    """Return a moment as ISO 8601, "" if it is out of range: logs may hold anything."""
    try:
        moment = datetime.fromtimestamp(wall_us / 1e6, UTC)
    except (OverflowError, ValueError):
        return ""
    return moment.isoformat(timespec="milliseconds")
