"""A model of what two-phase operations leave, and faults planted in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dbcheck.rows.plans.twophase import PART, TwoPhasePlan
from dbcheck.rows.prepared import LeftFate, LeftOver, is_committed
from dbcheck.rows.reconcile import Claim, Observed, Reconciliation
from dbcheck.rows.schedule import Schedule
from tests.kit.cycles import (
    EPOCH,
    NOTHING_BEFORE,
    SEED,
    acks_of,
    array_of,
    record,
    records_of,
)

PLAN = TwoPhasePlan(Schedule(SEED, EPOCH, (16, 40)))
STEPS = 3  # of an operation that are durable one after the other

Place = tuple[int, int]  # session and seq


class Model:
    """What a cut leaves.

    ledger, item: the content of each row.  left: the transactions that are prepared.
    perhaps_earlier: see LeftOver.
    """

    def __init__(self) -> None:
        self.ledger: dict[Place, int] = {}
        self.item: dict[Place, int] = {}
        self.left: dict[Place, LeftFate] = {}
        self.perhaps_earlier: set[Place] = set()

    def run(self, session: int, count: int, steps: int = 0) -> None:
        """Run the first *count* operations of a session, and *steps* of the next."""
        for seq in range(1, count + 1):
            self._run(session, seq, STEPS)
        self._run(session, count + 1, steps)

    def _run(self, session: int, seq: int, steps: int) -> None:
        if steps > 0 and seq > 1:
            del self.left[session, seq - 1]
            if is_committed(seq - 1):
                self.item[session, seq - 1] = 0
        if steps > 1:
            self.ledger[session, seq] = 0
        if steps > 2:
            self.left[session, seq] = LeftFate.KEPT

    def judged(
        self,
        confirmed: Mapping[int, int],
        sent: Mapping[int, int] | None = None,
        *,
        claimed: bool = True,
        more: tuple[tuple[int, ...], ...] = (),
    ) -> Reconciliation:
        """Judge what is left; more: rows of the items beside those."""
        ledger = records_of(
            [record(s, q, content=c) for (s, q), c in self.ledger.items()]
        )
        rows = [
            record(s, q, part=PART, content=c, row_id=10**6 + 1000 * s + q)
            for (s, q), c in self.item.items()
        ]
        acks = array_of(acks_of(confirmed))
        seen = Observed(
            lambda: acks,
            {
                "ledger": partial(iter, [ledger]),
                "item": partial(iter, [records_of([*rows, *more])]),
            },
            {"ledger": NOTHING_BEFORE, "item": NOTHING_BEFORE},
            Claim(sent or confirmed, confirmed) if claimed else None,
            window_acks=10,
            left_over=[
                LeftOver(*at, fate, perhaps_earlier=at in self.perhaps_earlier)
                for at, fate in self.left.items()
            ],
        )
        return PLAN.judge(seen)
