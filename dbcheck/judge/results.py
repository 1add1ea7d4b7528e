"""The results of several runs: a campaign, a matrix, the cycles of a lab, crash states.

docs/schema has the JSON Schema of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbcheck.judge.result import RunResult
from dbcheck.model.cut import CrashState
from dbcheck.model.verdict import ComparisonResult, CycleVerdict, Statistics, Verdict


def compute_price_per_rate(
    price: float | None, rate: float | None, verdict: Verdict | None
) -> float | None:
    """Return the price of each durable commit per second.

    price: of what the server runs on.  rate: commits per second.  None if either is not
    known, and unless the verdict is PASS: a commit that is not durable has no price.
    """
    if price is None or not rate or verdict is not Verdict.PASS:
        return None
    return price / rate


@dataclass(frozen=True, slots=True)
class CycleResult:
    """The result of one cycle; see campaign.folder.Cycle.

    activity: what went on when the power went.  drawn: the activity that was drawn.
    missed: why they are not known to be the same, "" if they are.  activity, drawn,
    cut_class, depth: "" if unknown.  settings_at_fault: sentences.
    after_s: the moment that was drawn, in seconds of load; cut_s: when the power went,
    null if that is not known.
    window: the task that was under way at the cut, "" if none was.
    seen, seen_lost: rows that readers saw, and those of them that are missing and were
    never acknowledged; null without readers, or if no rows were compared.
    error_id: of the error that ended it, "" if it came to a verdict.
    despite: what the audit before the load found that is more than a note, and what is
    assumed of settings, a text for each.
    """

    number: int
    run: str
    activity: str
    missed: str
    after_s: float
    verdict: CycleVerdict
    reason: str
    cut_class: str
    depth: str
    settings_at_fault: tuple[str, ...]
    confirmed: int | None
    lost: int | None
    earlier_lost: int | None
    acks_per_s: float | None
    settled: bool
    ended: str
    window: str = ""
    seen: int | None = None
    seen_lost: int | None = None
    error_id: str = ""
    drawn: str = ""
    cut_s: float | None = None
    despite: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """True if it is no control, and came to a PASS or a FAIL."""
        return bool(self.number) and self.verdict.counts


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The cuts during one kind of task.

    loss_ppm_max: at most so many of a million such cuts lose, at 95% confidence.
    """

    cuts: int
    losses: int
    loss_ppm_max: int


