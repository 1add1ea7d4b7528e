"""What the shape calls out of order was lost although what came later survived."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dbcheck.rows.acks import ACK_DTYPE, TIME_UNIT_US, pack, unpack
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.lossshape import find_shape_of_losses
from dbcheck.rows.table import LEDGER

# Of each operation: how long until it was sent, the server worked, the reply was read.
DELAY_US = st.integers(0, 300)
SESSION = st.lists(st.tuples(DELAY_US, DELAY_US, DELAY_US), min_size=1, max_size=8)


@given(st.lists(SESSION, min_size=1, max_size=4), st.integers(0, 10**4), st.data())
def test_it_never_calls_a_clean_beginning_out_of_order(
    sessions: list[list[tuple[int, int, int]]], end_us: int, data: st.DataObject
) -> None:
    """A log that keeps all that was committed before some moment, and no more."""
    committed_us, acks = {}, []
    for session, operations in enumerate(sessions, 1):
        now_us = 10**6
        for seq, (until_sent, until_committed, until_read) in enumerate(operations, 1):
            committed = now_us + until_sent + until_committed
            committed_us[session, seq] = committed
            now_us = committed + until_read
            acks.append((session, seq, seq, now_us))
    stored = unpack(pack(sorted(acks, key=lambda ack: ack[3])))
    lost = {name for name, us in committed_us.items() if us > 10**6 + end_us}
    at = {(int(a["session"]), int(a["seq"])): int(a["acked_us"]) for a in stored}
    losses = Losses.of(
        Loss(LossKind.MISSING_TAIL, *name, 1, at[name], LEDGER.name)
        for name in sorted(lost)
    )
    parts = data.draw(st.integers(1, 4))
    found = find_shape_of_losses(
        losses, lambda: np.array_split(stored, parts), None, None, (LEDGER,)
    )
    assert (found.missing, found.reordered) == (len(lost), 0)


@given(st.lists(st.integers(1, 50), min_size=2, max_size=8), st.data())
def test_it_finds_what_was_acked_long_before_a_survivor_was_sent(
    gaps: list[int], data: st.DataObject
) -> None:
    times = 10**6 + np.cumsum(gaps) * 2 * TIME_UNIT_US
    acks = np.zeros(len(times) + 1, ACK_DTYPE)
    acks["session"][:-1], acks["seq"][:-1] = 1, np.arange(1, len(times) + 1)
    acks["acked_us"][:-1] = times
    other = data.draw(st.integers(0, len(times) - 2))
    acks[-1] = (2, 1, 1, times[other])
    acks = acks[np.argsort(acks["acked_us"], kind="stable")]
    loss = Loss(LossKind.MISSING_TAIL, 2, 1, 1, int(times[other]), LEDGER.name)
    found = find_shape_of_losses(
        Losses.of([loss]), lambda: [acks], None, None, (LEDGER,)
    )
    later_is_sent = other + 1 < len(times) - 1
    assert found.reordered == later_is_sent
