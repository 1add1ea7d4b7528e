"""The witness's log as it should not be, changed on the witness's own disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.agent import witness as agent
from dbcheck.agent.wire import clock_us
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError, WitnessError
from dbcheck.cycle.loading import seal_load
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.model.witness import LOAD_EVENT
from dbcheck.rows.acks import Ack, pack
from dbcheck.witness.log import AckBatch, LogScan
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, quick, store_manifest
from tests.kit.witness_logs import LogMaker
from tests.planted.fault import INCONCLUSIVE, PASS, Fault, engines, faults
from tests.planted.one_cut import OneCut

pytestmark = pytest.mark.planted


def nothing(cut: OneCut) -> None:
    pass


def torn(cut: OneCut) -> None:
    """Leave half of a frame that was never confirmed."""
    frames = _frames(cut)
    _store(cut, [*frames, frames[-2][: len(frames[-2]) // 2]])


def torn_where_confirmed(cut: OneCut) -> None:
    frames = _frames(cut)
    _store(cut, [*frames[:-1], frames[-1][:-1]])


def flipped_bit(cut: OneCut) -> None:
    content = bytearray(cut.log.read_bytes())
    content[len(content) // 2] ^= 1
    cut.log.write_bytes(content)


def hole_of_zeros(cut: OneCut) -> None:
    """Read zeros where a sector was, as after a failed read of a disk."""
    content = bytearray(cut.log.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 512] = bytes(512)
    cut.log.write_bytes(content)


def cut_off(cut: OneCut) -> None:
    _store(cut, _frames(cut)[:-1])


def cut_off_and_client_lost(cut: OneCut) -> None:
    """Lose the frame that holds the client's record, and the client's own copy."""
    cut_off(cut)
    (cut.second.run.path / "load.json").unlink()


def client_lost(cut: OneCut) -> None:
    (cut.second.run.path / "load.json").unlink()


def frame_left_out(cut: OneCut) -> None:
    frames = _frames(cut)
    del frames[len(frames) // 2]
    _store(cut, frames)


def replayed(cut: OneCut) -> None:
    frames = _frames(cut)
    middle = len(frames) // 2
    _store(cut, [*frames[:middle], frames[middle - 1], *frames[middle:]])


def replayed_at_the_end(cut: OneCut) -> None:
    frames = _frames(cut)
    _store(cut, [*frames, frames[-1]])


def whole_log_twice(cut: OneCut) -> None:
    _store(cut, _frames(cut) * 2)


def forged(cut: OneCut) -> None:
    """Have the witness hold another id than it was sent, with all else right."""
    frames = _frames(cut)
    at = _first_acks(frames)
    changed = bytearray(frames[at])
    changed[agent.FRAME.size] ^= 1
    frames[at] = bytes(changed)
    _store(cut, _chained(frames))


def acks_made_up(cut: OneCut) -> None:
    """Add acks that the client never got, the last of an operation never sent."""
    acked_us, first = cut.load.last_ack_us or 0, cut.load.acked[1] + 1
    last = cut.load.sent[1] + 1
    acks = [Ack(1, seq, 10**6 + seq, acked_us) for seq in range(first, last + 1)]
    (body,) = pack(acks)
    frame = agent.make_frame(agent.ACKS, len(acks), clock_us(), bytes(16), body)
    _store(cut, _chained([*_frames(cut), frame]))


def of_another_run(cut: OneCut) -> None:
    cut.log.write_bytes(cut.other_log.read_bytes())


def empty(cut: OneCut) -> None:
    cut.log.write_bytes(b"")


def header_alone(cut: OneCut) -> None:
    _store(cut, _frames(cut)[:1])


LOGS = (
    Fault("nothing", nothing, PASS, says="chain intact"),
    Fault("torn", torn, PASS, says="torn tail of"),
    Fault("torn where confirmed", torn_where_confirmed, INCONCLUSIVE, says="confirmed"),
    Fault("a bit flipped", flipped_bit, INCONCLUSIVE, says="damaged at byte"),
    Fault("a hole of zeros", hole_of_zeros, INCONCLUSIVE, says="damaged at byte"),
    Fault("cut off at a frame's end", cut_off, INCONCLUSIVE, says="were confirmed"),
    Fault(
        "cut off, the client lost",
        cut_off_and_client_lost,
        INCONCLUSIVE,
        says="client was lost once the cut had been asked for",
    ),
    Fault("the client lost", client_lost, PASS),
    Fault("a frame left out", frame_left_out, INCONCLUSIVE, says="chain"),
    Fault("frames replayed", replayed, INCONCLUSIVE, says="chain"),
    Fault("the last frame replayed", replayed_at_the_end, INCONCLUSIVE, says="chain"),
    Fault("the whole log twice", whole_log_twice, INCONCLUSIVE, says="chain"),
    Fault(
        "forged", forged, INCONCLUSIVE, says="differs from what the witness confirmed"
    ),
    Fault(
        "acks made up",
        acks_made_up,
        INCONCLUSIVE,
        says="damaged",
    ),
    Fault("of another run", of_another_run, INCONCLUSIVE, says="log of run"),
    Fault("empty", empty, INCONCLUSIVE, says="no header"),
    Fault("a header alone", header_alone, INCONCLUSIVE, says="were confirmed"),
)


@pytest.mark.wide_with("mariadb")
@faults(LOGS)
@engines("one_cut")
def test_logs(cut: OneCut, fault: Fault) -> None:
    fault.plant(cut)
    fault.require(cut.bench.judge(cut.second), cut.bench.engine)


def several(cut: OneCut) -> None:
    """Have the same acks in three logs, as if two processes had run the load."""
    run, manifest = cut.second.run, cut.second.manifest
    makers = [LogMaker(manifest.run_id, number) for number in range(3)]
    for entry in LogScan([cut.log.read_bytes()], manifest.run_id):
        if isinstance(entry, AckBatch):
            acks = [Ack(*row) for row in entry.acks.tolist()]
            for number, maker in enumerate(makers):
                maker.add_acks([ack for ack in acks if _log_of(ack) == number])
        elif entry.body["event"] != LOAD_EVENT:
            makers[0].add_event(entry.body)
    marks = tuple(maker.watermark() for maker in makers)
    load = replace(cut.load, watermarks=marks, windows=cut.load.windows * 3)
    makers[0].add_event(seal_load(run.key(), load))
    for number, maker in enumerate(makers):
        _log(cut, number).write_bytes(maker.data())
    run.write_load(replace(load, watermarks=(makers[0].watermark(), *marks[1:])))
    manifest = replace(manifest, logs=3)
    store_manifest(run, manifest)


def last_frame_lost(cut: OneCut) -> None:
    content = _log(cut, 2).read_bytes()
    _log(cut, 2).write_bytes(b"".join(_split(content)[:-1]))


def torn_in_the_second(cut: OneCut) -> None:
    with _log(cut, 2).open("ab") as file:
        file.write(_split(_log(cut, 2).read_bytes())[-1][:-1])


def swapped(cut: OneCut) -> None:
    first, second = (_log(cut, number).read_bytes() for number in (1, 2))
    _log(cut, 1).write_bytes(second)
    _log(cut, 2).write_bytes(first)


def foreign_second(cut: OneCut) -> None:
    _log(cut, 2).write_bytes(cut.other_log.read_bytes())


def first_for_second(cut: OneCut) -> None:
    """Have one log stand for the other too, with all right but what was confirmed."""
    header, *frames = _split(_log(cut, 1).read_bytes())
    header = _split(_log(cut, 2).read_bytes())[0]
    _log(cut, 2).write_bytes(b"".join(_chained([header, *frames])))


def first_for_second_and_nothing_known(cut: OneCut) -> None:
    first_for_second(cut)
    load = cut.load
    cut.second.run.write_load(
        replace(load, watermarks=(*load.watermarks[:2], None)),
    )


SEVERAL = (
    Fault("nothing", nothing, PASS, says="of 3 logs, chains intact"),
    Fault("the client lost", client_lost, PASS, says="of 3 logs, chains intact"),
    Fault("torn", torn_in_the_second, PASS, says="torn tail of"),
    Fault("cut off", last_frame_lost, INCONCLUSIVE, says="were confirmed"),
    Fault("swapped", swapped, INCONCLUSIVE, says="it is log 2 of the run, not 1"),
    Fault("of another run", foreign_second, INCONCLUSIVE, says="log of run"),
    Fault("twice", first_for_second, INCONCLUSIVE, says="confirmed"),
    Fault(
        "twice, and nothing known of the second",
        first_for_second_and_nothing_known,
        INCONCLUSIVE,
        says="another log's session",
    ),
)


@pytest.mark.wide_with("mariadb")
@faults(SEVERAL)
@engines("one_cut")
def test_several_logs(cut: OneCut, fault: Fault) -> None:
    several(cut)
    fault.plant(cut)
    fault.require(_judge_several(cut), cut.bench.engine)


@pytest.mark.wide_with("mariadb")
@engines("one_cut")
@pytest.mark.parametrize("also", [nothing, client_lost])
def test_one_log_of_several_that_is_gone_gives_no_verdict(
    cut: OneCut, also: Callable[[OneCut], None]
) -> None:
    """Rows whose acks it held would look like rows that nobody sent."""
    several(cut)
    also(cut)
    _log(cut, 2).unlink()
    with refused(
        ErrorId.RUN_NOT_ON_WITNESS, WitnessError, naming="acks-2.log is not there"
    ):
        _judge_several(cut)
    assert not (cut.second.run.path / "verdict.json").exists()
    assert not cut.second.run.was_read()


@pytest.mark.wide_with("mariadb")
@engines("one_cut")
def test_a_log_that_is_gone_gives_no_verdict(cut: OneCut) -> None:
    cut.log.unlink()
    with refused(ErrorId.RUN_NOT_ON_WITNESS, WitnessError):
        cut.bench.judge(cut.second)
    assert not (cut.second.run.path / "verdict.json").exists()
    assert not cut.second.run.was_read()  # it can be judged once the log is found


@pytest.mark.wide_with("mariadb")
@engines("one_cut")
def test_a_witness_behind_ssh_on_the_target_s_host_is_refused(cut: OneCut) -> None:
    witness = cut.bench.rig.witness
    runs = set(witness.runs())
    with refused(ErrorId.WITNESS_ON_TARGET, UsageError, naming="target's own host"):
        run_preflight(replace(cut.bench.rig, lab={}), quick(), SEED)
    assert set(witness.runs()) == runs


def _judge_several(cut: OneCut) -> Outcome:
    return cut.bench.judge(replace(cut.second, manifest=cut.second.run.manifest()))


def _log(cut: OneCut, number: int) -> Path:
    return cut.log.with_name(agent.log_name(number))


def _log_of(ack: Ack) -> int:
    return 1 + ack.session % 2 if ack.session else 0


def _frames(cut: OneCut) -> list[bytes]:
    return _split(cut.log.read_bytes())


def _split(content: bytes) -> list[bytes]:
    frames, at = [], 0
    while at < len(content):
        end = at + agent.FRAME.size + agent.FRAME.unpack_from(content, at)[2]
        frames.append(content[at:end])
        at = end
    return frames


def _store(cut: OneCut, frames: Sequence[bytes]) -> None:
    cut.log.write_bytes(b"".join(frames))


def _first_acks(frames: Sequence[bytes]) -> int:
    kinds = [agent.FRAME.unpack_from(frame)[3] for frame in frames]
    return kinds.index(agent.ACKS)


def _chained(frames: Sequence[bytes]) -> list[bytes]:
    """Return the frames with CRCs and a chain that are right again."""
    sha, chained = hashlib.sha256(), []
    for frame in frames:
        _, _, _, kind, count, moment_us, _ = agent.FRAME.unpack_from(frame)
        chain = sha.digest()[: agent.CHAIN_BYTES]
        body = frame[agent.FRAME.size :]
        chained.append(agent.make_frame(kind, count, moment_us, chain, body))
        sha.update(chained[-1])
    return chained
