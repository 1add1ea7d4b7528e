"""Witness logs: any bytes, and sound logs with frames moved, changed and forged."""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dbcheck.agent import witness as agent
from dbcheck.base.errors import DbcheckError, LogDamaged
from dbcheck.model.witness import Watermark
from dbcheck.rows.acks import Ack, pack, unpack
from tests.fuzz.script import ODD, Script, edit_bytes, edit_value
from tests.fuzz.target import Target
from tests.kit.witness_logs import RUN, LogMaker, entries

OTHER_RUN = "20260101-120000-cd34"


def written(folder: Path) -> bytes:
    """Return a log that the witness's own agent wrote."""
    log = agent.Log(str(folder), RUN, 0)
    for first in (1, 4):
        acks = [Ack(1, seq, 10 * seq, 100 * seq) for seq in range(first, first + 3)]
        (body,) = pack(acks)
        log.add(agent.APPEND, 3, body)
        log.add(agent.NOTE, 0, json.dumps({"n": first}).encode())
        log.commit()
    log.close()
    return (folder / agent.log_name(0)).read_bytes()


def written_logs() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        whole = written(Path(folder))
    yield whole
    yield whole[:-7]
    yield maker_of(0).data()


def read_any(data: bytes) -> None:
    """It is refused or read, the same however the bytes arrive, to its end."""
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    results = []
    for chunks in ([data], pieces):
        try:
            found, scan = entries(chunks)
        except DbcheckError as error:
            results.append(str(error))
        else:
            assert scan.tail.offset + scan.tail.bytes == len(data)
            results.append(json.dumps([found, scan.watermark.digest]))
    assert results[0] == results[1]


def maker_of(kind: int, run: str = RUN) -> LogMaker:
    """Return one of four logs, of several frames."""
    maker = LogMaker(run, kind // 2)
    seq = [0, 0, 0]
    for step in range(6 + 3 * kind):
        session = step % 3
        size = 1 + (5 * step + kind) % 4
        first = seq[session] + 1
        seq[session] += size
        maker.add_acks(
            [
                Ack(session, n, 100 * session + n, 1000 * step + n)
                for n in range(first, first + size)
            ]
        )
        if step % 4 == kind % 4:
            maker.add_event({"step": step, "of": run})
    return maker


def forged(script: Script, frames: list[bytes]) -> list[bytes]:
    """Return the frames with one body changed, and every CRC and chain made anew."""
    at = script.below(len(frames))
    fake = LogMaker()
    fake.frames.clear()
    fake.sha = hashlib.sha256()
    for place, frame in enumerate(frames):
        _, _, _, kind, acks, _, _ = agent.FRAME.unpack_from(frame)
        body = frame[agent.FRAME.size :]
        if place == at:
            kind, acks, body = forged_body(script, kind, acks, body)
        with contextlib.suppress(struct.error):  # a count that no frame can hold
            fake.add(kind, acks, body[: agent.BODY_BYTES_MAX])
    return fake.frames


def forged_body(
    script: Script, kind: int, acks: int, body: bytes
) -> tuple[int, int, bytes]:
    how = script.below(6)
    if how == 0:
        return script.below(6), acks, body
    if how == 1:
        return kind, script.choice((0, 1, acks + 1, 2**32 - 1)), body
    if how == 2 and kind != agent.ACKS:
        with contextlib.suppress(ValueError):  # a number of too many digits
            value = edit_value(script, json.loads(body))
            return kind, acks, json.dumps(value).encode()
    if how == 3 and kind == agent.ACKS:
        values = [int(v) for v in ODD if type(v) is int and 0 <= v < 2**62]
        fields = (script.below(3), *(script.choice(values) for _ in range(3)))
        with contextlib.suppress(ValueError):  # out of its range
            (body,) = pack(
                [Ack(*row) for row in unpack([body]).tolist()][:-1] or [Ack(*fields)]
            )
        return kind, (len(body) - 16) // 12, body
    return kind, acks, edit_bytes(script, body)


def moved(script: Script, frames: list[bytes], others: list[bytes]) -> list[bytes]:
    """Return the frames swapped, taken out, twice, or with one of another log."""
    at, to = script.below(len(frames)), script.below(len(frames))
    other = script.choice(others)
    changed = list(frames)
    how = script.below(5)
    if how == 0:
        changed[at], changed[to] = changed[to], changed[at]
    elif how == 1:
        del changed[at]
    elif how == 2:
        changed.insert(to, changed[at])
    elif how == 3:
        changed[at] = other
    else:
        changed[at:] = others[at:]
    return changed or [other]


def edited(data: bytes) -> None:
    """What was changed is refused or a prefix; what was confirmed is all there."""
    script = Script(data)
    kind = script.below(4)
    maker = maker_of(kind)
    truth, _ = entries(maker.data(), number=kind // 2)
    confirmed, must = confirmed_of(script, maker, kind // 2)
    other = script.below(4)
    # Of one run there is one log of a number: another one is that of another run.
    runs = (OTHER_RUN,) if other // 2 == kind // 2 else (RUN, OTHER_RUN)
    others = maker_of(other, script.choice(runs)).frames
    frames, is_forged = maker.frames, False
    where = script.below(4)
    while where == 0 and not script.is_over and len(frames) < 100:
        if script.below(3):
            frames = moved(script, frames, others)
        else:
            frames, is_forged = forged(script, frames), True
        if script.below(2):
            break
    if where == 1:  # no later frame's chain covers it
        frames = [*frames[:-1], edit_bytes(script, frames[-1])]
    raw = b"".join(others if where == 3 else frames)
    while where == 2 and not script.is_over and len(raw) < 1 << 16:
        raw = edit_bytes(script, raw)
    try:
        found, _ = entries(raw, confirmed, number=kind // 2)
    except DbcheckError as error:
        assert isinstance(error, LogDamaged) or "of format" in str(error)
        assert raw != maker.data()
        return
    assert found[: len(must)] == must
    if not is_forged:
        assert found == truth[: len(found)]


def confirmed_of(
    script: Script, maker: LogMaker, number: int
) -> tuple[Watermark | None, list[Ack | str]]:
    """Return a watermark that the client may hold, and what it vouches for."""
    frames = 1 + script.below(len(maker.frames))
    if script.below(2):
        return None, []
    part = LogMaker(RUN, number)
    for frame in maker.frames[1:frames]:
        part.add_raw(frame)
        part.acks += agent.FRAME.unpack_from(frame)[4]
    return part.watermark(), entries(part.data(), number=number)[0]


def unpacked(data: bytes) -> None:
    """Any body of acks is refused or comes back from what it holds."""
    half = len(data) // 24 * 12
    for bodies in ([data], [data[:half], data[half:]]):
        try:
            acks = unpack(bodies)
        except ValueError:
            continue
        again = [Ack(*row) for row in acks.tolist()]
        if all(ack.acked_us < 2**62 for ack in again):
            assert unpack(pack(again)).tolist() == again


def bodies() -> Iterator[bytes]:
    yield from pack([Ack(1, 1, 1, 1), Ack(2, 7, 2**40, 2**50)])
    yield from pack([Ack(1, n, 3 * n, 100 * n) for n in range(1, 9)])


def scripts() -> Iterator[bytes]:
    yield b""
    for step in range(24):
        yield bytes((step * 7 + place * (step + 3)) % 256 for place in range(24))


TARGETS = (
    Target("log", read_any, written_logs),
    Target("log-edits", edited, scripts),
    Target("acks", unpacked, bodies),
)
