"""Registers, compared with the rows that the same transactions inserted.

Operation seq of a session inserts a row and writes register (seq - 1) % slots + 1 of
that session.  So a register and the newest inserted row of its slot must be of one
operation: if the register is older, the update of that row's transaction is gone; if it
is newer, the insert is.  Operations that are gone as a whole are judged by their rows
alone (core.reconcile).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dbcheck.core.distinct import distinct
from dbcheck.core.earlier import Earlier
from dbcheck.core.expected import Ints
from dbcheck.core.history import SESSION_MAX
from dbcheck.core.loss import CODES, Loss, LossArray, Losses, LossKind
from dbcheck.core.observed import AckStream, Observed, SurvivorStream
from dbcheck.core.reconcile import Reconciliation
from dbcheck.core.survivors import DIFFERENT, RECORD, Records
from dbcheck.core.table import TableSpec

_MISSING = [CODES[LossKind.MISSING_TAIL], CODES[LossKind.MISSING_HOLE]]


def judge_registers(
    inserted: Reconciliation,
    seen: Observed,
    rows: TableSpec,
    registers: TableSpec,
    *,
    epoch: int,
    slots: int,
) -> Reconciliation:
    """Return *inserted*, the fate of the inserted rows, with that of the registers.

    rows, registers: the two tables, read in one transaction.
    """
    acks, read = seen.acks, seen.survivors[registers.name]
    earlier = Earlier(seen.before[registers.name])
    own: list[Records] = []
    for records in read():
        mine = records["epoch"] == epoch
        earlier.add(records[~mine])
        own.append(records[mine])
    earlier.look_again(read)
    acked = _acked(acks)
    newest = _newest_rows(seen.survivors[rows.name], epoch, slots)
    found = _Found(np.concatenate([np.empty(0, RECORD), *own]), newest, acked, slots)
    losses, kept_less = found.losses(inserted.losses.columns)
    _date(losses, acks)
    parts = [*earlier.losses, losses]
    lost = Counter(inserted.earlier_lost) + Counter(earlier.lost())
    return replace(
        inserted,
        kept=inserted.kept - kept_less,
        foreign=inserted.foreign + earlier.foreign,
        earlier=inserted.earlier + earlier.rows,
        earlier_lost=dict(lost),
        losses=Losses.gathered(sum(map(len, parts)), parts),
        earlier_damaged=Counter(inserted.earlier_damaged) + earlier.damaged,
        earlier_altered=inserted.earlier_altered + earlier.altered,
    )


def _acked(acks: AckStream) -> Ints:
    """Return, by session, how many operations are confirmed."""
    acked = np.zeros(SESSION_MAX + 1, np.int64)
    for batch in acks():
        np.maximum.at(acked, batch["session"], batch["seq"].astype(np.int64))
    return acked


def _newest_rows(rows: SurvivorStream, epoch: int, slots: int) -> tuple[Ints, Ints]:
    """Return, by session and slot, the newest operation with a row, 0 if none.

    First by the intact rows, then by all: the key of a row that is not intact may be
    right or wrong.
    """
    intact = np.zeros((SESSION_MAX + 1, slots), np.int64)
    every = np.zeros_like(intact)
    for records in rows():
        own = records[(records["epoch"] == epoch) & (records["seq"] >= 1)]
        own = own[(own["session"] >= 0) & (own["session"] <= SESSION_MAX)]
        for newest, some in ((intact, own[own["content"] != DIFFERENT]), (every, own)):
            seq = some["seq"].astype(np.int64)
            np.maximum.at(newest, (some["session"], (seq - 1) % slots), seq)
    return intact, every


class _Found:
    """The registers of the cycle that were read, and what each should hold."""

    def __init__(
        self, registers: Records, newest: tuple[Ints, Ints], acked: Ints, slots: int
    ) -> None:
        self._registers, self._acked = registers, acked
        self._newest, self._perhaps = newest
        self._slots = slots

    def losses(self, inserted: LossArray) -> tuple[LossArray, int]:
        """Return all losses, and how many acked operations turned out not to be kept.

        inserted: the losses among the inserted rows; one whose register shows that
                  its transaction was committed is torn, and not missing.
        """
        held, damaged = self._held()
        found: list[Loss] = [*damaged]
        torn: set[tuple[int, int]] = set()
        kept_less = sum(loss.kind is LossKind.CORRUPT for loss in damaged)
        for session, slot in self._unlike(held):
            row, (seq, row_id) = int(self._newest[session, slot]), held[session, slot]
            if seq > row:
                torn.add((session, seq))
                found.append(Loss(LossKind.TORN, session, seq, row_id, -1))
            elif seq and row <= self._acked[session]:
                found.append(Loss(LossKind.STALE, session, row, row_id, -1))
                kept_less += 1
            else:  # no register, or that of an operation that was not acked
                found.append(Loss(LossKind.TORN, session, row, row_id, -1))
                kept_less += row <= int(self._acked[session])
        if torn:
            names = inserted["session"].astype(np.int64) << 32 | inserted["seq"]
            is_torn = np.isin(names, [session << 32 | seq for session, seq in torn])
            is_torn &= np.isin(inserted["kind"], _MISSING)
            inserted = inserted[~is_torn]
        both = np.concatenate([inserted, Losses.of(found).columns])
        return both, kept_less

    def _held(self) -> tuple[_Held, list[Loss]]:
        """Return what each register holds, and the rows that cannot be registers."""
        held, bad = _Held(), list[Loss]()
        for record in self._registers:
            session, seq, part = (int(record[n]) for n in ("session", "seq", "part"))
            row_id, name = int(record["row_id"]), (session, part - 1)
            known = 0 <= session <= SESSION_MAX and 1 <= part <= self._slots
            if not known:
                bad.append(Loss(LossKind.UNEXPECTED, session, seq, row_id, -1))
            elif name in held:
                bad.append(Loss(LossKind.DUPLICATE, session, seq, row_id, -1))
            elif record["content"] == DIFFERENT:
                newest = int(self._newest[name])
                bad.append(Loss(LossKind.CORRUPT, session, newest or -1, row_id, -1))
                held[name] = newest, row_id  # nothing else is known of it
            else:
                held[name] = seq, row_id
        return held, bad

    def _unlike(self, held: _Held) -> Iterator[tuple[int, int]]:
        """Yield the session and slot of each register that its row disagrees with."""
        written = {(s, slot) for s, slot in np.argwhere(self._newest).tolist()}
        for name in sorted(written | held.keys()):
            seq, _ = held[name]
            if seq not in (self._newest[name], self._perhaps[name]):
                yield name


class _Held(dict[tuple[int, int], tuple[int, int]]):
    """Session and slot -> the operation that the register holds, and its row's id.

    A register that is not there holds operation 0.
    """

    def __missing__(self, name: tuple[int, int]) -> tuple[int, int]:
        return 0, 0


def _date(losses: LossArray, acks: AckStream) -> None:
    """Fill in when the operations of *losses* were acked, where that is not known."""
    open_ones = np.flatnonzero((losses["acked_us"] < 0) & (losses["seq"] > 0))
    if not open_ones.size:
        return
    wanted = {
        (int(losses["session"][at]), int(losses["seq"][at])): at for at in open_ones
    }
    sessions = distinct(losses["session"][open_ones])
    for batch in acks():
        some = batch[np.isin(batch["session"], sessions)]
        for session, seq, acked_us in zip(
            some["session"].tolist(),
            some["seq"].tolist(),
            some["acked_us"].tolist(),
            strict=True,
        ):
            if (at := wanted.get((session, seq))) is not None:
                losses["acked_us"][at] = acked_us
