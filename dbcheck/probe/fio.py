"""What fio(1) prints as JSON of random writes (fio 3.33, HOWTO, "JSON output")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_P50, _P99 = "50.000000", "99.000000"


@dataclass(frozen=True, slots=True)
class FileioResult:
    """Random writes of 16 KiB with O_DIRECT by several at once.

    at_once: threads, or blocks in flight.  flushed: each write is followed by
    fdatasync; else none is.  writes_per_s: of all together.  write_p50_us and so on:
    how long a write alone took, microseconds; sync_p50_us and so on: its fdatasync,
    null where there is none.  why: the reason why nothing was measured, "" if it was;
    then every number is 0.
    """

    at_once: int
    flushed: bool
    writes_per_s: float
    write_p50_us: float
    write_p99_us: float
    sync_p50_us: float | None
    sync_p99_us: float | None
    why: str = ""

    @classmethod
    def of(cls, at_once: int, flushed: bool, text: str, why: str) -> FileioResult:
        """Return what fio's output says, or that it says nothing."""
        if why:
            return cls(at_once, flushed, 0.0, 0.0, 0.0, None, None, why)
        try:
            (job,) = json.loads(text)["jobs"]
            wrote = _percentiles(job["write"]["clat_ns"])
            sync = _percentiles(job["sync"]["lat_ns"]) if flushed else (None, None)
            return cls(at_once, flushed, float(job["write"]["iops"]), *wrote, *sync)
        except (LookupError, TypeError, ValueError, RecursionError):
            why = "fio printed something that is not known"
            return cls.of(at_once, flushed, "", why)


def _percentiles(times: Mapping[str, Any]) -> tuple[float, float]:
    """Return p50 and p99 in microseconds; raise LookupError if there are none."""
    found = times["percentile"]
    return float(found[_P50]) / 1000, float(found[_P99]) / 1000
