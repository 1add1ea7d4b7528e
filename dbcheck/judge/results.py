"""The results of several runs: a campaign, a matrix, the cycles of a lab.

docs/schema has the JSON Schema of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbcheck.judge.checks import ChosenRuns
from dbcheck.judge.result import Checked, RunResult
from dbcheck.model.outage import OutageTotal
from dbcheck.model.verdict import (
    ComparisonResult,
    CycleVerdict,
    JudgedCycle,
    Statistics,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class CycleResult(JudgedCycle):
    """The result of one cycle; see campaign.folder.Cycle.

    activity: what went on when the power went.  drawn: the activity that was drawn.
    missed: why both activities are not known to be the same, "" if they are.
    activity, drawn, cut_class, depth: "" if unknown.  settings_at_fault: sentences.
    after_s: the moment that was drawn, in seconds of load; cut_s: when the power went,
    null if the time is not known.
    window: the task that was under way at the cut, "" if none was.
    seen: how many rows readers saw.  seen_lost: how many of the seen rows are missing
    and were never acknowledged.  null without readers, or if no rows were compared.
    error_id: id of the error that ended the cycle, "" if it came to a verdict.
    despite: texts: each finding of the audit before the load that is more than a note,
    and each assumption about settings.
    uncut: no cut of the server's power was asked for, whatever ended the load.
    writer, reader: of a cluster, the node that took the load, and the one that was
    read ("" if none was); "" of a single server.  promise: of a cluster, what the cut
    tested, "" if an older dbcheck ran the cycle.
    outage_s: the time to recover, null if it was not measured.  outage_lost: how many
    commits were answered after the cut and did not last.  outage_over_s: where none
    lasted as long as dbcheck tried, that time; null otherwise.
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
    uncut: bool = False
    writer: str = ""
    reader: str = ""
    outage_s: float | None = None
    outage_lost: int = 0
    outage_over_s: float | None = None
    promise: str = ""


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The cuts during one kind of task.

    loss_ppm_max: how many of a million such cuts lose at most, at 95% confidence.
    """

    cuts: int
    losses: int
    loss_ppm_max: int


@dataclass(frozen=True, slots=True)
class SeenTotal:
    """Fate of the rows that readers saw in all cycles; beside the verdict.

    cuts: the cuts that count, in cycles with readers.
    lossy: after how many of these cuts a row was missing.
    rows, lost: see SeenResult.
    """

    cuts: int
    lossy: int
    rows: int
    lost: int


@dataclass(frozen=True, slots=True)
class PromiseResult:
    """What the cuts of one promise of a cluster show; see CampaignResult.

    planned_cuts: its share of the cuts.  cuts_left: how many of them are still to come,
    null once the verdict is FAIL.
    confirmed, lost: commits that the witness holds, and lost rows with those of earlier
    cycles; of its cycles with a PASS or FAIL, as far as known.
    """

    verdict: Verdict
    planned_cuts: int
    cuts_left: int | None
    confirmed: int
    lost: int
    commits_per_s: float | None
    statistics: Statistics
    activities: Mapping[str, int]
    windows: Mapping[str, WindowResult]
    outage: OutageTotal | None


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """Result of a campaign: what the cuts of one target show together.

    finished:   no cycle is left to run.
    commits_per_s: the median of the cycles; null without any.
    price:      of what the target runs on, null if none was given.
    cut_classes: what the cycles cut, without those that cut nothing.
    activities: known activity at a cut that counts -> number of such cuts.
    windows:    task that was under way at a cut that counts -> what those cuts show.
    seen:       null if no cycle had readers.
    bound_ppm:  the upper bound on the probability of a loss that the cuts are to show
                if none loses, null if a number of cuts was given instead.
    cuts_still_needed: to show the bound, null once the verdict is FAIL.
    error:      why the campaign ended before it was finished, "" if it did not.
    error_id:   id of that error; also "" if the campaign was interrupted.
    unjudged:   runs that were cut, or may have been, and that no cycle counts yet: each
                may be a loss, so the statistics state no bound.
    chosen:     the runs that were named, if they are no campaign; null of a campaign.
                name is then the target's URL, seed that of the oldest run.
    checked:    what the newest cycle checked.
    outage:     the times to recover of the cuts that count, null if none was measured.
    promises:   of a cluster with several promises, by name what the cuts of each show,
                as each cut tests one.  The statistics and windows of the campaign then
                state no bound, and outage is null.  {} of one promise or one server.
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
    chosen: ChosenRuns | None = None
    unjudged: tuple[str, ...] = ()
    checked: Checked = Checked()
    outage: OutageTotal | None = None
    promises: Mapping[str, PromiseResult] = field(default_factory=dict)

    @property
    def counted(self) -> tuple[CycleResult, ...]:
        """The cycles whose cuts count: no controls, none without a PASS or FAIL."""
        return tuple(cycle for cycle in self.cycles if cycle.counts)

    @property
    def may_lack_loss(self) -> bool:
        """True if a loss may be missing among the cuts, so that no bound holds."""
        left_out = bool(self.chosen and self.chosen.may_lack_loss)
        return left_out or bool(self.unjudged or self.unexplained)

    @property
    def unexplained(self) -> tuple[CycleResult, ...]:
        """The cycles that do not count, and after which rows were missing."""
        return tuple(cycle for cycle in self.cycles if cycle.has_unexplained_loss)

    @property
    def lost_without_cut(self) -> tuple[CycleResult, ...]:
        """The cycles that lost something although no power cut of theirs is on record.

        They make the verdict FAIL, and are no cuts.
        """
        return tuple(cycle for cycle in self.cycles if cycle.lost_without_cut)

    @property
    def has_losses(self) -> bool:
        """True if a cycle that is no control lost something, with or without a cut."""
        return bool(self.statistics.losses or self.lost_without_cut)

    @property
    def _judged(self) -> tuple[CycleResult, ...]:
        """The cycles with a PASS or FAIL, also those that lost without a cut."""
        return tuple(cycle for cycle in self.cycles if cycle.is_judged)

    @property
    def rows_lost(self) -> tuple[int, int] | None:
        """Lost rows: of the judged cycles themselves, and of the cycles before each.

        None if no rows were compared, or if they were not compared in a failed cycle,
        because the server or the table did not come back.
        """
        failed = [cycle for cycle in self._judged if cycle.verdict is CycleVerdict.FAIL]
        compared = [cycle for cycle in self._judged if cycle.lost is not None]
        if not compared or any(cycle.lost is None for cycle in failed):
            return None
        return (
            sum(cycle.lost or 0 for cycle in compared),
            sum(cycle.earlier_lost or 0 for cycle in compared),
        )

    @property
    def confirmed(self) -> int | None:
        """The number of commits that the witness holds, None if it is not known.

        Commits of cycles without a PASS or FAIL are no evidence, and are left out.
        """
        counts = [
            cycle.confirmed for cycle in self._judged if cycle.confirmed is not None
        ]
        return sum(counts) if counts else None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """Targets that are configured alike, and what their cuts show together.

    drives:  their models, firmware and write caches, for each place of the server.
    apart:   what sets this group apart from the others: name -> value.
    losing:  the targets of this group that lost something, with or without a cut.
    statistics: as if all targets were one.  That is right only as far as the alike
             parts of their configuration decide what is lost.
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

    folder: where all campaigns are stored.  groups: targets that are configured alike,
    the groups with losses first; empty with fewer than two targets.
    """

    folder: str
    targets: tuple[CampaignResult, ...]
    groups: tuple[GroupResult, ...] = ()


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of one configuration of a matrix.

    expect:  the verdict that the configuration must get, null if any will do.
    verdict: the worst verdict of its cycles, null without a cycle.
    error:   why its remaining cycles did not run, null if all ran.
    error_id: id of that error; also null if the remaining cycles were not begun.
    price:   of what the configuration runs on, null if none was given.
    restore: the method by which the server was copied, "" if its power was cut and its
             own rows were read.
    commits_per_s: outside the time of the copy, if one was taken beside the load.
    commits_per_s_while_copied: within that time; null without such a copy.
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
    restore: str = ""
    commits_per_s_while_copied: float | None = None

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
    cuts:  how many cuts were made.
    lost:  what the last cut lost, "" if no cut lost anything.
    error: why the configuration did not run to its end, "" if it did.
    error_id: id of that error; also "" if the configuration was not begun.
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
        """True if the audit named the rule before a cut, and a cut confirmed it."""
        return self.named and bool(self.lost) and not self.error


@dataclass(frozen=True, slots=True)
class ReceiptsResult:
    """Output of dbcheck audit --receipt RULE --json."""

    rows: tuple[ReceiptResult, ...]


@dataclass(frozen=True, slots=True)
class SideResult:
    """One of two runs or campaigns that are compared.

    runs:    how many runs gave the rates and latencies.  These are medians;
             slowest_per_s and fastest_per_s are the extremes of the rates.
    lost:    lost rows, including those of earlier cycles; null if not compared.
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
    """One difference of two configurations; a, b: its values, null if not known.

    of_the_cut: cuts that differ in it cannot be compared by their losses.
    """

    name: str
    a: str | None
    b: str | None
    of_the_cut: bool = False


@dataclass(frozen=True, slots=True)
class ComparedResult:
    """Output of dbcheck report --compare A B.

    rate_ratio: B's median of commits per second, divided by A's; null without both.
    comparison: how many cuts of each lost something, with a test of the difference.
    same:       how many values of the configuration are equal in both.
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
class CopiesResult:
    """Output of dbcheck snapshot --copies N --json; verdict: the worst."""

    verdict: Verdict
    copies: tuple[RunResult, ...]


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
