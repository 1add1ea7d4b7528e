"""The side tables, compared with the chores whose rows in the ledger are there.

Chores are done one after the other, and each leaves its row in the ledger once it is
done.  So the side tables must be as the last chore that left one had them; on a server
that commits a chore's change by itself, also as the next one's change made them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from dbcheck.rows.chores import INSERTING, Chores, Side, State, halfway
from dbcheck.rows.earlier import Earlier
from dbcheck.rows.effects import Effects
from dbcheck.rows.history import HOUSEKEEPING_SESSION
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.markers import Markers
from dbcheck.rows.observed import Observed
from dbcheck.rows.survivors import DIFFERENT, RECORD, Records
from dbcheck.rows.table import SIDES, TableFacts

# Families of servers whose CREATE, DROP, TRUNCATE and ALTER are part of a transaction.
ATOMIC_DDL = frozenset({"postgresql"})
_TORN, _RESURRECTED = LossKind.TORN, LossKind.RESURRECTED
_NO_ID = -1


def judge_sides(
    seen: Observed, epoch: int, markers: Markers, chores: Chores
) -> Effects:
    """Return what the side tables show of the chores.

    A table that was dropped and cannot be opened is gone with its rows; what is left is
    its name (docs/findings.md), which evidence shows and which is no loss.
    """
    top = int(markers.tops[HOUSEKEEPING_SESSION])
    numbers = np.arange(1, top + 1, dtype=np.int64)
    left = numbers[markers.perhaps(HOUSEKEEPING_SESSION, numbers)]
    last = int(left.max(initial=0))
    found = {
        table.name: _Found(
            np.concatenate([np.empty(0, RECORD), *seen.survivors[table.name]()]),
            epoch,
        )
        for table in SIDES
        if table.name in seen.survivors
    }
    acked = int(markers.acked[HOUSEKEEPING_SESSION])
    states = _legal(chores, last, max(last, acked), top, seen.is_ddl_atomic)
    differences = min(
        (list(_differences(state, found, chores, last, top)) for state in states),
        key=len,
    )
    losses = [*differences, *_strange(found, chores, top)]
    return Effects(Losses.of(losses).columns, Earlier(SIDES[0], TableFacts({}, 0)))


def _legal(
    chores: Chores, last: int, acked: int, top: int, is_ddl_atomic: bool
) -> Iterator[State]:
    """Yield what the side tables may be; what they should be first.

    last:  the last chore that left its row.  acked: the last that was confirmed; if its
           row is gone, that is a loss already, and its change may be there or not.
    """
    for number in range(last, acked + 1):
        yield chores.state(number)
        if not is_ddl_atomic and number < top:
            yield halfway(chores.state(number), chores.chore(number + 1))


class _Found:
    """A side table as it was read.

    parts: chore -> how many of its rows are there and intact, each counted once.
    ids:   chore -> the id of one of them.
    again: chores some of whose rows are there twice.
    """

    def __init__(self, records: Records, epoch: int) -> None:
        own = (records["epoch"] == epoch) & (records["content"] != DIFFERENT)
        own &= records["session"] == HOUSEKEEPING_SESSION
        self.strange = records[~own]
        self.ids: dict[int, int] = {}
        rows: Counter[tuple[int, int]] = Counter()
        for seq, part, row_id in records[own][["seq", "part", "row_id"]].tolist():
            rows[seq, part] += 1
            self.ids[seq] = row_id
        self.parts = Counter(seq for seq, _ in rows)
        self.again = {seq for (seq, _), count in rows.items() if count > 1}


def _differences(
    state: State,
    found: Mapping[str, _Found],
    chores: Chores,
    last: int,
    top: int,
) -> Iterator[Loss]:
    """Yield what is not so in the tables that were *found*, one loss for each chore."""
    for table in SIDES:
        side, there = state.get(table.name), found.get(table.name)
        if side is None and there is not None:
            yield _not_gone(table.name, there, chores, last, top)
        elif side is not None and there is None:
            yield _loss(_TORN, table.name, side.created)
        elif side is not None and there is not None:
            yield from _other_rows(table.name, side, there, chores, last, top)


def _not_gone(name: str, there: _Found, chores: Chores, last: int, top: int) -> Loss:
    """Return the loss of a table that is there although it should not be."""
    row_id = max(there.ids.values(), default=_NO_ID)
    if last < top and name in chores.state(last + 1):
        return _loss(_TORN, name, last + 1, row_id)
    dropped = (n for n in range(last, 0, -1) if name in chores.state(n - 1))
    number = next(dropped, -1)
    kind = LossKind.UNEXPECTED if number < 0 else _RESURRECTED
    return _loss(kind, name, number, row_id)


def _other_rows(
    name: str, side: Side, there: _Found, chores: Chores, last: int, top: int
) -> Iterator[Loss]:
    for number in side.filled:
        if there.parts[number] < INSERTING[chores.chore(number).kind]:
            yield _loss(_TORN, name, number)
    for number in sorted(there.parts.keys() - set(side.filled)):
        if number <= last:
            yield _loss(_RESURRECTED, name, number, there.ids[number])
        elif number <= top:
            yield _loss(_TORN, name, number, there.ids[number])


def _strange(found: Mapping[str, _Found], chores: Chores, top: int) -> Iterator[Loss]:
    """Yield the rows that are wrong whatever the chores did."""
    for name, there in found.items():
        for number in sorted(there.again):
            yield _loss(LossKind.DUPLICATE, name, number, there.ids[number])
        for number in sorted(n for n in there.parts if not 1 <= n <= top):
            yield _loss(LossKind.UNEXPECTED, name, number, there.ids[number])
        for row in there.strange[["session", "seq", "row_id", "content"]].tolist():
            session, seq, row_id, content = row
            own = session == HOUSEKEEPING_SESSION and 1 <= seq <= top
            if content == DIFFERENT and own:
                yield _loss(LossKind.CORRUPT, name, seq, row_id)
            else:
                yield Loss(LossKind.UNEXPECTED, session, seq, row_id, -1, name)


def _loss(kind: LossKind, name: str, number: int, row_id: int = _NO_ID) -> Loss:
    return Loss(kind, HOUSEKEEPING_SESSION, number, row_id, -1, name)
