from __future__ import annotations

import pytest

from dbcheck.agent import witness as agent
from dbcheck.rows.acks import (
    ACKS_PER_BODY_MAX,
    BODY_BYTES_MAX,
    ROW_ID_MAX,
    SEQ_MAX,
    SESSION_MAX,
    TIME_UNIT_US,
    Ack,
    count,
    pack,
    unpack,
)


def acks_of(bodies: list[bytes]) -> list[Ack]:
    return [Ack(*row) for row in unpack(bodies).tolist()]


def test_acks_come_back_in_order() -> None:
    acks = [Ack(i % 7, i // 7 + 1, 1000 - i, 10**9 + i * 100) for i in range(500)]
    assert acks_of(pack(acks)) == acks


def test_no_acks_make_no_body() -> None:
    assert pack([]) == []
    assert len(unpack([])) == 0


def test_an_ack_takes_12_bytes_and_a_body_16() -> None:
    acks = [Ack(1, i + 1, i, i) for i in range(32)]
    assert [len(body) for body in pack(acks)] == [16 + 32 * 12]
    assert (agent.FRAME.size + 16 + 32 * 12) / 32 <= 16


def test_a_time_is_rounded_up() -> None:
    acks = [Ack(1, 1, 1, 5000), Ack(1, 2, 2, 5001), Ack(1, 3, 3, 5099)]
    assert [ack.acked_us for ack in acks_of(pack(acks))] == [5000, 5100, 5100]


def test_the_extremes_fit() -> None:
    latest_us = 2**63 - 1 - 65535 * TIME_UNIT_US
    acks = [Ack(0, 1, 0, 0), Ack(SESSION_MAX, SEQ_MAX, ROW_ID_MAX, latest_us)]
    bodies = pack(acks)
    assert len(bodies) == 2
    assert acks_of(bodies) == acks


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Ack(2, 1, 1 + 2**31, 0), id="row id too far"),
        pytest.param(Ack(2, 1, 1, 6_553_600), id="time too far"),
    ],
)
def test_what_does_not_fit_starts_another_body(other: Ack) -> None:
    acks = [Ack(1, 1, 1, 0), Ack(1, 2, 2, 0), other, Ack(1, 3, 3, 0)]
    bodies = pack(acks)
    assert len(bodies) > 1
    assert acks_of(bodies) == acks


def test_a_distance_that_just_fits_stays_in_one_body() -> None:
    acks = [Ack(1, 1, 1, 0), Ack(1, 2, 2**31, 6_553_500)]
    assert len(pack(acks)) == 1
    assert acks_of(pack(acks)) == acks


def test_a_body_is_bounded_and_fits_a_frame() -> None:
    acks = [Ack(1, i + 1, i, i) for i in range(ACKS_PER_BODY_MAX + 1)]
    assert [count(body) for body in pack(acks)] == [ACKS_PER_BODY_MAX, 1]
    assert BODY_BYTES_MAX <= agent.BODY_BYTES_MAX


@pytest.mark.parametrize(
    "ack",
    [
        Ack(-1, 1, 1, 1),
        Ack(SESSION_MAX + 1, 1, 1, 1),
        Ack(1, 0, 1, 1),
        Ack(1, SEQ_MAX + 1, 1, 1),
        Ack(1, 1, -1, 1),
        Ack(1, 1, ROW_ID_MAX + 1, 1),
        Ack(1, 1, 1, -1),
        Ack(1, 1, 1, 2**63 - 1),
    ],
)
def test_a_value_out_of_range_is_refused(ack: Ack) -> None:
    with pytest.raises(ValueError, match="^(an ack's|not an ack)"):
        pack([Ack(1, 1, 1, 1), ack])


def body_of(row_id: int, acked_us: int, seq: int, delta: int) -> bytes:
    """Return a body with one entry, whatever its values."""
    return b"".join(
        value.to_bytes(size, "little", signed=True)
        for value, size in (
            (row_id, 8),
            (acked_us, 8),
            (1, 2),
            (seq, 4),
            (delta, 4),
            (0, 2),
        )
    )


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        pytest.param(b"", "0 bytes", id="empty"),
        pytest.param(bytes(16), "16 bytes", id="no entry"),
        pytest.param(bytes(16 + 13), "29 bytes", id="half an entry"),
        pytest.param(
            bytes(BODY_BYTES_MAX + 12),
            f"{BODY_BYTES_MAX + 12} bytes",
            id="too many entries",
        ),
        pytest.param(body_of(1, 1, 0, 0), "seq", id="seq 0"),
        pytest.param(body_of(-1, 1, 1, 0), "base", id="negative base id"),
        pytest.param(body_of(1, -1, 1, 0), "base", id="negative base time"),
        pytest.param(body_of(1, 2**63 - 1, 1, 0), "base", id="base time too late"),
        pytest.param(body_of(1, 1, 1, -2), "row id", id="negative id"),
        pytest.param(body_of(2**63 - 1, 1, 1, 1), "row id", id="id passes 2^63"),
    ],
)
def test_nonsense_is_refused(body: bytes, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        unpack([pack([Ack(1, 1, 1, 1)])[0], body])
