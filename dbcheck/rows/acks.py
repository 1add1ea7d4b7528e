"""Pack acks into the body of a frame of the witness log, 12 bytes each, and back.

A body is a base (the first ack's row id, the earliest ack's time) and, per ack,
session, seq and the distance from that base.  Acks of one moment lie close
together, so the distances are small; a body that they do not fit is split.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from dbcheck.rows.history import ROW_ID_MAX, SEQ_MAX, SESSION_MAX, AckValues

ACKS_PER_BODY_MAX = 8192
TIME_UNIT_US = 100

ACK_DTYPE = np.dtype(
    [("session", "<u2"), ("seq", "<u4"), ("row_id", "<i8"), ("acked_us", "<i8")],
    align=True,
)
AckArray = npt.NDArray[np.void]
_Columns = npt.NDArray[np.int64]

_BASE = struct.Struct("<qq")  # row id, acked_us
_ENTRY = np.dtype(
    [("session", "<u2"), ("seq", "<u4"), ("row_id", "<i4"), ("time", "<u2")]
)
BODY_BYTES_MAX = _BASE.size + ACKS_PER_BODY_MAX * _ENTRY.itemsize
_TIME_MAX = 2**16 - 1
_DELTA_MAX = 2**31 - 1


def pack(acks: Sequence[AckValues]) -> list[bytes]:
    """Return the bodies that hold *acks*, in order; as few as their distances allow.

    A time is kept to 100 us and rounded up: an ack never looks older than it was,
    so a cut is never blamed for one that came after it.  Raise ValueError if a
    value is out of its range.
    """
    try:
        flat = np.fromiter(chain.from_iterable(acks), np.int64, 4 * len(acks))
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"not an ack: {error}") from None
    columns = flat.reshape(-1, 4)
    if len(columns):
        _check_ranges(columns)
    bodies: list[bytes] = []
    for start in range(0, len(columns), ACKS_PER_BODY_MAX):
        bodies += _bodies(columns[start : start + ACKS_PER_BODY_MAX])
    return bodies


def count(body: bytes) -> int:
    """Return how many acks *body* holds; raise ValueError if no body is that long."""
    acks, rest = divmod(len(body) - _BASE.size, _ENTRY.itemsize)
    if rest or not 1 <= acks <= ACKS_PER_BODY_MAX:
        raise ValueError(f"{len(body)} bytes cannot be a body of acks")
    return acks


def unpack(bodies: Sequence[bytes]) -> AckArray:
    """Return the acks of all *bodies*, in order, as one array of ACK_DTYPE.

    Raise ValueError if a body is not what pack() makes.
    """
    counts = [count(body) for body in bodies]
    bases = [_BASE.unpack_from(body) for body in bodies]
    acks = np.zeros(sum(counts), ACK_DTYPE)
    if not bodies:
        return acks
    latest_us = 2**63 - 1 - _TIME_MAX * TIME_UNIT_US
    for row_id, acked_us in bases:
        if row_id < 0 or not 0 <= acked_us <= latest_us:
            raise ValueError("a body's base is out of range")
    joined = b"".join([memoryview(body)[_BASE.size :] for body in bodies])
    entries = np.frombuffer(joined, _ENTRY)
    base_ids, base_times = np.repeat(np.array(bases, np.int64), counts, axis=0).T
    acks["session"] = entries["session"]
    acks["seq"] = entries["seq"]
    acks["row_id"] = base_ids + entries["row_id"]
    acks["acked_us"] = base_times + entries["time"].astype(np.int64) * TIME_UNIT_US
    if acks["seq"].min() < 1:
        raise ValueError("an ack's seq is 0")
    if acks["row_id"].min() < 0:  # also where the sum passed 2^63 - 1 and wrapped
        raise ValueError("an ack's row id is out of range")
    return acks


def _check_ranges(columns: _Columns) -> None:
    """Raise ValueError if a column holds what an Ack cannot."""
    limits = (
        ("session", 0, SESSION_MAX),
        ("seq", 1, SEQ_MAX),
        ("row_id", 0, ROW_ID_MAX),
        ("acked_us", 0, 2**63 - 1 - _TIME_MAX * TIME_UNIT_US),
    )
    lows, highs = columns.min(axis=0), columns.max(axis=0)
    for (name, low, high), least, most in zip(limits, lows, highs, strict=True):
        if least < low or most > high:
            raise ValueError(f"an ack's {name} is outside {low}..{high}")


def _bodies(columns: _Columns) -> list[bytes]:
    """Return one body if all distances fit, else those of both halves."""
    _, _, row_ids, times = columns.T
    id_distances = row_ids - row_ids[0]  # fits: both are 0..2^63-1
    base_us = int(times.min())
    time_distances = -((base_us - times) // TIME_UNIT_US)
    if time_distances.max() > _TIME_MAX or np.abs(id_distances).max() > _DELTA_MAX:
        middle = len(columns) // 2
        return _bodies(columns[:middle]) + _bodies(columns[middle:])
    entries = np.empty(len(columns), _ENTRY)
    entries["session"] = columns[:, 0]
    entries["seq"] = columns[:, 1]
    entries["row_id"] = id_distances
    entries["time"] = time_distances
    return [_BASE.pack(int(row_ids[0]), base_us) + entries.tobytes()]
