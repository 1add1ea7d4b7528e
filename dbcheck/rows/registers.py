"""Registers, compared with the ledger's rows of the operations that wrote them.

A register must hold what the newest operation wrote of those that write it and whose
row is in the ledger: if the register is older, that operation's update is gone; if it
is newer, the row is.  Operations that are gone as a whole are judged by their rows
alone (rows.reconcile).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import numpy as np

from dbcheck.rows.acks import SESSION_MAX, Ints
from dbcheck.rows.effects import Effects, Markers, split_by_epoch
from dbcheck.rows.loss import Loss, LossArray, Losses, LossKind
from dbcheck.rows.reconcile import Observed
from dbcheck.rows.survivors import DIFFERENT, Records
from dbcheck.rows.table import TableSpec

# Yields which parts which operations of a session wrote, up to that number.
Written = Callable[[int, int], Iterable[tuple[Ints, Ints]]]


def judge_registers(
    seen: Observed,
    table: TableSpec,
    epoch: int,
    markers: Markers,
    written: Written,
    parts: Collection[int],
) -> Effects:
    """Judge the operations that wrote registers to *table*, by its rows.

    table: read in one transaction with the rows of *markers*.
    parts: of the registers that a session has.
    """
    own, earlier = split_by_epoch(seen, table, epoch)
    newest = _find_newest_writers(markers, written, max(parts) + 1)
    found = _Found(table, own, newest, markers.acked, parts)
    return Effects(found.losses(), earlier)


def _find_newest_writers(
    markers: Markers, written: Written, count: int
) -> tuple[Ints, Ints]:
    """Return, by session and part, the newest operation that wrote it, 0 if none.

    First by the ledger's intact rows, then by all.  count: of the parts, from 0 on.
    """
    intact = np.zeros((SESSION_MAX + 1, count), np.int64)
    every = np.zeros_like(intact)
    for session in markers.sessions():
        for parts, seq in written(session, int(markers.tops[session])):
            shown = markers.present(session, seq), markers.perhaps(session, seq)
            for newest, there in zip((intact, every), shown, strict=True):
                np.maximum.at(newest[session], parts[there], seq[there])
    return intact, every


class _Found:
    """The registers of the cycle that were read, and what each should hold.

    table:  that they were read from.
    newest: see _find_newest_writers().  acked: by session, how many operations are
    confirmed.
    parts:  of the registers that a session has.
    """

    def __init__(
        self,
        table: TableSpec,
        registers: Records,
        newest: tuple[Ints, Ints],
        acked: Ints,
        parts: Collection[int],
    ) -> None:
        self._table, self._registers = table, registers
        self._acked, self._parts = acked, parts
        self._newest, self._perhaps = newest

    def losses(self) -> LossArray:
        """Return all losses."""
        held, found = self._held()
        for session, part in self._list_disagreeing_registers(held):
            row, (seq, row_id) = int(self._newest[session, part]), held[session, part]
            if seq > row:
                found.append(self._loss(LossKind.TORN, session, seq, row_id))
            elif seq and row <= self._acked[session]:
                found.append(self._loss(LossKind.STALE, session, row, row_id))
            else:  # no register, or that of an operation that was not acked
                found.append(self._loss(LossKind.TORN, session, row, row_id))
        return Losses.of(found).columns

    def _held(self) -> tuple[_Held, list[Loss]]:
        """Return the value of each register, and the rows that cannot be registers."""
        held, bad = _Held(), list[Loss]()
        for record in self._registers:
            session, seq, part = (int(record[n]) for n in ("session", "seq", "part"))
            row_id, name = int(record["row_id"]), (session, part)
            known = 0 <= session <= SESSION_MAX and part in self._parts
            if not known:
                bad.append(self._loss(LossKind.UNEXPECTED, session, seq, row_id))
            elif name in held:
                bad.append(self._loss(LossKind.DUPLICATE, session, seq, row_id))
            elif record["content"] == DIFFERENT:
                newest = int(self._newest[name])
                bad.append(self._loss(LossKind.CORRUPT, session, newest or -1, row_id))
                held[name] = newest, row_id  # nothing else is known of it
            else:
                held[name] = seq, row_id
        return held, bad

    def _loss(self, kind: LossKind, session: int, seq: int, row_id: int) -> Loss:
        return Loss(kind, session, seq, row_id, -1, self._table.name)

    def _list_disagreeing_registers(self, held: _Held) -> Iterator[tuple[int, int]]:
        """Yield the session and part of each register that its row disagrees with."""
        written = {(s, part) for s, part in np.argwhere(self._newest).tolist()}
        for name in sorted(written | held.keys()):
            seq, _ = held[name]
            if seq not in (self._newest[name], self._perhaps[name]):
                yield name


class _Held(dict[tuple[int, int], tuple[int, int]]):
    """Session and part -> the operation that the register holds, and its row's id.

    A register that is not there holds operation 0.
    """

    def __missing__(self, name: tuple[int, int]) -> tuple[int, int]:
        return 0, 0
