"""Reads the log that an agent wrote, without trusting anything in it.

A log may end in the middle of a frame: the witness was writing when its power was cut
or the client ended, and nothing of that frame was confirmed.  Any other damage makes
the log worthless: which acks it once held can then not be determined.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dbcheck.agent.witness import (
    ACKS,
    BODY_BYTES_MAX,
    CHAIN_BYTES,
    CRC_END,
    EVENT,
    FORMAT,
    FRAME,
    HEADER,
    MAGIC,
    WRITE_BYTES_MAX,
    make_frame,
)
from dbcheck.base import plain
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged, WitnessError
from dbcheck.model.witness import Json, LogFacts, Watermark, WitnessTime
from dbcheck.rows.acks import (
    PREFLIGHT_SESSION,
    SESSION_MAX,
    AckArray,
    count,
    pack,
    unpack,
)
from dbcheck.runs.stored import advise_on_unreadable_record

FRAME_BYTES_MAX = FRAME.size + BODY_BYTES_MAX
TAIL_BYTES_MAX = WRITE_BYTES_MAX + FRAME_BYTES_MAX  # bytes of one write
# A tail with more starts of frames than this is not an accident.
_BROKEN_FRAMES_MAX = 64
_EVENTS_MAX = 64  # a run notes four at most, see cycle.loading and .cutter
_BATCH_FRAMES = 1024
_BATCH_ACKS = 1 << 16
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AckBatch:
    """Acks of some consecutive frames.

    clock_us: the witness's clock when it received the last of these frames.
    """

    acks: AckArray
    clock_us: int


@dataclass(frozen=True, slots=True)
class Event:
    """An event of WitnessLog.note(), and the witness's clock when it came."""

    body: Json
    clock_us: int


@dataclass(frozen=True, slots=True)
class Tail:
    """An incomplete last frame: where it begins, how long it is (0 if none)."""

    offset: int
    bytes: int


