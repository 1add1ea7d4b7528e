"""Sentences of a report on a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbcheck.judge.results import CampaignResult, CampaignsResult, CycleResult
from dbcheck.model.cut import CutClass, describe_cuts
from dbcheck.model.verdict import (
    CONFIDENCE,
    CycleVerdict,
    describe_losses_without_cut,
    describe_unseen_losses,
    format_count,
    format_percent_up,
)
from dbcheck.report.words import chosen
from dbcheck.report.words.run import (
    HOLDS_FOR,
    NOT_A_DRIVE,
    number,
    rows_lost,
    sentence,
    with_id,
)

PRICE = "price: for each durable commit per second."
SHOWN_MAX = 8
GROUPS = "Targets that are configured alike"


def columns(results: Sequence[CampaignResult]) -> tuple[str, ...]:
    """Return the heads of the table, without that of the verdict, which comes last."""
    price = ("price",) if has_price(results) else ()
    return ("target", "cuts", "lossy", "rows lost", "commits", "acks/s", *price)


def has_price(results: Sequence[CampaignResult]) -> bool:
    """Say whether a price was given for any target."""
    return any(result.price is not None for result in results)


def cells(result: CampaignResult, *, with_price: bool) -> Iterator[str]:
    """Yield a campaign as text, in the order of columns()."""
    rate, price = result.commits_per_s, result.price_per_durable_commit_per_s
    yield result.name
    yield f"{result.statistics.cuts} of {result.planned_cuts}"
    yield number(result.statistics.losses)
    if result.rows_lost is None:
        failed = any(one.verdict is CycleVerdict.FAIL for one in result.cycles)
        yield "all" if failed else "-"
    else:
        yield rows_lost(*result.rows_lost)
    yield number(result.confirmed)
    yield "-" if rate is None else f"{rate:,.0f}"
    if with_price:
        yield "-" if price is None else f"{price:,.3g}"


CYCLE_COLUMNS = ("cycle", "run", "cut during", "depth", "commits", "lost", "acks/s")


def cycle_cells(cycle: CycleResult) -> Iterator[str]:
    """Yield a cycle as text, in the order of CYCLE_COLUMNS."""
    rate = cycle.acks_per_s
    yield str(cycle.number) if cycle.number else "control"
    yield cycle.run or "-"
    when = ", ".join(filter(None, (_activity(cycle), cycle.window))) or "-"
    yield "no power cut" if cycle.uncut else when
    yield cycle.depth or "not measured"
    yield number(cycle.confirmed)
    if cycle.lost is None:
        yield "all" if cycle.verdict is CycleVerdict.FAIL else "-"
    else:
        yield rows_lost(cycle.lost, cycle.earlier_lost or 0)
    yield "-" if rate is None else f"{rate:,.0f}"


def reason(cycle: CycleResult) -> str:
    """Return the reason of a cycle's verdict, with the id of an error that ended it."""
    return with_id(cycle.reason, cycle.error_id)


def _activity(cycle: CycleResult) -> str:
    """Return the activity at a cut, then the one that was drawn if that is another.

    "" if no moment was drawn and the activity is not known.
    """
    if cycle.activity == cycle.drawn or not cycle.drawn:
        return cycle.activity
    return f"{cycle.activity or 'not known'} ({cycle.drawn} drawn)"


def lines(result: CampaignResult) -> Iterator[str]:
    """Yield what the cuts of a target show, the bound first.

    A control that failed comes before it, as does a loss without a power cut: each
    decides, and no bound counts it.  Of runs that were named, one beside them that
    contradicts them comes first of all.
    """
    proven = result.statistics
    yield from chosen.contradictions(result)
    yield from _failed_controls(result.cycles)
    yield from _losses_without_cut(result)
    yield proven.sentence
    yield from chosen.scope(result)
    if proven.cuts and not proven.losses:
        yield describe_unseen_losses(proven.cuts)
    if result.activities:
        known = {
            **result.activities,
            "not known": proven.cuts - sum(result.activities.values()),
        }
        counts = ", ".join(f"{n} {name}" for name, n in known.items() if n)
        yield f"activity at the cuts: {counts}"
    if result.windows:
        counts = ", ".join(
            f"{one.cuts} {name}"
            f" (at most {format_percent_up(one.loss_ppm_max)} of them lose)"
            for name, one in result.windows.items()
        )
        yield f"cuts during housekeeping, {CONFIDENCE}: {counts}"
    if seen := result.seen:
        yield (
            f"rows seen by readers: {seen.rows:,}; missing after the cut, and never"
            f" acknowledged: {seen.lost:,}, in {seen.lossy} of {seen.cuts} cuts"
        )
    missed = [cycle for cycle in result.cycles if cycle.missed and not cycle.uncut]
    if missed:
        what = "cuts that may have missed their planned moment"
        yield f"{what}: {len(missed)}, the first: {missed[0].missed}"
    if classes := _describe_what_was_cut(result):
        yield f"what was cut: {classes}"
    if result.cuts_still_needed:
        yield f"cuts still needed: {result.cuts_still_needed}"
    yield from _not_passed(result.cycles)
    yield from _at_fault(result.cycles)
    yield from _despite(result.cycles)
    if result.error:
        yield with_id(result.error, result.error_id)
        yield f"dbcheck campaign --resume {result.folder}"


