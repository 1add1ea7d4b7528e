"""Rows of the plan `registers`, and their judgement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dbcheck.rows.loss import LossKind
from dbcheck.rows.mix import Mix
from dbcheck.rows.plans.mixed import MixedPlan
from dbcheck.rows.reconcile import Claim, Observed, Reconciliation
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import TableFacts
from tests.kit.cycles import (
    EPOCH,
    NOTHING_BEFORE,
    SEED,
    acks_of,
    array_of,
    record,
    records_of,
)

SLOTS = 4
TAIL, HOLE = LossKind.MISSING_TAIL, LossKind.MISSING_HOLE
Rows = list[tuple[int, ...]]


def rows_of(session: int, seqs: Iterable[int]) -> Rows:
    return [record(session, seq) for seq in seqs]


def register(session: int, seq: int, **more: int) -> tuple[int, ...]:
    part = (seq - 1) % SLOTS + 1
    values = {"part": part, "row_id": 10 * session + part, **more}
    return record(session, seq, **values)


def registers_after(session: int, count: int) -> Rows:
    """Return the registers of a session after its first *count* operations."""
    newest = {(seq - 1) % SLOTS: seq for seq in range(1, count + 1)}
    return [register(session, seq) for seq in newest.values()]


def judged(
    confirmed: Mapping[int, int],
    rows: Rows,
    registers: Rows,
    sent: Mapping[int, int] | None = None,
    before: TableFacts = NOTHING_BEFORE,
) -> Reconciliation:
    acks = array_of(acks_of(confirmed))
    ledger, second = [records_of(rows)], [records_of(registers)]
    claim = Claim(sent or confirmed, confirmed)
    seen = Observed(
        lambda: acks,
        {"ledger": lambda: ledger, "register": lambda: second},
        {"ledger": NOTHING_BEFORE, "register": before},
        claim,
        window_acks=10,
    )
    return MixedPlan(Schedule(SEED, EPOCH, (40,)), Mix(registers=1)).judge(seen)


def named(found: Reconciliation) -> list[tuple[str, int, int]]:
    return sorted((x.kind.value, x.session, x.seq) for x in found.losses)


def wanted(*losses: tuple[LossKind, int, int]) -> list[tuple[str, int, int]]:
    return sorted((kind.value, session, seq) for kind, session, seq in losses)