class LogScan:
    """One pass over a log that comes in *chunks*; iterate it to its end.

    Yields AckBatch and Event, in order.  Raise LogDamaged if it is not log *number* of
    *run_id*, is damaged before its tail, or does not hold what was *confirmed*.  Memory
    does not grow with the log.  After the pass, tail and watermark show what was read;
    before the end of the pass nothing is proven.

    by_witness: see ports.witness.LogReader.
    """

    def __init__(
        self,
        chunks: Iterable[bytes],
        run_id: str,
        confirmed: Watermark | None = None,
        *,
        number: int = 0,
        by_witness: bool = False,
    ) -> None:
        self._time = WitnessTime() if by_witness else None
        self._received: list[tuple[int, int]] = []  # acks of a frame, the time it came
        self._source = _Source(chunks)
        self._run_id, self._number = run_id, number
        self.confirmed = confirmed
        self._sha = hashlib.sha256()
        self._frames = 0
        self._acks = 0
        self._last_seq = np.zeros(SESSION_MAX + 1, np.int64)
        self._bodies: list[bytes] = []
        self._first_offset = 0
        self._batch_acks = 0
        self.tail = Tail(0, 0)

    @property
    def watermark(self) -> Watermark:
        """Return the watermark of the frames read so far."""
        return Watermark(self._frames, self._acks, self._sha.hexdigest())

    def __iter__(self) -> Iterator[AckBatch | Event]:
        """Read the log to its end."""
        clock_us = 0
        for frame in self._read_sound_frames():
            if frame.kind == ACKS:
                clock_us = frame.clock_us
                self._collect_acks(frame)
            if self._bodies and self._batch_is_due(frame.kind):
                yield AckBatch(self._decode_batch(), clock_us)
            if frame.kind == EVENT:
                yield Event(_parse_event(frame), frame.clock_us)
        if self._bodies:
            yield AckBatch(self._decode_batch(), clock_us)
        self._require_all_confirmed()

    def _require_all_confirmed(self) -> None:
        if self._frames == 0:
            raise _damaged_log_error(0, "it has no header")
        if self.confirmed and self._frames < self.confirmed.frames:
            raise _damaged_log_error(
                self.tail.offset,
                f"{self.confirmed.frames} frames were confirmed, "
                f"{self._frames} are there",
            )

    def frames(self) -> Iterator[tuple[Frame, Watermark]]:
        """Yield each sound frame, and the watermark after it, in place of a pass."""
        for frame in self._read_sound_frames():
            yield frame, self.watermark
        self._require_all_confirmed()

    def _batch_is_due(self, kind: int) -> bool:
        is_full = len(self._bodies) >= _BATCH_FRAMES or self._batch_acks >= _BATCH_ACKS
        return is_full or kind == EVENT

    def _read_sound_frames(self) -> Iterator[Frame]:
        """Yield the frames whose CRC, chain and place are right."""
        source = self._source
        while source.fill(FRAME_BYTES_MAX):
            frame = _read_frame(source.buffer, source.start, source.offset)
            if frame is None:
                self._accept_tail()
                return
            if frame.chain != self._sha.digest()[:CHAIN_BYTES]:
                raise _damaged_log_error(frame.offset, "the hash chain is broken")
            if (frame.kind == HEADER) != (self._frames == 0):
                raise _damaged_log_error(
                    frame.offset, "a header frame is at the wrong place"
                )
            if frame.kind == HEADER:
                self._check_header(frame)
            self._sha.update(memoryview(source.buffer)[source.start : frame.end])
            self._frames += 1
            self._acks += frame.count
            source.skip_to(frame.end)
            self._compare_with_confirmed(frame)
            yield frame
        self.tail = Tail(source.offset, 0)

    def _check_header(self, frame: Frame) -> None:
        header = _parse_event(frame)
        if header.get("run") != self._run_id:
            raise _damaged_log_error(0, f"it is the log of run {header.get('run')!r}")
        if header.get("format") != FORMAT:
            raise WitnessError(
                f"the witness log is of format {header.get('format')!r}",
                id=ErrorId.RECORD_OF_ANOTHER_VERSION,
                hint=f"This dbcheck reads format {FORMAT}; use the one that wrote it.",
            )
        if header.get("log") != self._number:
            raise _damaged_log_error(
                0, f"it is log {header.get('log')!r} of the run, not {self._number}"
            )

    def _compare_with_confirmed(self, frame: Frame) -> None:
        if (
            self.confirmed
            and self._frames == self.confirmed.frames
            and self.watermark != self.confirmed
        ):
            raise _damaged_log_error(
                frame.offset, "it differs from what the witness confirmed"
            )

    def _collect_acks(self, frame: Frame) -> None:
        """Keep the acks of *frame* for the next batch."""
        try:
            acks = count(frame.body)
        except ValueError as error:
            raise _damaged_log_error(frame.offset, str(error)) from None
        if acks != frame.count:
            raise _damaged_log_error(
                frame.offset, f"a frame announces {frame.count} acks and holds {acks}"
            )
        if not self._bodies:
            self._first_offset = frame.offset
        self._bodies.append(frame.body)
        self._received.append((acks, frame.clock_us))
        self._batch_acks += acks

    def _decode_batch(self) -> AckArray:
        """Return the collected acks; the seqs of each session must grow."""
        try:
            acks = unpack(self._bodies)
        except ValueError as error:
            raise _damaged_log_error(self._first_offset, str(error)) from None
        if self._time is not None:
            counts, received_us = np.array(self._received, np.int64).T
            self._time.date(acks, counts, received_us)
        self._bodies.clear()
        self._received.clear()
        self._batch_acks = 0
        order = np.argsort(acks["session"], kind="stable")
        session = acks["session"][order]
        seq = acks["seq"][order].astype(np.int64)
        is_first = np.concatenate(([True], session[1:] != session[:-1]))
        previous = np.concatenate(([0], seq[:-1]))
        previous[is_first] = self._last_seq[session[is_first]]
        if (seq <= previous).any():
            raise _damaged_log_error(
                self._first_offset, "a session's seq goes backwards"
            )
        is_last = np.concatenate((is_first[1:], [True]))
        self._last_seq[session[is_last]] = seq[is_last]
        return acks

    def _accept_tail(self) -> None:
        """Note the torn tail that begins here; raise LogDamaged if it is none."""
        offset = self._source.offset
        rest = self._source.rest(TAIL_BYTES_MAX + 1)
        if len(rest) > TAIL_BYTES_MAX:
            raise _damaged_log_error(
                offset, "a damaged frame is followed by more than one write holds"
            )
        place = rest.find(MAGIC, 1)
        for _ in range(_BROKEN_FRAMES_MAX):
            if place < 0:
                self.tail = Tail(offset, len(rest))
                return
            if _read_frame(rest, place, offset + place):
                break
            place = rest.find(MAGIC, place + 1)
        raise _damaged_log_error(offset, "a damaged frame is followed by intact ones")


class ChangedLog:
    """A copy of a log in which events are changed; iterate it to its end.

    Yields the bytes of the frames, chained anew.  An incomplete last frame becomes as
    many zero bytes: nothing of it was confirmed.  Raise LogDamaged as LogScan does.
    Afterwards *confirmed* is the watermark of the same frames in the copy, None if none
    was given, and *changed* says whether any event was changed.
    """

    def __init__(self, scan: LogScan, change: Callable[[Json], Json]) -> None:
        """Copy the log of *scan*; change() returns what an event becomes."""
        self._scan, self._change = scan, change
        self._sha = hashlib.sha256()
        self.changed = False
        self.confirmed: Watermark | None = None

    def __iter__(self) -> Iterator[bytes]:
        """Copy frame by frame."""
        for frame, read in self._scan.frames():
            body = frame.body
            if frame.kind == EVENT:
                event = _parse_event(frame)
                if (shown := self._change(event)) != event:
                    body, self.changed = json.dumps(shown).encode(), True
            chain = self._sha.digest()[:CHAIN_BYTES]
            made = make_frame(frame.kind, frame.count, frame.clock_us, chain, body)
            self._sha.update(made)
            if read == self._scan.confirmed:
                self.confirmed = replace(read, digest=self._sha.hexdigest())
            yield made
        yield bytes(self._scan.tail.bytes)


