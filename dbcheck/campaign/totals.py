"""Sums up the cycles of a campaign, from its folder alone."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TypedDict

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.campaign.own_runs import require_own_cycles
from dbcheck.campaign.promises import lacks_cuts, select_cycles, share_cuts
from dbcheck.judge.result import Checked, describe_checked
from dbcheck.judge.results import (
    CampaignResult,
    CycleResult,
    PromiseResult,
    SeenTotal,
    WindowResult,
)
from dbcheck.model.outage import OutageTotal, sum_up_outages
from dbcheck.model.verdict import (
    PPM,
    CycleVerdict,
    Statistics,
    Tally,
    Verdict,
    compute_cuts_needed,
    compute_loss_ppm_max,
    compute_price_per_rate,
    describe_goal,
    describe_losses_without_cut,
    format_count,
    withhold_bound,
)
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder

ERROR_FILE = "error.txt"  # why a campaign ended before it was finished
_IDS = frozenset(ErrorId)
# Why no bound holds.
_NOT_JUDGED = "a run that was cut is not judged"
_MAY_HAVE_LOST = "rows were missing after a cut that does not count"


def tally_cycles(cycles: Sequence[Cycle]) -> Tally:
    """Count the cycles of a campaign; controls and errors do not count.

    Nor does a loss without a power cut: it is a FAIL (has_losses()) and no cut.
    """
    return Tally.of(
        (verdict, cycle.depth)
        for cycle in cycles
        if cycle.number
        and not cycle.lost_without_cut
        and (verdict := cycle.verdict.verdict)
    )


def has_losses(cycles: Sequence[Cycle]) -> bool:
    """Return True if a cycle that is no control lost something, with or without a cut.

    From then on the tables are evidence.
    """
    return any(cycle.has_failed for cycle in cycles)


def has_unexplained_losses(cycles: Sequence[Cycle]) -> bool:
    """Return True if rows were missing after a cut that does not count.

    The nodes that may have them are evidence from then on, as the tables are.
    """
    return any(cycle.has_unexplained_loss for cycle in cycles)


def has_failed_control(cycles: Sequence[Cycle]) -> bool:
    """Return True if a control lost what no control loses."""
    fail = CycleVerdict.FAIL
    return any(c.control is not None and c.verdict is fail for c in cycles)


def describe_cycles(cycles: Sequence[Cycle]) -> str:
    """Return what the cycles show so far, a loss without a power cut first."""
    without_cut = sum(cycle.lost_without_cut for cycle in cycles)
    shown = _describe_tallies(cycles)
    if has_unexplained_losses(cycles):
        shown = f"{_MAY_HAVE_LOST}; beside it {shown}"
    if not without_cut:
        return shown
    return f"FAIL: {describe_losses_without_cut(without_cut)}; {shown}"


def _describe_tallies(cycles: Sequence[Cycle]) -> str:
    """Describe the results of the cuts, for each promise if there are several."""
    names = dict.fromkeys(cycle.promise for cycle in cycles if cycle.number)
    if len(names) < 2:
        return tally_cycles(cycles).sentence
    found = {name: tally_cycles(select_cycles(cycles, name)) for name in names}
    return "; ".join(f"{name or '?'}: {each.sentence}" for name, each in found.items())


def describe_plan(plan: CampaignPlan) -> str:
    """Return the number of cuts to make, and what they show if none loses."""
    goal = describe_goal(plan.cuts)
    shares = share_cuts(plan.promises, plan.cuts)
    if len(shares) < 2:
        return goal
    named = ", ".join(f"{cuts} for {name}" for name, cuts in shares.items())
    fewest = describe_goal(min(shares.values()))
    return f"{format_count(plan.cuts, 'cut')}: {named}. Of each promise {fewest}"


def describe_progress(plan: CampaignPlan, cycles: Sequence[Cycle]) -> str:
    """Return how many cuts count, how many are to come, and what they show so far."""
    counted = tally_cycles(cycles).cuts
    left = 0 if is_finished(plan, cycles) else plan.cuts - counted
    text = f"{counted} of {format_count(plan.cuts, 'cut')} counted"
    text += f", {left} to come" if left else ""
    return f"{text}; {describe_cycles(cycles)}"


def is_finished(plan: CampaignPlan, cycles: Sequence[Cycle]) -> bool:
    """Return True if a campaign is over: enough cuts, a loss, or no cut left."""
    return (
        has_all_cuts(plan, cycles)
        or find_last_number(cycles) >= plan.cycles_max
        or (has_losses(cycles) and not plan.keep_going)
        or has_failed_control(cycles)
        or any(cycle.gone for cycle in cycles)
    )


def has_all_cuts(plan: CampaignPlan, cycles: Sequence[Cycle]) -> bool:
    """Return True if enough cuts count; of several promises, if each has its share."""
    if len(plan.promises) > 1:
        return not lacks_cuts(plan, cycles)
    return tally_cycles(cycles).cuts >= plan.cuts


def find_last_number(cycles: Sequence[Cycle]) -> int:
    """Return the number of the newest cycle, 0 if there is none."""
    return max((cycle.number for cycle in cycles), default=0)


def make_result(folder: CampaignFolder) -> CampaignResult:
    """Make the result of a campaign."""
    plan, cycles = folder.plan(), folder.cycles()
    require_own_cycles(folder, plan, cycles)
    is_over = is_finished(plan, cycles)
    error, error_id = ("", "") if is_over else read_ending(folder)
    verdict = judge_campaign(plan, cycles)
    figures = sum_up_cycles(cycles)
    unjudged = tuple(_list_unjudged(folder))
    promises = _sum_up_promises(plan, cycles, unjudged=bool(unjudged))
    if promises:
        _leave_to_promises(figures)
    if unjudged:
        withhold_bounds(figures, _NOT_JUDGED)
        verdict = Verdict.INCONCLUSIVE if verdict is Verdict.PASS else verdict
    return CampaignResult(
        name=plan.name,
        target=plan.target,
        folder=str(folder.path),
        seed=plan.seed,
        verdict=verdict,
        finished=is_over,
        price=plan.price,
        price_per_durable_commit_per_s=compute_price_per_rate(
            plan.price, figures["commits_per_s"], verdict
        ),
        planned_cuts=plan.cuts,
        bound_ppm=plan.bound_ppm,
        cuts_still_needed=_compute_cuts_remaining(plan, cycles, verdict),
        error=error,
        error_id=error_id,
        unjudged=unjudged,
        checked=_read_checked(folder, cycles),
        promises=promises,
        **figures,
    )


def _sum_up_promises(
    plan: CampaignPlan, cycles: Sequence[Cycle], *, unjudged: bool
) -> dict[str, PromiseResult]:
    """Return the totals of each promise; {} unless there are several.

    unjudged: a cut is not judged, so no bound holds.
    """
    found = {}
    for name, planned in share_cuts(plan.promises, plan.cuts).items():
        mine = select_cycles(cycles, name)
        figures, verdict = sum_up_cycles(mine), find_verdict(planned, mine)
        if unjudged:
            withhold_bounds(figures, _NOT_JUDGED)
            verdict = Verdict.INCONCLUSIVE if verdict is Verdict.PASS else verdict
        judged = [cycle for cycle in mine if cycle.is_judged]
        left = max(0, planned - tally_cycles(mine).cuts)
        found[name] = PromiseResult(
            verdict=verdict,
            planned_cuts=planned,
            cuts_left=None if verdict is Verdict.FAIL else left,
            confirmed=sum(cycle.confirmed or 0 for cycle in judged),
            lost=sum((c.lost or 0) + (c.earlier_lost or 0) for c in judged),
            commits_per_s=figures["commits_per_s"],
            statistics=figures["statistics"],
            activities=figures["activities"],
            windows=figures["windows"],
            outage=figures["outage"],
        )
    return found if len(found) > 1 else {}


def _leave_to_promises(figures: Figures) -> None:
    """Take out of *figures* what cuts of several promises do not show together."""
    together = figures["statistics"]
    figures["statistics"] = replace(
        together,
        loss_ppm_max=PPM,
        loss_ppm_min=0,
        sentence=f"{format_count(together.losses, 'loss')} in"
        f" {format_count(together.cuts, 'cut')} of several promises; each promise"
        " has its own bound",
    )
    figures["windows"] = {
        name: replace(one, loss_ppm_max=PPM) for name, one in figures["windows"].items()
    }
    figures["outage"] = None


class Figures(TypedDict):
    """The fields of a CampaignResult that its cycles alone decide."""

    cut_classes: tuple[str, ...]
    commits_per_s: float | None
    statistics: Statistics
    activities: Mapping[str, int]
    windows: Mapping[str, WindowResult]
    seen: SeenTotal | None
    outage: OutageTotal | None
    errors: int
    cycles: tuple[CycleResult, ...]


def sum_up_cycles(cycles: Sequence[Cycle]) -> Figures:
    """Return what *cycles* show together."""
    cut = (cycle.cut_class for cycle in cycles if not cycle.uncut)
    rates = [c.acks_per_s for c in cycles if c.number and c.acks_per_s]
    figures = Figures(
        cut_classes=tuple(dict.fromkeys(filter(None, cut))),
        commits_per_s=median(rates) if rates else None,
        statistics=tally_cycles(cycles).statistics,
        activities=count_activities(cycles),
        windows=_count_windows(cycles),
        seen=_count_seen_rows(cycles),
        outage=_sum_up_outages(cycles),
        errors=sum(cycle.verdict is CycleVerdict.ERROR for cycle in cycles),
        cycles=tuple(map(_make_cycle_result, cycles)),
    )
    if has_unexplained_losses(cycles):
        withhold_bounds(figures, _MAY_HAVE_LOST)
    return figures


def withhold_bounds(figures: Figures, why: str) -> None:
    """Take the upper bounds out of *figures*: a loss may be missing among the cuts."""
    figures["statistics"] = withhold_bound(figures["statistics"], why)
    figures["windows"] = {
        name: replace(one, loss_ppm_max=PPM) for name, one in figures["windows"].items()
    }


def _list_unjudged(folder: CampaignFolder) -> Iterator[str]:
    """Yield the runs that were cut, or may have been, and that no cycle counts."""
    for run in folder.list_runs_without_cycle():
        try:
            may_be_cut = run.was_read() or run.awaits_judgement()
        except RunFormatError:
            may_be_cut = True  # a damaged record cannot show that it was not
        if may_be_cut:
            yield run.path.name


def _read_checked(folder: CampaignFolder, cycles: Sequence[Cycle]) -> Checked:
    """Return what the newest cycle checked whose run can be read."""
    for run in (cycle.run for cycle in reversed(cycles) if cycle.run):
        path = folder.runs / run
        with contextlib.suppress(RunFormatError):
            if (path / "manifest.json").is_file():
                return describe_checked(RunFolder.open(path).manifest())
    return Checked()


def read_ending(folder: CampaignFolder) -> tuple[str, str]:
    """Return why a campaign ended early, and the error's id; "" each if it did not.

    An interrupt has no id.
    """
    file = folder.path / ERROR_FILE
    text = ""
    # Not of a link: a report would show the text of the linked file.
    if file.is_file() and not file.is_symlink():
        text = stored.read_content(file).decode("utf-8", errors="replace").strip()
    reason, _, last_line = text.rpartition("\n")
    return (reason, last_line) if last_line in _IDS else (text, "")


def format_ending(error: str, error_id: str) -> str:
    """Return the content of the file that read_ending() reads."""
    return "".join(f"{line}\n" for line in (error, error_id) if line)


def _make_cycle_result(cycle: Cycle) -> CycleResult:
    return CycleResult(
        number=cycle.number,
        run=cycle.run,
        activity=cycle.activity,
        missed=cycle.missed,
        after_s=round(cycle.after_s, 3),
        verdict=cycle.verdict,
        reason=cycle.reason,
        cut_class=cycle.cut_class,
        depth=cycle.depth,
        settings_at_fault=cycle.at_fault,
        confirmed=cycle.confirmed,
        lost=cycle.lost,
        earlier_lost=cycle.earlier_lost,
        acks_per_s=cycle.acks_per_s,
        settled=cycle.settled,
        ended=cycle.ended,
        window=cycle.window,
        seen=cycle.seen,
        seen_lost=cycle.seen_lost,
        error_id=cycle.error_id,
        drawn=cycle.drawn,
        cut_s=cycle.cut_s,
        despite=cycle.despite,
        uncut=cycle.uncut,
        writer=cycle.writer,
        reader=cycle.reader,
        outage_s=cycle.outage_s,
        outage_lost=cycle.outage_lost,
        outage_over_s=cycle.outage_over_s,
        promise=cycle.promise,
    )


def count_activities(cycles: Sequence[Cycle]) -> dict[str, int]:
    """Count the cuts that count in each activity, as far as known."""
    counted = (cycle.activity for cycle in cycles if cycle.counts)
    return dict(Counter(filter(None, counted)))


def _count_windows(cycles: Sequence[Cycle]) -> dict[str, WindowResult]:
    """Count, for each kind of task, the cuts during it that count."""
    counted = [cycle for cycle in cycles if cycle.counts and cycle.window]
    cuts = Counter(cycle.window for cycle in counted)
    lost = Counter(c.window for c in counted if c.verdict is CycleVerdict.FAIL)
    return {
        window: WindowResult(
            count, lost[window], compute_loss_ppm_max(lost[window], count)
        )
        for window, count in cuts.most_common()
    }


def _count_seen_rows(cycles: Sequence[Cycle]) -> SeenTotal | None:
    """Sum up the fates of the rows that readers saw, None without readers.

    A cycle that does not count is left out: nothing shows that a cut took its rows.
    """
    counted = [cycle for cycle in cycles if cycle.counts]
    with_readers = [cycle for cycle in counted if cycle.seen is not None]
    if not with_readers:
        return None
    rows = sum(cycle.seen or 0 for cycle in with_readers)
    lost = [cycle.seen_lost or 0 for cycle in with_readers]
    return SeenTotal(len(with_readers), sum(map(bool, lost)), rows, sum(lost))


def _sum_up_outages(cycles: Sequence[Cycle]) -> OutageTotal | None:
    """Sum up the times to recover of the cuts that count, None without any."""
    counted = [cycle for cycle in cycles if cycle.counts]
    return sum_up_outages(
        [cycle.outage_s for cycle in counted if cycle.outage_s is not None],
        [c.outage_over_s for c in counted if c.outage_over_s is not None],
        sum(cycle.outage_lost for cycle in counted),
    )


def _compute_cuts_remaining(
    plan: CampaignPlan, cycles: Sequence[Cycle], verdict: Verdict
) -> int | None:
    """Return the number of cuts without a loss that the plan still needs.

    With a bound: those that show it, of each promise.  None after a loss.
    """
    if verdict is Verdict.FAIL:
        return None
    wanted = {"": plan.cuts}
    if len(plan.promises) > 1:
        wanted = share_cuts(plan.promises, plan.cuts)
    if plan.bound_ppm is not None:
        wanted = dict.fromkeys(wanted, compute_cuts_needed(plan.bound_ppm))
    left = 0
    for name, cuts in wanted.items():
        mine = select_cycles(cycles, name) if name else cycles
        left += max(0, cuts - tally_cycles(mine).cuts)
    return left


def judge_campaign(plan: CampaignPlan, cycles: Sequence[Cycle]) -> Verdict:
    """Return the verdict on a campaign: no PASS unless each promise has its cuts."""
    verdict = find_verdict(plan.cuts, cycles)
    if verdict is Verdict.PASS and not has_all_cuts(plan, cycles):
        return Verdict.INCONCLUSIVE
    return verdict


def find_verdict(planned: int, cycles: Sequence[Cycle]) -> Verdict:
    """Return the verdict on a campaign of *planned* cuts.

    Any loss makes it a FAIL, with or without a power cut, as does a failed control.
    It is no PASS after a cut that may have lost something, however many others count.
    """
    if has_losses(cycles) or has_failed_control(cycles):
        return Verdict.FAIL
    is_complete = tally_cycles(cycles).cuts >= planned
    is_pass = is_complete and not has_unexplained_losses(cycles)
    return Verdict.PASS if is_pass else Verdict.INCONCLUSIVE
