"""Hand-made acks and survivors for the tests of what judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dbcheck.rows.acks import Ack, AckArray, pack, unpack
from dbcheck.rows.reconcile import Claim, Observed, Reconciliation, reconcile
from dbcheck.rows.survivors import INTACT, RECORD, Records
from dbcheck.rows.table import LEDGER, TableFacts

EPOCH = 77
SEED = 5
NOTHING_BEFORE = TableFacts({}, 0)


def ack(session: int, seq: int) -> Ack:
    """Return the ack of one operation, with an id and a time that tell it apart."""
    return Ack(session, seq, 1000 * session + seq, 1_000_000 + 100 * seq)


def acks_of(counts: Mapping[int, int]) -> list[Ack]:
    """Return the acks of sessions that each committed so many rows, interleaved."""
    most = max(counts.values(), default=0)
    return [
        ack(session, seq)
        for seq in range(1, most + 1)
        for session, count in counts.items()
        if seq <= count
    ]


def array_of(acks: Sequence[Ack]) -> list[AckArray]:
    """Return *acks* as a log gives them, in two batches."""
    half = len(acks) // 2
    return [unpack(pack(part)) for part in (acks[:half], acks[half:]) if part]


def record(
    session: int,
    seq: int,
    *,
    epoch: int = EPOCH,
    part: int = 0,
    checksum: int = 0,
    content: int = INTACT,
    row_id: int | None = None,
) -> tuple[int, ...]:
    """Return one survivor."""
    place = 1000 * session + seq if row_id is None else row_id
    return (place, epoch, session, seq, part, checksum, content)


def records_of(rows: Iterable[tuple[int, ...]]) -> Records:
    """Return survivors as the run folder gives them."""
    return np.array(list(rows), RECORD)


def reconciled(
    counts: Mapping[int, int],
    rows: Iterable[tuple[int, ...]],
    *,
    before: TableFacts = NOTHING_BEFORE,
    claim: Claim | None = None,
    window_acks: int = 10,
) -> Reconciliation:
    """Reconcile so many acks of each session with the survivors *rows*."""
    acks, records = array_of(acks_of(counts)), records_of(rows)
    half = len(records) // 2
    seen = Observed(
        lambda: acks,
        {"ledger": lambda: [records[:half], records[half:]]},
        {"ledger": before},
        claim,
        window_acks,
    )
    return reconcile(seen, LEDGER, EPOCH)