class FrameLogReader:
    """Reads copies of logs from files; see ports.witness.LogReader."""

    def facts(
        self,
        path: Path,
        run_id: str,
        number: int,
        confirmed: Watermark | None,
        *,
        by_witness: bool = False,
        take: Callable[[AckArray], None] | None = None,
    ) -> LogFacts:
        chunks = stream_file(path)
        scan = LogScan(chunks, run_id, confirmed, number=number, by_witness=by_witness)
        events: list[Event] = []
        newest_us = -1
        for entry in scan:
            if isinstance(entry, Event):
                if len(events) == _EVENTS_MAX:
                    raise _damaged_log_error(
                        0, f"it holds more than {_EVENTS_MAX} events"
                    )
                events.append(entry)
            else:
                is_of_load = entry.acks["session"] != PREFLIGHT_SESSION
                acked_us = entry.acks["acked_us"][is_of_load].max(initial=-1)
                newest_us = max(newest_us, int(acked_us))
                if take is not None:
                    take(entry.acks)
        watermark = scan.watermark
        return LogFacts(
            watermark.frames,
            watermark.acks,
            scan.tail.bytes,
            newest_us if newest_us >= 0 else None,
            [event.body for event in events],
            [event.clock_us for event in events],
            watermark.digest,
        )

    def acks(
        self,
        path: Path,
        run_id: str,
        number: int,
        confirmed: Watermark | None,
        *,
        by_witness: bool = False,
    ) -> Iterator[AckArray]:
        chunks = stream_file(path)
        scan = LogScan(chunks, run_id, confirmed, number=number, by_witness=by_witness)
        for entry in scan:
            if isinstance(entry, AckBatch):
                yield entry.acks

    def bytes_max(self, acks: int) -> int:
        """Return the largest length of a log that holds up to *acks* acks.

        Each ack may have a frame of its own; the rest are the header, the events, and
        the torn tail of one write.
        """
        frame_of_one_ack = FRAME.size + len(pack([(1, 1, 1, 1)])[0])
        return acks * frame_of_one_ack + _EVENTS_MAX * FRAME_BYTES_MAX + TAIL_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame whose CRC is right; end is its place in the buffer."""

    offset: int
    end: int
    kind: int
    count: int
    clock_us: int
    chain: bytes
    body: bytes


class _Source:
    """Bytes that come in chunks, as a buffer.

    start:  the place in the buffer from which to read on.
    offset: the place in the log that start stands for.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._ended = False
        self.buffer = bytearray()
        self.start = 0
        self.offset = 0

    def fill(self, wanted: int) -> int:
        """Try to buffer *wanted* bytes from start on; return how many are buffered."""
        if len(self.buffer) - self.start < wanted and not self._ended:
            del self.buffer[: self.start]
            self.start = 0
            while len(self.buffer) < wanted and not self._ended:
                chunk = next(self._chunks, None)
                self._ended = chunk is None
                self.buffer += chunk or b""
        return len(self.buffer) - self.start

    def skip_to(self, end: int) -> None:
        """Continue at the place *end* of the buffer."""
        self.offset += end - self.start
        self.start = end

    def rest(self, limit: int) -> bytearray:
        """Return the remaining bytes, *limit* at most."""
        self.fill(limit)
        return self.buffer[self.start : self.start + limit]


def _read_frame(buffer: bytearray, start: int, offset: int) -> Frame | None:
    """Return the frame at *start*, None if no sound frame is there."""
    if len(buffer) - start < FRAME.size:
        return None
    magic, crc, length, kind, acks, clock_us, chain = FRAME.unpack_from(buffer, start)
    end = start + FRAME.size + length
    if magic != MAGIC or length > BODY_BYTES_MAX or end > len(buffer):
        return None
    with memoryview(buffer) as view:
        if zlib.crc32(view[start + CRC_END : end]) != crc:
            return None
    body = bytes(buffer[start + FRAME.size : end])
    if kind not in (HEADER, ACKS, EVENT) or (kind != ACKS and acks):
        raise _damaged_log_error(offset, f"a frame of kind {kind} with {acks} acks")
    return Frame(offset, end, kind, acks, clock_us, chain, body)


def _parse_event(frame: Frame) -> dict[str, Any]:
    """Return the JSON object in *frame*."""
    try:
        value = json.loads(frame.body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _damaged_log_error(frame.offset, "an event is not a JSON object")
    return value


def stream_file(path: Path) -> Iterator[bytes]:
    """Stream a file; raise WitnessError if it cannot be read."""
    try:
        with plain.open_regular(path) as file:
            while chunk := file.read(_READ_BYTES):
                yield chunk
    except OSError as error:
        raise WitnessError(
            f"cannot read {path}: {error.strerror}",
            id=ErrorId.RECORD_UNREADABLE,
            hint=advise_on_unreadable_record(error),
        ) from error


def _damaged_log_error(offset: int, what: str) -> LogDamaged:
    return LogDamaged(
        f"the witness log is damaged at byte {offset}: {what}",
        id=ErrorId.WITNESS_LOG_DAMAGED,
        hint="Run dbcheck witness verify for it, which says what to do.",
    )
