"""What a page draws of a run beside its result: charts, a map, what was configured."""

from __future__ import annotations

from dataclasses import dataclass

from dbcheck.model.records import AfterRecord, Manifest
from dbcheck.rows.keymap import KeyMap
from dbcheck.rows.timeline import Timeline


@dataclass(frozen=True, slots=True)
class DrivePoint:
    """What one drive did between two samples.

    before_end_s: when the later one was taken, in seconds before the timeline's end.
    flushes_per_s: None where the kernel does not count them.
    """

    before_end_s: float
    writes_per_s: float
    flushes_per_s: float | None


@dataclass(frozen=True, slots=True)
class DriveSeries:
    """One drive of one node during the load."""

    node: str
    drive: str
    points: tuple[DrivePoint, ...]


@dataclass(frozen=True, slots=True)
class RunDetail:
    """What is drawn beside a RunResult.

    timeline, keys: None where the witness's log proves nothing, or is not here; keys
                    also where no rows were compared.
    compared: the rows were compared with the acks; else what survived is not known.
    drives: () if none were counted.
    missing: why something is not drawn that a run can have, "" if all is.
    """

    manifest: Manifest
    after: AfterRecord
    timeline: Timeline | None
    keys: KeyMap | None
    compared: bool
    drives: tuple[DriveSeries, ...]
    missing: str
