"""The results of an exploration: what each state that a cut could have left shows.

docs/schema has the JSON Schema of each.
"""

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
    """Judgement on one crash state.

    acks:   how many acks were in force.
    losses: kind of loss -> number of rows; for "unrecoverable" always 1.
    reason: in words; "" for a PASS.
    rows:   the first of the lost rows.
    """

    verdict: Verdict
    acks: int
    losses: Mapping[str, int]
    reason: str = ""
    rows: tuple[LostRow, ...] = ()


@dataclass(frozen=True, slots=True)
class LostBlock:
    """Bytes that were written and are not on the drive.

    drive: number of the drive, 0 for the drive of the data.
    write: the number of the write in the recording.
    age_ms: how long before the cut the write came.
    place: where the bytes begin on the drive.
    file:  path of their file below the filesystem's root; "" if they belong to no
           existing file, but to the filesystem's journal or metadata or to a file since
           removed.  null if the filesystem cannot be mounted.
    at:    where in the file the bytes begin, -1 without a file.
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
    lost:   the bytes that were written by then and are not on the drives.
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
    states:   names of all states that failed in this way, the one that lacks least
              first.
    again:    the first state failed in the same way when it was judged once more.
    complete: the reduction tried all that it had to; else a smaller state may fail too.
    smallest: the state that lacks least of all that were tried; the first of *states*
              itself if it did not fail again.
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
        """The name by which --state repeats this finding."""
        return f"finding-{self.number}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of all states of a recording that was judged.

    moments:  number of moments just before a flush ended, where the crash states lie.
    visited:  how many of these moments have a state that was judged.
    at_risk:  the most writes that could be lost at one of these moments.
    writes:   how many writes could be lost at all.
    lost:     how many of these writes at least one state lacked, in part or as a whole.
    possible: how many states of whole writes there are, as a power of 10; null for
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

    folder:   where the exploration is stored.
    lab:      the lab's spec.
    commits:  acks of the recorded load that the witness holds, up to the load's end.
    load_s:   how long the recorded load ran.
    writes, flushes: how many were recorded, including those before the load.
    wanted:   how many states were asked for.
    states:   how many different states were judged.
    failed, inconclusive: how many of the judged states.
    finished: as many states were judged as were asked for, or hardly any state is left.
    per_s:    states a second that this command judged, null if it judged none.
    kinds:    kind of survivors -> number of judged states of this kind.
    failing:  the names of the states that failed.
    unclear:  the names of the states that could not be judged.
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
