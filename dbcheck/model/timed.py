"""How a block is written so that it is durable, and how long that took."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dbcheck.model.counters import Sample


class Method(enum.StrEnum):
    """How a write is made durable, as a server can do it (open(2), pwritev2(2))."""

    FSYNC = "fsync"
    FDATASYNC = "fdatasync"
    DSYNC = "O_DSYNC"
    DIRECT = "O_DIRECT + fdatasync"
    RWF_DSYNC = "RWF_DSYNC"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of write: so many bytes at an offset of a file, over and over."""

    method: Method
    size: int
    offset: int


@dataclass(frozen=True, slots=True)
class Timed:
    """Writes of one shape.

    took_ns: how long each took, until it was durable, nanoseconds, in order.
    before, after: what the devices had done; device counters count whole milliseconds.
    why: the reason why there are none, "" if there are.
    """

    took_ns: tuple[int, ...]
    before: Sample
    after: Sample
    why: str = ""