def _failed_controls(cycles: Sequence[CycleResult]) -> Iterator[str]:
    """Yield why each control failed that did."""
    for cycle in cycles:
        if not cycle.number and cycle.verdict is CycleVerdict.FAIL:
            yield f"FAIL in a control: {reason(cycle)}"


def _losses_without_cut(result: CampaignResult) -> Iterator[str]:
    """Yield why each cycle failed that lost something without a power cut."""
    failed = result.lost_without_cut
    for cycle in failed[:SHOWN_MAX]:
        yield f"FAIL in cycle {cycle.number}, without a power cut: {reason(cycle)}"
    if failed:
        yield _explain_losses_without_cut(len(failed))


def _explain_losses_without_cut(cycles: int) -> str:
    return (
        f"{describe_losses_without_cut(cycles)}. Commits must survive"
        " whatever stops the server: find out what stopped it"
    )


def _describe_what_was_cut(result: CampaignResult) -> str:
    """Return the kinds of the cuts that count, with what each leaves open."""
    return describe_cuts((cycle.cut_class, cycle.depth) for cycle in result.counted)


def _not_passed(cycles: Sequence[CycleResult]) -> Iterator[str]:
    """Yield why cycles did not pass, those that failed first, and how many more.

    A loss without a power cut is told before, see lines().
    """
    passed = CycleVerdict.PASS
    told = (one for one in cycles if one.number and not one.lost_without_cut)
    others = [one for one in told if one.verdict is not passed]
    others.sort(key=lambda one: one.verdict is not CycleVerdict.FAIL)
    for cycle in others[:SHOWN_MAX]:
        where = f"in cycle {cycle.number} ({_activity(cycle) or '-'})"
        yield f"{cycle.verdict.value} {where}: {reason(cycle)}"
    if (more := len(others) - SHOWN_MAX) > 0:
        yield f"{format_count(more, 'more cycle')} did not pass"


def groups(results: CampaignsResult) -> Iterator[str]:
    """Yield what the cuts of each group of targets show, those with losses first."""
    for group in results.groups:
        apart = ", ".join(
            f"{name}: {value or '-'}" for name, value in group.apart.items()
        )
        what = apart or "; ".join((group.server, *group.drives))
        without_cut = "" if group.statistics.losses else ", without a power cut"
        lost_on = f" (lost on {_named(group.losing)}{without_cut})"
        losing = lost_on if group.losing else ""
        yield f"{_named(group.targets)} ({what}): {group.statistics.sentence}{losing}"


def _named(targets: Sequence[str]) -> str:
    """Return the targets of a group, shortened where they are many."""
    more = len(targets) - SHOWN_MAX
    shown = ", ".join(targets[:SHOWN_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def limits(result: CampaignResult) -> Iterator[str]:
    """Yield what the verdict does not cover."""
    proven = result.statistics
    yield from map(sentence, chosen.scope(result))
    if failed := result.lost_without_cut:
        yield sentence(_explain_losses_without_cut(len(failed)))
    if proven.cuts and not proven.losses:
        yield sentence(describe_unseen_losses(proven.cuts))
    if classes := _describe_what_was_cut(result):
        yield sentence(f"what was cut: {classes}")
    if any(one.cut_class == CutClass.LAB_DRIVE.value for one in result.cycles):
        yield NOT_A_DRIVE
    yield from map(sentence, _despite(result.cycles))
    if proven.inconclusive:
        one = proven.inconclusive == 1
        words = "was inconclusive and counts" if one else "were inconclusive and count"
        yield f"{format_count(proven.inconclusive, 'cycle')} {words} as nothing."
    yield HOLDS_FOR


def _despite(cycles: Sequence[CycleResult]) -> list[str]:
    """Return a line for each finding of an audit before a cut that lost nothing."""
    passed = [cycle for cycle in cycles if cycle.verdict is CycleVerdict.PASS]
    found = dict.fromkeys(text for cycle in passed for text in cycle.despite)
    return [
        f"a cut lost nothing, but the audit before it found {text}" for text in found
    ]


def _at_fault(cycles: Sequence[CycleResult]) -> list[str]:
    """Return the settings that explain the losses, each once."""
    losses = [cycle for cycle in cycles if cycle.verdict is CycleVerdict.FAIL]
    found = [setting for cycle in losses for setting in cycle.settings_at_fault]
    return [f"setting at fault: {setting}" for setting in dict.fromkeys(found)]
