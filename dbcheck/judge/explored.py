"""What exploring crash states shows; docs/schema has the JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbcheck.model.cut import CrashState
from dbcheck.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class LostRow:
    """One loss; see rows.loss.Loss."""

    kind: str
    table: str
    session: int
    seq: int
    row_id: int


@dataclass(frozen=True, slots=True)
class StateJudgement:
    """What became of one crash state.

    acks:   how many were in force.
    losses: kind of loss -> rows; of "unrecoverable" always 1.
    reason: in words; "" of a PASS.
    rows:   the first of the rows.
    """

    verdict: Verdict
    acks: int
    losses: Mapping[str, int]
    reason: str = ""
    rows: tuple[LostRow, ...] = ()


@dataclass(frozen=True, slots=True)
class LostBlock:
    """Bytes that were written and are not on the drive.

    drive: its number, 0 for the data's.
    write: the number of the write in the recording.
    age_ms: how long before the cut it came.
    place: where the bytes begin on the drive.
    file:  by its path below the filesystem's root; "" if they belong to no file that is
           there: to the filesystem's journal or metadata, or to a file since removed.
           null if the filesystem cannot be mounted, so that its files are not known.
    at:    where in the file they begin, -1 without one.
    """

    drive: int
    write: int
    age_ms: float
    place: int
    length: int
    file: str | None
    at: int


@dataclass(frozen=True, slots=True)
class StateResult:
    """One crash state, judged, and what it lacks.

    load_s: when the cut comes, in seconds of load.
    lost:   what had come by then and is not on the drives, by file.
    """

    name: str
    state: CrashState
    judgement: StateJudgement
    load_s: float
    lost: tuple[LostBlock, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which states fail.

    number:   from 1 on.
    states:   names of all that failed in this way, the one that lacks least first.
    again:    that one failed in the same way when it was judged once more.
    complete: the reduction tried all that it had to; else less may be enough.
    smallest: the state that lacks least of all that were tried; the first of *states*
              itself if that did not fail again.
    tries:    how many states the reduction judged.
    """

    number: int
    states: tuple[str, ...]
    again: bool
    complete: bool
    smallest: StateResult
    tries: int

    @property
    def name(self) -> str:
        """By which --state repeats it."""
        return f"finding-{self.number}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the judged states are of all states of a recording.

    moments:  just before a flush ended, where the crash states lie.
    visited:  of these, how many have a state that was judged there.
    at_risk:  the most writes that could be lost at one of them.
    writes:   how many writes could be lost at all.
    lost:     of these, how many at least one state lacked, in part or as a whole.
    possible: how many states of whole writes there are, as a power of 10; null of
              several drives, where it is not computed.
    whole:    how many of the judged states are of whole writes.
    """

    moments: int
    visited: int
    at_risk: int
    writes: int
    lost: int
    possible: float | None
    whole: int


@dataclass(frozen=True, slots=True)
class ExploreResult:
    """One exploration.

    folder:   where all of it is stored.
    lab:      the lab's spec.
    commits:  acks of the recorded load that the witness holds, up to its end.
    load_s:   how long the recorded load ran.
    writes, flushes: that were recorded, those before the load included.
    wanted:   states that were asked for.
    states:   how many different ones were judged.
    failed, inconclusive: of these.
    finished: as many states were judged as were asked for, or hardly any is left.
    per_s:    states a second of this command, null if it judged none.
    kinds:    kind of survivors -> how many of the states are of it.
    failing:  the names of the states that failed.
    unclear:  the names of those that could not be judged.
    doubts:   why states are inconclusive, each reason once.
    """

    verdict: Verdict
    folder: str
    seed: int
    lab: Mapping[str, Any]
    commits: int
    load_s: float
    writes: int
    flushes: int
    wanted: int
    states: int
    failed: int
    inconclusive: int
    finished: bool
    per_s: float | None
    kinds: Mapping[str, int]
    coverage: Coverage
    findings: tuple[Finding, ...]
    failing: tuple[str, ...]
    unclear: tuple[str, ...]
    doubts: tuple[str, ...]
