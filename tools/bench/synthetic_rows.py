"""The rows that operations of a synthetic run leave in tables beside the first one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from dbcheck.model.records import Manifest
from dbcheck.rows.decks import Decks
from dbcheck.rows.mix import Mix
from dbcheck.rows.plans.mixed import list_dealt_items, list_dealt_registers
from dbcheck.rows.survivors import RECORD, Records
from dbcheck.rows.table import ITEM, TableSpec


def rows_of(
    table: TableSpec, manifest: Manifest, counts: Mapping[int, int]
) -> Iterator[Records]:
    """Yield what *table* holds if nothing was lost.

    counts: session -> operations, all of which were committed.
    """
    decks = Decks(manifest.workload.operations or Mix(registers=1), manifest.seed)
    written, last = _items if table == ITEM else _newest_writes, 0
    for session, count in counts.items():
        for part, seq in written(decks, session, count):
            records = np.zeros(len(seq), RECORD)
            records["row_id"] = np.arange(last + 1, last + len(seq) + 1)
            records["epoch"], records["session"] = manifest.epoch, session
            records["part"], records["seq"] = part, seq
            last += len(seq)
            yield records


def _items(decks: Decks, session: int, count: int) -> Iterator[np.ndarray]:
    """Yield part and seq of the items of a session that are there in the end."""
    for items in list_dealt_items(decks, session, count):
        is_there = (items.inserted > 0) & (items.inserted <= count)
        is_there &= (items.deleted == 0) | (items.deleted > count)
        is_updated = (items.updated > 0) & (items.updated <= count)
        seq = np.where(is_updated, items.updated, items.inserted)
        yield np.array([items.part[is_there], seq[is_there]])


def _newest_writes(decks: Decks, session: int, count: int) -> Iterator[np.ndarray]:
    """Yield part and seq of each register of a session, as it was written last."""
    newest = np.zeros(max(decks.registers) + 1, np.int64)
    for parts, seq in list_dealt_registers(decks, session, count):
        was_sent = seq <= count
        np.maximum.at(newest, parts[was_sent], seq[was_sent])
    written = np.flatnonzero(newest)
    yield np.array([written, newest[written]])
