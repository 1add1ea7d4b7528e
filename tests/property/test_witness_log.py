from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbcheck.base.errors import LogDamaged
from dbcheck.rows.acks import (
    ROW_ID_MAX,
    SEQ_MAX,
    SESSION_MAX,
    TIME_UNIT_US,
    Ack,
    pack,
    unpack,
)
from tests.kit.witness_logs import LogMaker, entries

any_ack = st.builds(
    Ack,
    st.integers(0, SESSION_MAX),
    st.integers(1, SEQ_MAX),
    st.integers(0, ROW_ID_MAX),
    st.integers(0, 2**62),
)
near_ack = st.builds(
    Ack,
    st.integers(0, 9),
    st.integers(1, 10**6),
    st.integers(10**9, 10**9 + 2**32),
    st.integers(10**12, 10**12 + 8 * 10**6),
)


@given(st.lists(any_ack | near_ack, max_size=50))
def test_packed_acks_come_back(acks: list[Ack]) -> None:
    back = unpack(pack(acks)).tolist()
    assert [ack[:3] for ack in back] == [ack[:3] for ack in acks]
    for found, sent in zip(back, acks, strict=True):
        assert sent.acked_us <= found[3] < sent.acked_us + TIME_UNIT_US


@given(st.binary(max_size=200))
def test_any_bytes_unpack_or_are_refused(body: bytes) -> None:
    try:
        acks = unpack([body])
    except ValueError:
        return
    again = [Ack(*row) for row in acks.tolist()]
    assert unpack(pack(again)).tolist() == again


@st.composite
def logs(draw: st.DrawFn) -> tuple[LogMaker, int]:
    """Return a log, and how many of its frames are confirmed."""
    maker = LogMaker()
    seq = 0
    for size in draw(st.lists(st.integers(0, 4), min_size=1, max_size=5)):
        if size == 0:
            maker.add_event({"n": seq})
            continue
        maker.add_acks([Ack(1, seq + i, 2 * seq + i, seq) for i in range(1, size + 1)])
        seq += size
    return maker, draw(st.integers(1, len(maker.frames)))


def confirmed_part(maker: LogMaker, frames: int) -> tuple[LogMaker, bytes]:
    part = LogMaker()
    for frame in maker.frames[1:frames]:
        part.add_raw(frame)
    part.acks = sum(isinstance(e, Ack) for e in entries(part.data())[0])
    return part, maker.data()


@given(logs(), st.data())
def test_a_flipped_byte_is_damage_or_changes_nothing_confirmed(
    log: tuple[LogMaker, int], data: st.DataObject
) -> None:
    maker, frames = log
    part, raw = confirmed_part(maker, frames)
    at = data.draw(st.integers(0, len(raw) - 1))
    mask = data.draw(st.integers(1, 255))
    broken = raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]
    whole = entries(raw)[0]
    must = entries(part.data())[0]
    try:
        found, _ = entries(broken, part.watermark())
    except LogDamaged:
        return
    assert found == whole[: len(found)]
    assert len(found) >= len(must)
    assert at >= len(part.data())  # what was confirmed is never silently repaired


@given(logs(), st.data())
def test_a_log_cut_anywhere_keeps_what_is_before_the_cut(
    log: tuple[LogMaker, int], data: st.DataObject
) -> None:
    maker, frames = log
    part, raw = confirmed_part(maker, frames)
    end = data.draw(st.integers(0, len(raw)))
    try:
        found, scan = entries(raw[:end], part.watermark())
    except LogDamaged:
        assert end < len(part.data())
        return
    assert end >= len(part.data())
    assert found == entries(raw)[0][: len(found)]
    assert scan.tail.offset + scan.tail.bytes == end


@given(logs(), st.data())
def test_bytes_put_in_anywhere_are_damage_or_change_nothing(
    log: tuple[LogMaker, int], data: st.DataObject
) -> None:
    maker, frames = log
    part, raw = confirmed_part(maker, frames)
    at = data.draw(st.integers(0, len(raw)))
    extra = data.draw(
        st.binary(min_size=1, max_size=80) | st.sampled_from(maker.frames)
    )
    longer = raw[:at] + extra + raw[at:]
    try:
        found, _ = entries(longer, part.watermark())
    except LogDamaged:
        return
    assert found == entries(raw)[0][: len(found)]
    assert longer.startswith(part.data())
