from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.agent import witness as agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged, WitnessError
from dbcheck.model.witness import Watermark
from dbcheck.rows.acks import Ack, pack
from dbcheck.witness.log import TAIL_BYTES_MAX, FrameLogReader, Tail
from tests.kit.refusals import refused
from tests.kit.witness_logs import RUN, LogMaker, entries

FIRST = [Ack(1, 1, 10, 100), Ack(2, 1, 11, 200)]
SECOND = [Ack(1, 2, 12, 1000), Ack(2, 5, 13, 1100)]


def sound() -> LogMaker:
    maker = LogMaker()
    maker.add_acks(FIRST)
    maker.add_event({"cut": 1})
    maker.add_acks(SECOND)
    return maker


def test_a_sound_log_gives_all_in_order() -> None:
    maker = sound()
    found, scan = entries(maker.data(), maker.watermark())
    assert found == [*FIRST, '{"cut": 1}', *SECOND]
    assert scan.watermark == maker.watermark()
    assert scan.tail == Tail(len(maker.data()), 0)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_size_of_the_chunks_does_not_matter(size: int) -> None:
    data = sound().data()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert entries(chunks)[0] == entries(data)[0]


def test_more_frames_than_a_batch_are_read_whole() -> None:
    maker = LogMaker()
    for seq in range(1, 3001):
        maker.add_acks([Ack(1, seq, seq, seq)])
    found, _ = entries(maker.data())
    assert found == [Ack(1, seq, seq, seq) for seq in range(1, 3001)]


def test_a_tail_torn_at_any_byte_is_tolerated() -> None:
    maker = sound()
    kept = b"".join(maker.frames[:-1])
    for length in range(1, len(maker.frames[-1])):
        found, scan = entries(kept + maker.frames[-1][:length])
        assert found == [*FIRST, '{"cut": 1}']
        assert scan.tail == Tail(len(kept), length)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(bytes(5000), id="zeros"),
        pytest.param(b"\xff" * 5000, id="ones"),
        pytest.param(agent.MAGIC * 20, id="starts of frames"),
        pytest.param(agent.MAGIC, id="one start"),
    ],
)
def test_garbage_at_the_end_is_a_torn_tail(garbage: bytes) -> None:
    found, scan = entries(sound().data() + garbage)
    assert len(found) == 5
    assert scan.tail.bytes == len(garbage)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(bytes(TAIL_BYTES_MAX + 1), id="longer than a write"),
        pytest.param(agent.MAGIC * 100_000, id="starts of frames without end"),
    ],
)
def test_garbage_that_no_write_left_is_damage(garbage: bytes) -> None:
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="a damaged frame is followed by"
    ):
        entries(sound().data() + garbage)


def cut_frame(maker: LogMaker) -> None:
    del maker.frames[1]


def swap_frames(maker: LogMaker) -> None:
    maker.frames[1], maker.frames[3] = maker.frames[3], maker.frames[1]


def replay_frame(maker: LogMaker) -> None:
    maker.frames.append(maker.frames[1])


def tear_in_the_middle(maker: LogMaker) -> None:
    maker.frames[1] = maker.frames[1][:-5]


def garbage_in_the_middle(maker: LogMaker) -> None:
    maker.frames.insert(2, b"garbage")


def second_header(maker: LogMaker) -> None:
    maker.add_header(RUN, 0)


def break_chain(maker: LogMaker) -> None:
    maker.add(agent.ACKS, 1, b"", chain=bytes(16))


def seq_backwards(maker: LogMaker) -> None:
    maker.add_acks([Ack(1, 2, 14, 2000)])


def seq_twice_in_a_batch(maker: LogMaker) -> None:
    maker.add_acks([Ack(3, 7, 14, 2000), Ack(4, 1, 15, 2000), Ack(3, 7, 16, 2000)])


def wrong_count(maker: LogMaker) -> None:
    [body] = pack([Ack(3, 1, 20, 2000), Ack(3, 2, 21, 2000)])
    maker.add(agent.ACKS, 1, body)


def body_of_no_acks(maker: LogMaker) -> None:
    maker.add(agent.ACKS, 1, b"x" * 17)


def seq_zero(maker: LogMaker) -> None:
    maker.add(agent.ACKS, 1, bytes(28))


def unknown_kind(maker: LogMaker) -> None:
    maker.add(9, 0, b"{}")


def event_with_acks(maker: LogMaker) -> None:
    maker.add(agent.EVENT, 1, b"{}")


def event_of_no_json(maker: LogMaker) -> None:
    maker.add(agent.EVENT, 0, b"{")


def event_too_deep(maker: LogMaker) -> None:
    maker.add(agent.EVENT, 0, b"[" * 200_000)


def event_of_no_object(maker: LogMaker) -> None:
    maker.add(agent.EVENT, 0, b"[]")


@pytest.mark.parametrize(
    "damage",
    [
        cut_frame,
        swap_frames,
        replay_frame,
        tear_in_the_middle,
        garbage_in_the_middle,
        second_header,
        break_chain,
        seq_backwards,
        seq_twice_in_a_batch,
        wrong_count,
        body_of_no_acks,
        seq_zero,
        unknown_kind,
        event_with_acks,
        event_of_no_json,
        event_too_deep,
        event_of_no_object,
    ],
)
def test_damage_voids_the_log(damage: Callable[[LogMaker], None]) -> None:
    maker = sound()
    damage(maker)
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="damaged at byte"
    ) as caught:
        entries(maker.data())
    assert caught.value.hint