@dataclass(frozen=True, slots=True)
class SeenTotal:
    """Fate of the rows that readers saw in all cycles; beside the verdict.

    cuts: that count, of the cycles with readers.
    lossy: after how many of them a row was missing.
    rows, lost: see SeenResult.
    """

    cuts: int
    lossy: int
    rows: int
    lost: int


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """Result of a campaign: what the cuts of one target show together.

    finished:   there is nothing more to do.
    commits_per_s: the median of the cycles; null without any.
    price:      of what the target runs on, null if none was given.
    activities:     what went on at the cuts that count, as far as known -> how many.
    windows:    the task that was under way at such a cut -> what those cuts show.
    seen:       null if no cycle had readers.
    bound_ppm:  what the cuts are to show if none loses, null if a number was given.
    cuts_still_needed: for that, null once a cut or a control has failed.
    error:      why the campaign ended before it was finished, "" if it did not.
    error_id:   of that; "" as well if it was interrupted.
    """

    name: str
    target: str
    folder: str
    seed: int
    cut_classes: tuple[str, ...]
    verdict: Verdict
    finished: bool
    commits_per_s: float | None
    price: float | None
    price_per_durable_commit_per_s: float | None
    statistics: Statistics
    activities: Mapping[str, int]
    windows: Mapping[str, WindowResult]
    seen: SeenTotal | None
    planned_cuts: int
    bound_ppm: int | None
    cuts_still_needed: int | None
    errors: int
    error: str
    error_id: str
    cycles: tuple[CycleResult, ...]

    @property
    def counted(self) -> tuple[CycleResult, ...]:
        """The cycles that count: no controls, and none without a PASS or FAIL."""
        return tuple(one for one in self.cycles if one.counts)

    @property
    def rows_lost(self) -> tuple[int, int] | None:
        """The number of lost rows of cycles that count, and of earlier ones in each.

        None if no rows were compared, also if that was after a cut that failed: the
        server or the table did not come back.
        """
        fails = [one for one in self.counted if one.verdict is CycleVerdict.FAIL]
        compared = [one for one in self.counted if one.lost is not None]
        if not compared or any(one.lost is None for one in fails):
            return None
        return (
            sum(one.lost or 0 for one in compared),
            sum(one.earlier_lost or 0 for one in compared),
        )

    @property
    def confirmed(self) -> int | None:
        """The number of commits that the witness holds, None if none is known.

        Those of cycles that do not count are no evidence, and are left out.
        """
        counts = [c.confirmed for c in self.counted if c.confirmed is not None]
        return sum(counts) if counts else None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """Targets that are configured alike, and what their cuts show together.

    drives:  their models, firmware and write caches, for each place of the server.
    apart:   what sets this group apart from the others: name -> value.
    losing:  the targets of it that lost something.
    statistics: as if all were one target, which they are only as far as what is alike
             decides what is lost.
    """

    targets: tuple[str, ...]
    server: str
    drives: tuple[str, ...]
    apart: Mapping[str, str]
    losing: tuple[str, ...]
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class CampaignsResult:
    """Output of dbcheck campaign --json.

    folder: where all of it is.  groups: of targets that are configured alike, those
    with losses first; empty with fewer than two targets.
    """

    folder: str
    targets: tuple[CampaignResult, ...]
    groups: tuple[GroupResult, ...] = ()


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of one configuration of a matrix.

    expect:  the verdict that it must get, null if any will do.
    verdict: the worst of its cycles, null without any.
    error:   why its remaining cycles did not run, null if all ran.
    error_id: of that; null as well if they were not begun.
    price:   of what it runs on, null if none was given.
    """

    name: str
    reference: str
    expect: Verdict | None
    as_expected: bool
    verdict: Verdict | None
    error: str | None
    error_id: str | None
    commits_per_s: float | None
    p99_ms: float | None
    lost: int | None
    price: float | None
    price_per_durable_commit_per_s: float | None
    statistics: Statistics
    cycles: tuple[RunResult, ...]

    @property
    def shown_verdict(self) -> Verdict | None:
        """The verdict to show: no PASS if not all of its cycles ran."""
        unfinished = self.error and self.verdict is Verdict.PASS
        return None if unfinished else self.verdict


@dataclass(frozen=True, slots=True)
class MatrixResult:
    """Output of dbcheck matrix --json; comparison: null unless there are two rows."""

    seed: int
    as_expected: bool
    description: str
    reference: str
    comparison: ComparisonResult | None
    rows: tuple[RowResult, ...]


@dataclass(frozen=True, slots=True)
class ReceiptResult:
    """Result of one configuration for a rule of the audit.

    named: the audit before the cut named the rule.
    cuts:  how many were made.
    lost:  what the last one lost, "" if none lost anything.
    error: why it did not run to its end, "" if it did.
    error_id: of that; "" as well if it was not begun.
    """

    rule: str
    row: str
    named: bool
    cuts: int
    lost: str
    error: str
    error_id: str

    @property
    def shown(self) -> bool:
        """True if the audit named it without a cut, and a cut confirmed it."""
        return self.named and bool(self.lost) and not self.error


@dataclass(frozen=True, slots=True)
class ReceiptsResult:
    """Output of dbcheck audit --receipt RULE --json."""

    rows: tuple[ReceiptResult, ...]


@dataclass(frozen=True, slots=True)
class SideResult:
    """One of two runs or campaigns that are compared.

    runs:    how many gave the rates and latencies: medians, with the extremes of rates.
    lost:    rows, those of earlier cycles too; null if they were not compared.
    """

    folder: str
    target: str
    server: str
    verdict: Verdict
    runs: int
    commits_per_s: float | None
    slowest_per_s: float | None
    fastest_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    confirmed: int | None
    lost: int | None
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class DifferenceResult:
    """One difference of two configurations; null where it is not known of one."""

    name: str
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class ComparedResult:
    """Output of dbcheck report --compare A B.

    rate_ratio: B's median of commits per second, divided by A's; null without both.
    comparison: of how many cuts lost something, with a test of the difference.
    same:       how many values of the configuration are the same in both.
    """

    a: SideResult
    b: SideResult
    rate_ratio: float | None
    comparison: ComparisonResult
    differences: tuple[DifferenceResult, ...]
    same: int


@dataclass(frozen=True, slots=True)
class LabResult:
    """Output of dbcheck lab run --json; verdict: the worst, lab: its spec."""

    verdict: Verdict
    lab: Mapping[str, Any]
    statistics: Statistics
    controls: tuple[RunResult, ...]
    cycles: tuple[RunResult, ...]


@dataclass(frozen=True, slots=True)
class DemoRow:
    """One line of the demo; case: what is under test."""

    case: str
    expected: Verdict
    result: RunResult


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Output of dbcheck demo --json."""

    seed: int
    as_expected: bool
    rows: tuple[DemoRow, ...]


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
    """Share of all states of a recording that was judged.

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
