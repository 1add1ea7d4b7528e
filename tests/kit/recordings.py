"""Recordings of drives that no server wrote to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dbcheck.lab.drive.recording import Recorder, Recording

SIZE = 1 << 20
_S = 1e-6  # a microsecond


@dataclass(frozen=True)
class Came:
    """A write: when, in microseconds; where; how long."""

    at_us: int
    offset: int
    length: int


@dataclass(frozen=True)
class Flushed:
    """A flush was answered that covers so many writes."""

    at_us: int
    covered: int


def recording_of(
    events: Sequence[Came | Flushed], end_us: int, path: Path
) -> Recording:
    """Return the recording of *events*, in their order, each write with other bytes."""
    recorder = Recorder(memoryview(bytes(SIZE)), 0.0)
    writes = 0
    for event in events:
        now = (event.at_us + 0.5) * _S  # so that rounding down gives at_us
        if isinstance(event, Came):
            writes += 1
            recorder.write(now, event.offset, bytes([writes % 251 + 1]) * event.length)
        else:
            recorder.flush(now, event.covered)
    recorder.end((end_us + 0.5) * _S)
    with path.open("wb") as file:
        recorder.save(file)
    return Recording(path)