def test_a_seq_may_skip_but_not_return_over_batches() -> None:
    maker = LogMaker()
    maker.add_acks([Ack(1, 5, 1, 1)])
    maker.add_event({})  # ends a batch
    maker.add_acks([Ack(1, 4, 2, 2)])
    with refused(ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="backwards"):
        entries(maker.data())


@pytest.mark.parametrize("data", [b"", b"\xdbW", bytes(100)])
def test_a_log_without_a_header_is_damaged(data: bytes) -> None:
    with refused(ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="no header"):
        entries(data)


def test_a_log_of_another_run_is_refused() -> None:
    with refused(ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="another-run"):
        entries(LogMaker("another-run").data())


@pytest.mark.parametrize("number", [1, 2])
def test_a_log_in_the_place_of_another_is_refused(number: int) -> None:
    own = LogMaker(number=1)
    assert entries(own.data(), number=1)[0] == []
    for wrong in (0, 3 - number):
        with refused(
            ErrorId.WITNESS_LOG_DAMAGED,
            LogDamaged,
            naming=f"it is log {number} of the run",
        ):
            entries(LogMaker(number=number).data(), number=wrong)


def test_frames_of_another_log_of_the_run_break_the_chain() -> None:
    first, second = LogMaker(number=1), LogMaker(number=2)
    for maker in (first, second):
        maker.add_acks(FIRST)
    mixed = first.data() + second.frames[1]
    with refused(ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="chain"):
        entries(mixed, number=1)
    with refused(ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="chain"):
        entries(first.frames[0] + second.frames[1], number=1)


def test_a_clock_of_the_witness_that_goes_back_changes_nothing() -> None:
    maker = LogMaker()
    for seq, clock_us in enumerate((5 * 10**6, 10**6, 0, 2**64 - 1), start=1):
        [body] = pack([Ack(1, seq, seq, seq)])
        chain = maker.sha.digest()[: agent.CHAIN_BYTES]
        maker.add_raw(agent.make_frame(agent.ACKS, 1, clock_us, chain, body))
    assert len(entries(maker.data())[0]) == 4


def test_a_log_of_another_format_is_refused() -> None:
    empty_chain = hashlib.sha256().digest()[: agent.CHAIN_BYTES]
    newer = json.dumps({"format": 3, "run": RUN}).encode()
    data = agent.make_frame(agent.HEADER, 0, 0, empty_chain, newer)
    with refused(ErrorId.RECORD_OF_ANOTHER_VERSION, WitnessError, naming="format 3"):
        entries(data)


def test_a_log_cut_at_a_frame_is_seen_by_its_watermark_only() -> None:
    maker = sound()
    data = b"".join(maker.frames[:-1])
    assert entries(data)[0] == [*FIRST, '{"cut": 1}']
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED,
        LogDamaged,
        naming="4 frames were confirmed, 3 are there",
    ):
        entries(data, maker.watermark())


def test_an_unconfirmed_rest_is_read_too() -> None:
    maker = sound()
    early = maker.watermark()
    maker.add_acks([Ack(1, 3, 20, 3000)])
    assert len(entries(maker.data(), early)[0]) == 6


@pytest.mark.parametrize(
    "wrong",
    [
        lambda mark: replace(mark, digest="00" * 32),
        lambda mark: replace(mark, acks=mark.acks + 1),
    ],
)
def test_a_log_that_was_written_anew_is_seen(
    wrong: Callable[[Watermark], Watermark],
) -> None:
    maker = sound()
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED,
        LogDamaged,
        naming="differs from what the witness confirmed",
    ):
        entries(maker.data(), wrong(maker.watermark()))


def test_a_file_is_read_as_the_port_says(tmp_path: Path) -> None:
    maker = sound()
    path = tmp_path / "acks.log"
    path.write_bytes(maker.data() + b"torn")
    reader = FrameLogReader()
    facts = reader.facts(path, RUN, 0, maker.watermark())
    assert (facts.frames, facts.acks, facts.torn_bytes) == (4, 4, 4)
    assert facts.events == [{"cut": 1}]
    acks = [row for part in reader.acks(path, RUN, 0, None) for row in part.tolist()]
    assert acks == [*FIRST, *SECOND]


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with refused(ErrorId.RECORD_UNREADABLE, WitnessError):
        FrameLogReader().facts(tmp_path / "acks.log", RUN, 0, None)


def test_a_log_of_events_without_end_is_damaged(tmp_path: Path) -> None:
    """Each would be kept in memory."""
    maker, path = LogMaker(), tmp_path / "acks.log"
    for number in range(64):
        maker.add_event({"event": number})
    path.write_bytes(maker.data())
    assert len(FrameLogReader().facts(path, RUN, 0, None).events) == 64
    maker.add_event({"event": 64})
    path.write_bytes(maker.data())
    with refused(ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="more than 64 events"):
        FrameLogReader().facts(path, RUN, 0, None)


def test_no_honest_log_is_longer_than_is_taken_of_it() -> None:
    maker = LogMaker()
    for number in range(3):
        maker.add_event({"event": "x" * (agent.BODY_BYTES_MAX - 20 + number)})
    rest = FrameLogReader().bytes_max(0) - len(maker.data())
    assert rest > TAIL_BYTES_MAX
    for seq in range(1, 5000):
        maker.add_acks([Ack(1, seq, seq, seq)])
    assert FrameLogReader().bytes_max(4999) - len(maker.data()) == rest
