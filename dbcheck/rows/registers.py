"""Judges registers by the ledger's rows of the operations that wrote them.

A register is a row that operations overwrite; the row of one session and one part.  It
holds the seq of the operation that wrote it last.

Of the operations that write a register and have a row in the ledger, the newest
decides what the register must hold.  If the register is older, the update of that
operation is gone; if it is newer, the row of a later operation is gone.  Operations
that are gone as a whole are judged by their rows alone (rows.reconcile).
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

# Takes a session and a seq; yields the parts of the registers that the operations of
# the session up to that seq write, and the seq of the operation that writes each.
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
    parts: the parts of the registers that a session has.
    """
    own, earlier = split_by_epoch(seen, table, epoch)
    newest = _find_newest_writers(markers, written, max(parts) + 1)
    registers = _ReadRegisters(table, own, newest, markers.acked, parts)
    return Effects(registers.list_losses(), earlier)


def _find_newest_writers(
    markers: Markers, written: Written, count: int
) -> tuple[Ints, Ints]:
    """Return the newest operation that wrote each register, by session and part.

    0 if none did.  The first array counts only the intact rows of the ledger, the
    second all its rows.

    count: how many parts there are, from 0 on.
    """
    by_intact_rows = np.zeros((SESSION_MAX + 1, count), np.int64)
    by_all_rows = np.zeros_like(by_intact_rows)
    for session in markers.sessions():
        for parts, seq in written(session, int(markers.tops[session])):
            has_intact_row = markers.present(session, seq)
            has_row = markers.perhaps_present(session, seq)
            for newest, is_counted in (
                (by_intact_rows, has_intact_row),
                (by_all_rows, has_row),
            ):
                np.maximum.at(newest[session], parts[is_counted], seq[is_counted])
    return by_intact_rows, by_all_rows


class _ReadRegisters:
    """The registers of the cycle that were read, and what each should hold.

    table:  from which they were read.
    newest: see _find_newest_writers().
    acked:  by session, how many operations are confirmed.
    parts:  the parts of the registers that a session has.
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
        self._newest, self._newest_by_all_rows = newest

    def list_losses(self) -> LossArray:
        """Return all losses."""
        held, losses = self._read_registers()
        for session, part in self._list_disagreeing_registers(held):
            newest, (seq, row_id) = (
                int(self._newest[session, part]),
                held[session, part],
            )
            if seq > newest:
                losses.append(self._make_loss(LossKind.TORN, session, seq, row_id))
            elif seq and newest <= self._acked[session]:
                losses.append(self._make_loss(LossKind.STALE, session, newest, row_id))
            else:  # the register is missing, or its newest operation was not acked
                losses.append(self._make_loss(LossKind.TORN, session, newest, row_id))
        return Losses.of(losses).columns

    def _read_registers(self) -> tuple[_HeldOperations, list[Loss]]:
        """Return what each register holds, and the losses of unsound rows."""
        held, losses = _HeldOperations(), list[Loss]()
        for record in self._registers:
            session, seq, part = (int(record[n]) for n in ("session", "seq", "part"))
            row_id, register = int(record["row_id"]), (session, part)
            is_known = 0 <= session <= SESSION_MAX and part in self._parts
            if not is_known:
                losses.append(
                    self._make_loss(LossKind.UNEXPECTED, session, seq, row_id)
                )
            elif register in held:
                losses.append(self._make_loss(LossKind.DUPLICATE, session, seq, row_id))
            elif record["content"] == DIFFERENT:
                # The key of the loss is that of the operation that should have written
                # the register last; -1 if the ledger has no intact row of any.
                newest = int(self._newest[register])
                losses.append(
                    self._make_loss(LossKind.CORRUPT, session, newest or -1, row_id)
                )
                # What it holds is not known, so it does not disagree with the ledger.
                held[register] = newest, row_id
            else:
                held[register] = seq, row_id
        return held, losses

    def _make_loss(self, kind: LossKind, session: int, seq: int, row_id: int) -> Loss:
        return Loss(kind, session, seq, row_id, -1, self._table.name)

    def _list_disagreeing_registers(
        self, held: _HeldOperations
    ) -> Iterator[tuple[int, int]]:
        """Yield session and part of each register that disagrees with the ledger."""
        written = {(s, part) for s, part in np.argwhere(self._newest).tolist()}
        for register in sorted(written | held.keys()):
            seq, _ = held[register]
            newest = self._newest[register], self._newest_by_all_rows[register]
            if seq not in newest:
                yield register


class _HeldOperations(dict[tuple[int, int], tuple[int, int]]):
    """Session and part -> the operation that wrote the register, and the row's id.

    A register that is not there holds operation 0.
    """

    def __missing__(self, register: tuple[int, int]) -> tuple[int, int]:
        return 0, 0
