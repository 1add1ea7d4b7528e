"""Sums up the cycles of a campaign, from its folder alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from dbcheck.base.error_ids import ErrorId
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.judge.results import (
    CampaignResult,
    CycleResult,
    SeenTotal,
    WindowResult,
    compute_price_per_rate,
)
from dbcheck.model.verdict import (
    CycleVerdict,
    Tally,
    Verdict,
    compute_cuts_needed,
    compute_loss_ppm_max,
)
from dbcheck.runs import stored

ERROR_FILE = "error.txt"  # why a campaign ended before it was finished
_IDS = frozenset(ErrorId)


def tally_cycles(cycles: Sequence[Cycle]) -> Tally:
    """Count the cycles of a campaign; controls and errors do not count."""
    return Tally.of(
        (verdict, cycle.depth)
        for cycle in cycles
        if cycle.number and (verdict := cycle.verdict.verdict)
    )


def is_finished(plan: CampaignPlan, cycles: Sequence[Cycle]) -> bool:
    """Return True if a campaign is over: enough cuts, a loss, or no cut left."""
    counted = tally_cycles(cycles)
    return (
        counted.cuts >= plan.cuts
        or find_last_number(cycles) >= plan.cycles_max
        or (counted.losses > 0 and not plan.keep_going)
        or any(c.control is not None and c.verdict is CycleVerdict.FAIL for c in cycles)
        or any(cycle.gone for cycle in cycles)
    )


def find_last_number(cycles: Sequence[Cycle]) -> int:
    """Return the number of the newest cycle, 0 if there is none."""
    return max((cycle.number for cycle in cycles), default=0)


def make_result(folder: CampaignFolder) -> CampaignResult:
    """Make the result of a campaign."""
    plan, cycles = folder.plan(), folder.cycles()
    shown = tally_cycles(cycles)
    over = is_finished(plan, cycles)
    more = max(0, plan.cuts - shown.cuts)
    error, error_id = ("", "") if over else read_ending(folder)
    classes = dict.fromkeys(cycle.cut_class for cycle in cycles if cycle.cut_class)
    found = _find_verdict(plan.cuts, cycles)
    rates = [c.acks_per_s for c in cycles if c.number and c.acks_per_s]
    rate = median(rates) if rates else None
    return CampaignResult(
        name=plan.name,
        target=plan.target,
        folder=str(folder.path),
        seed=plan.seed,
        cut_classes=tuple(classes),
        verdict=found,
        finished=over,
        commits_per_s=rate,
        price=plan.price,
        price_per_durable_commit_per_s=compute_price_per_rate(plan.price, rate, found),
        statistics=shown.statistics,
        activities=count_activities(cycles),
        windows=_count_windows(cycles),
        seen=_count_seen_rows(cycles),
        planned_cuts=plan.cuts,
        bound_ppm=plan.bound_ppm,
        cuts_still_needed=_compute_cuts_remaining(
            plan.bound_ppm, shown.cuts, more, failed=found is Verdict.FAIL
        ),
        errors=sum(cycle.verdict is CycleVerdict.ERROR for cycle in cycles),
        error=error,
        error_id=error_id,
        cycles=tuple(map(_make_cycle_result, cycles)),
    )


def read_ending(folder: CampaignFolder) -> tuple[str, str]:
    """Return the reason of a campaign's early end, and its id; "" each if it had none.

    An interrupt has no id.
    """
    file = folder.path / ERROR_FILE
    text = ""
    if file.is_file() and not file.is_symlink():  # whose text the report would show
        text = stored.read_content(file).decode("utf-8", errors="replace").strip()
    before, _, last = text.rpartition("\n")
    return (before, last) if last in _IDS else (text, "")


def format_ending(error: str, error_id: str) -> str:
    """Return the content of that file."""
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
    )


def count_activities(cycles: Sequence[Cycle]) -> dict[str, int]:
    """Count the cuts that count in each activity, as far as known."""
    counted = (c.activity for c in cycles if c.number and c.verdict.counts)
    return dict(Counter(filter(None, counted)))


def _count_windows(cycles: Sequence[Cycle]) -> dict[str, WindowResult]:
    """Count, for each kind of task, the cuts during it that count."""
    counted = [c for c in cycles if c.number and c.verdict.counts and c.window]
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

    After a cycle that does not count, nothing shows that a cut took what is missing.
    """
    counted = [c for c in cycles if c.number and c.verdict.counts]
    read = [cycle for cycle in counted if cycle.seen is not None]
    if not read:
        return None
    rows = sum(cycle.seen or 0 for cycle in read)
    lost = [cycle.seen_lost or 0 for cycle in read]
    return SeenTotal(len(read), sum(map(bool, lost)), rows, sum(lost))


def _compute_cuts_remaining(
    bound_ppm: int | None, cuts: int, more: int, *, failed: bool
) -> int | None:
    """Return the number of cuts without a loss that the requested bound still needs."""
    if failed:
        return None
    return more if bound_ppm is None else max(0, compute_cuts_needed(bound_ppm) - cuts)


def _find_verdict(planned: int, cycles: Sequence[Cycle]) -> Verdict:
    shown = tally_cycles(cycles)
    lost = CycleVerdict.FAIL
    if shown.losses or any(c.control and c.verdict is lost for c in cycles):
        return Verdict.FAIL
    return Verdict.PASS if shown.cuts >= planned else Verdict.INCONCLUSIVE
