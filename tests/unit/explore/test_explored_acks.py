"""Which acks are in force at a moment of a recorded load, and what may be sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.explore.oracle import Acked
from dbcheck.rows.acks import (
    ACK_DTYPE,
    HOUSEKEEPING_SESSION,
    PREFLIGHT_SESSION,
    TIME_UNIT_US,
    AckArray,
    pack,
    unpack,
)
from tests.kit.refusals import refused
from tests.kit.samples import LOAD

# session, seq, row_id, acked_us
ACKS = [
    (PREFLIGHT_SESSION, 1, 1, 100),
    (1, 1, 2, 1000),
    (2, 1, 3, 1000),
    (1, 2, 4, 2500),
    (HOUSEKEEPING_SESSION, 1, 5, 2700),
    (2, 2, 6, 4000),
]


def acked(sent: Mapping[int, int], received: Mapping[int, int]) -> Acked:
    # Two logs, in neither order of time.
    ours = np.array(ACKS[3:] + ACKS[2:3], ACK_DTYPE)
    batches = [np.array(ACKS[1:2], ACK_DTYPE), ours, np.array(ACKS[:1], ACK_DTYPE)]
    in_order = [np.sort(batch, order=["session", "seq"]) for batch in batches]
    return Acked(in_order, replace(LOAD, sent=sent, acked=received))


ALL = {PREFLIGHT_SESSION: 1, 1: 2, 2: 2, HOUSEKEEPING_SESSION: 1}


def keys(acks: AckArray) -> list[tuple[int, int]]:
    return [(int(ack["session"]), int(ack["seq"])) for ack in acks]


@pytest.mark.parametrize("time_us", range(0, 5001, 50))
def test_an_ack_is_in_force_once_its_time_is_past(time_us: int) -> None:
    found = acked(ALL, ALL)
    before = [(s, q) for s, q, _, at_us in ACKS if at_us < time_us]
    assert sorted(keys(found.before(time_us))) == sorted(before)
    assert found.count(time_us) == len(before)


@pytest.mark.parametrize("time_us", range(0, 5001, 50))
def test_a_session_may_have_sent_one_more_than_was_acked(time_us: int) -> None:
    """The log dates an ack up to 100 us after it came."""
    sent = {PREFLIGHT_SESSION: 1, 1: 3, 2: 2, HOUSEKEEPING_SESSION: 2}
    claim = acked(sent, ALL).claim(time_us)
    for session, all_sent in sent.items():
        came = sum(s == session and t - 100 < time_us for s, _, _, t in ACKS)
        assert claim.sent[session] == min(came + 1, all_sent)
        assert claim.acked.get(session, 0) == came


def test_at_the_end_what_was_not_confirmed_may_be_sent_too() -> None:
    """The witness had not confirmed acks 3 and 4 of session 1 when the power went."""
    found = acked({**ALL, 1: 5, 3: 1}, {**ALL, 1: 4})
    claim = found.claim(2600)
    assert (claim.sent[1], claim.acked[1]) == (5, 4)
    assert (claim.sent[3], claim.acked[3]) == (1, 0)  # its only one was never acked
    assert found.claim(2400).sent[1] == 2


def test_a_log_that_rounds_up_is_what_the_claim_allows_for() -> None:
    times = [1_000_001, 1_000_002, 1_000_099, 1_000_150]
    bodies = pack([(1, n, n, at_us) for n, at_us in enumerate(times, 1)])
    logged = unpack(bodies)["acked_us"].tolist()
    late = [after - at_us for after, at_us in zip(logged, times, strict=True)]
    assert min(late) >= 0 and 50 < max(late) < TIME_UNIT_US


def test_acks_of_a_session_stay_in_order_where_the_log_dates_one_too_late() -> None:
    """Two bodies have bases of their own, so ack 1 may be dated after ack 2."""
    batches = [
        np.array([(1, 1, 1, 1099)], ACK_DTYPE),
        np.array([(1, 2, 2, 1050), (2, 1, 3, 1060)], ACK_DTYPE),
    ]
    found = Acked(batches, replace(LOAD, sent={1: 2, 2: 1}, acked={1: 2, 2: 1}))
    assert keys(found.before(1099)) == [(2, 1)]
    assert keys(found.before(1100)) == [(2, 1), (1, 1), (1, 2)]


def test_tasks_and_the_first_ack_of_the_load() -> None:
    found = acked(ALL, ALL)
    assert found.task_times_us() == [2700]
    assert found.first_us == 1000
    assert len(found) == len(ACKS)


def test_a_load_without_acks_is_refused() -> None:
    with refused(ErrorId.RECORDED_LOAD_TOO_SHORT, LabError):
        Acked([], LOAD)
