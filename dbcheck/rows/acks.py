"""Operations that a client sent in a cycle, and the acks that it received.

Acks are packed into the body of a frame of the witness log, 12 bytes each.  A body is a
base (the first ack's row id, the earliest ack's time) and, for each ack, its session,
its seq and the distances of its row id and its time from the base.  Acks of one moment
lie close together, so the distances are small; a body that they do not fit is split.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

SESSION_MAX = 2**16 - 1
HOUSEKEEPING_SESSION = SESSION_MAX  # see rows.tasks
LOAD_SESSION_MAX = SESSION_MAX - 1  # sessions that replace broken ones included
PREFLIGHT_SESSION = 0  # its rows are committed before the load, and checkpointed
SEQ_MAX = 2**32 - 1
ROW_ID_MAX = 2**63 - 1


class Key(NamedTuple):
    """Name of one operation, written into the row itself.

    The auto-increment id is known only after the reply and may be handed out
    again after a crash, so it cannot name an operation; (epoch, session, seq) can.

    epoch: a number that each cycle has of its own, 1..2^62; see
           cycle.preflight.before_load.
    session: client connection, 0..65535; 0 is the preflight's, and 65535 that
             of housekeeping.
    seq:     operations sent on that connection, 1-based, without gaps.
    """

    epoch: int
    session: int
    seq: int


class Ack(NamedTuple):
    """The server's success reply to one COMMIT, as the client saw it.

    session, seq: of the operation's key; the epoch is the log's.
    row_id:       auto-increment id that the reply reported.
    acked_us:     client's monotonic clock when the reply was read, in microseconds.
    """

    session: int
    seq: int
    row_id: int
    acked_us: int


AckValues = tuple[int, int, int, int]  # of an Ack; a plain tuple is quicker to make


class Row(NamedTuple):
    """One row as sent, or as read back from the table after recovery.

    A table of the classic plan holds ids alone: there the key is (0, 0, 0),
    the payload empty and the checksum 0.

    row_id: auto-increment id; 0 before the server has chosen it.
    part:   0-based place of the row within its operation.
    payload, checksum: see rows.schedule.
    """

    row_id: int
    epoch: int
    session: int
    seq: int
    part: int
    payload: bytes
    checksum: int


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
_TIME_DISTANCE_MAX = 2**16 - 1
_ID_DISTANCE_MAX = 2**31 - 1


def pack(acks: Sequence[AckValues]) -> list[bytes]:
    """Return the bodies that hold *acks*, in order; as few as their distances allow.

    A time is kept to 100 us and rounded up: an ack never looks older than it was, so a
    cut is never blamed for losing an ack that came after it.  Raise ValueError if a
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
        bodies += _pack_columns(columns[start : start + ACKS_PER_BODY_MAX])
    return bodies


def count(body: bytes) -> int:
    """Count the acks that *body* holds; raise ValueError if no body is that long."""
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
    latest_us = 2**63 - 1 - _TIME_DISTANCE_MAX * TIME_UNIT_US
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
        ("acked_us", 0, 2**63 - 1 - _TIME_DISTANCE_MAX * TIME_UNIT_US),
    )
    lows, highs = columns.min(axis=0), columns.max(axis=0)
    for (name, low, high), least, most in zip(limits, lows, highs, strict=True):
        if least < low or most > high:
            raise ValueError(f"an ack's {name} is outside {low}..{high}")


def _pack_columns(columns: _Columns) -> list[bytes]:
    """Return one body if all distances fit, else the bodies of both halves."""
    _, _, row_ids, times = columns.T
    id_distances = row_ids - row_ids[0]  # fits: both are 0..2^63-1
    base_us = int(times.min())
    time_distances = -((base_us - times) // TIME_UNIT_US)
    if (
        time_distances.max() > _TIME_DISTANCE_MAX
        or np.abs(id_distances).max() > _ID_DISTANCE_MAX
    ):
        middle = len(columns) // 2
        return _pack_columns(columns[:middle]) + _pack_columns(columns[middle:])
    entries = np.empty(len(columns), _ENTRY)
    entries["session"] = columns[:, 0]
    entries["seq"] = columns[:, 1]
    entries["row_id"] = id_distances
    entries["time"] = time_distances
    return [_BASE.pack(int(row_ids[0]), base_us) + entries.tobytes()]


NEVER = -(2**62)  # a time before every ack


class SessionTimes:
    """The times of the latest ack of each session.

    A session sends an operation after the client read the clock for the ack of its
    operation before (load/loop.py: _run_round).
    """

    def __init__(self) -> None:
        self._latest_us = np.full(SESSION_MAX + 1, NEVER, np.int64)

    def sent_after_us(self, batch: AckArray) -> Ints:
        """Return, for each ack of *batch*, when its session got the ack before it.

        NEVER if it is the first of its session.

        The batches must come in the order of the log.
        """
        order = np.argsort(batch["session"], kind="stable")
        session, acked_us = batch["session"][order], batch["acked_us"][order]
        before_us = np.r_[NEVER, acked_us[:-1]] if len(batch) else acked_us
        is_first = np.r_[True, session[1:] != session[:-1]][: len(batch)]
        before_us[is_first] = self._latest_us[session[is_first]]
        is_last = np.r_[is_first[1:], True][: len(batch)]
        self._latest_us[session[is_last]] = acked_us[is_last]
        sent_us = np.empty(len(batch), np.int64)
        sent_us[order] = before_us
        return sent_us
