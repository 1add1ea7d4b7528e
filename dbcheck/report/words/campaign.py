"""Sentences of a report on a campaign."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dbcheck.judge.results import (
    CampaignResult,
    CampaignsResult,
    CycleResult,
    WindowResult,
)
from dbcheck.model.cut import CutClass, describe_cuts
from dbcheck.model.verdict import (
    CONFIDENCE,
    PROOF_OF_LOSS,
    CycleVerdict,
    Tally,
    Verdict,
    describe_bound,
    describe_losses_without_cut,
    describe_proof,
    describe_unseen_losses,
    find_worst,
    format_count,
    format_percent_up,
)
from dbcheck.report.words import chosen, promises
from dbcheck.report.words.campaign_table import (
    describe_activity,
    format_cuts,
    format_price,
    format_rows_lost,
)
from dbcheck.report.words.outage import (
    NAME,
    describe_outages,
    format_median,
    list_lost_answers,
)
from dbcheck.report.words.run import (
    HOLDS_FOR,
    NOT_A_DRIVE,
    rows_lost,
    sentence,
    with_id,
)
from dbcheck.report.words.summary import (
    CHECK_THE_REAL_SERVER,
    CUT_THE_POWER,
    DEPTHS,
    Summary,
    Tile,
    describe_about,
)

PRICE = "price: for each durable commit per second."
SHOWN_MAX = 8
GROUPS = "Targets that are configured alike"


def reason(cycle: CycleResult) -> str:
    """Return the reason of a cycle's verdict, with the id of an error that ended it."""
    return with_id(cycle.reason, cycle.error_id)


def summarize_campaigns(subject: CampaignsResult) -> Summary:
    """Return the first box of a report on the campaigns of several targets."""
    results = subject.targets
    verdict = find_worst(result.verdict for result in results)
    by_verdict = {
        each: [result.name for result in results if result.verdict is each]
        for each in Verdict
    }
    if lossy := by_verdict[Verdict.FAIL]:
        text = f"{len(lossy)} of {len(results)} servers lost data: {_named(lossy)}"
    elif unexplained := [result.name for result in results if result.unexplained]:
        text = (
            f"Rows are missing after cuts that do not count of {len(unexplained)} of"
            f" {len(results)} servers: {_named(unexplained)}"
        )
    elif unjudged := [result.name for result in results if result.may_lack_loss]:
        text = (
            f"Cuts of {len(unjudged)} of {len(results)} servers are not judged, and may"
            f" have lost data: {_named(unjudged)}"
        )
    elif open_ := by_verdict[Verdict.INCONCLUSIVE]:
        text = (
            f"No server lost anything; {len(open_)} of {len(results)} have too few cuts"
            f" that count: {_named(open_)}"
        )
    else:
        text = f"All {len(results)} servers kept every acknowledged commit"
    statistics = [result.statistics for result in results]
    tally = Tally.together(statistics)
    ended = max((_find_last_moment(result) for result in results), default="")
    moments = [result.checked.begun for result in results if result.checked.begun]
    checked = replace(results[0].checked, begun=min(moments, default=""))
    about = dict(describe_about(checked, "", until=ended))
    about |= {"hosts": format_count(len(results), "server")}
    return Summary(
        badge=verdict.value,
        verdict=verdict,
        headline=sentence(text),
        warning="" if lossy else _warn_of_audit(results),
        proof="" if lossy else " ".join(_warn_of_open_layers(results)),
        action=_ACTIONS_OF_SEVERAL.get(verdict) or _act_on_pass(results, _KEEP_OF_ALL),
        about=tuple((name, about[name]) for name in _ABOUT if name in about),
        tiles=(
            Tile("servers", f"{len(results):,}"),
            Tile("cuts", f"{tally.cuts:,}", "that count"),
            Tile("lossy cuts", f"{tally.losses:,}"),
        ),
    )


_ABOUT = ("when", "hosts", "by")
_ACTIONS_OF_SEVERAL = {
    Verdict.FAIL: "Do not rely on the servers that lost data. Find the cause of each"
    " below, remove it, and check that server anew.",
    Verdict.INCONCLUSIVE: "Read below why each of these is not decided, and go on with"
    " dbcheck campaign --resume.",
}
_KEEP = (
    "Keep this report. Check again after a change of drive, firmware, kernel or"
    " settings."
)
_KEEP_OF_ALL = (
    "Keep this report. Check a server again after a change of its drive, firmware,"
    " kernel or settings."
)


_NO_BOUND = "No bound holds: a cut that is not counted may have lost data."
_BLIND = (
    "No bound holds: only a control that loses rows shows that this set-up sees losses."
)


def summarize_campaign(result: CampaignResult) -> Summary:
    """Return the first box of a report on the campaign of one target."""
    failed = result.verdict is Verdict.FAIL
    warnings = (
        chosen.warn_of_failed(result),
        "" if failed else _warn_of_audit([result]),
    )
    return Summary(
        badge=result.verdict.value,
        verdict=result.verdict,
        headline=f"{_summarize_cuts(result)}.",
        warning=" ".join(filter(None, warnings)),
        proof=_prove(result),
        action=_choose_action(result),
        about=tuple(
            describe_about(
                replace(result.checked, begun=_find_first_moment(result)),
                result.target,
                until=_find_last_moment(result),
                virtual=CutClass.LAB_DRIVE.value in result.cut_classes,
            )
        ),
        tiles=tuple(_list_tiles(result)),
    )


def _prove(result: CampaignResult) -> str:
    """Return how much the cuts prove, and what no number of such cuts tests."""
    if result.verdict is Verdict.FAIL:
        return PROOF_OF_LOSS
    if result.may_lack_loss:
        not_counted = result.unjudged or result.unexplained
        only_blind = not (not_counted or chosen.contradicts(result))
        return _BLIND if only_blind else _NO_BOUND
    cuts = result.statistics.cuts
    proof = [promises.prove(result) if result.promises else describe_proof(0, cuts)]
    if cuts > 1 and not result.promises:
        proof.append(sentence(describe_unseen_losses(cuts)))
    return " ".join((*proof, *_warn_of_open_layers([result])))


def _warn_of_open_layers(results: Sequence[CampaignResult]) -> Iterator[str]:
    """Yield what was cut, if some cuts that count did not reach the drives."""
    counted = [cycle for result in results for cycle in result.counted]
    cuts = [(cycle.cut_class, cycle.depth) for cycle in counted]
    if any(name and not CutClass(name).reaches_drives for name, _ in cuts):
        yield sentence(f"what was cut: {describe_cuts(cuts)}")


def _warn_of_audit(results: Sequence[CampaignResult]) -> str:
    """Return how much the audit found although the cuts lost nothing, or ""."""
    found = {text for result in results for text in _list_alarms(result.cycles)}
    if not found:
        return ""
    verb = "is" if len(found) == 1 else "are"
    return (
        f"The audit before the cuts has {format_count(len(found), 'finding')} that"
        f" {verb} not safe; see below."
    )


def _summarize_cuts(result: CampaignResult) -> str:
    """Return how many cuts lost something, without the full stop."""
    name, proven = result.name, result.statistics
    if result.verdict is Verdict.INCONCLUSIVE and chosen.contradicts(result):
        return chosen.summarize_contradiction(result)
    if result.verdict is Verdict.INCONCLUSIVE and chosen.has_blind_control(result):
        return f"The newest control of {name} does not show that losses are seen"
    if proven.losses:
        of_cuts = f"{proven.losses} of {format_count(proven.cuts, 'cut')} of {name}"
        if result.rows_lost is None:
            return f"{of_cuts} lost acknowledged data"
        if not any(result.rows_lost):
            return f"{of_cuts} did harm, though no acknowledged row is gone or damaged"
        return f"{of_cuts} lost acknowledged data: {_are_gone(*result.rows_lost)}"
    if result.verdict is Verdict.FAIL:
        failed = [*_failed_controls(result.cycles)]
        what = failed[0] if failed else "it lost data without a power cut on record"
        return f"The server {name} failed: {what}"
    if result.unjudged or result.unexplained:
        return _summarize_open_cut(result)
    if not proven.cuts:
        return f"No cut of {name} counts yet"
    counting = " that count" if proven.inconclusive and proven.cuts > 1 else ""
    counting = counting or " that counts" * bool(proven.inconclusive)
    cuts = "The one cut" if proven.cuts == 1 else f"All {proven.cuts:,} cuts"
    if result.verdict is not Verdict.PASS:
        cuts = f"{format_count(proven.cuts, 'cut')} of {result.planned_cuts:,} planned"
        counting = ""
    return f"{cuts} of {name}{counting} kept every acknowledged commit"


def _summarize_open_cut(result: CampaignResult) -> str:
    """Return that a cut that is not counted may have lost something."""
    if result.unjudged:
        return f"A cut of {result.name} is not judged, and may have lost data"
    return f"Rows are missing after a cut of {result.name} that does not count"


def _are_gone(own: int, earlier: int) -> str:
    """Return how many rows are gone or damaged, as a clause."""
    if earlier:
        return f"{rows_lost(own, earlier)} rows are gone or damaged"
    verb = "is" if own == 1 else "are"
    return f"{format_count(own, 'row')} {verb} gone or damaged"


def _choose_action(result: CampaignResult) -> str:
    if result.verdict is Verdict.FAIL:
        fix = "Find the cause below, remove it"
        if run := find_run_with_loss(result):
            fix = f"Find the cause with dbcheck report {shlex.quote(run)}, remove it"
        if _at_fault(result.cycles):
            fix = "Change the settings named below"
        return (
            f"Do not rely on {result.name}. {fix}, and check the server anew. Keep"
            " these runs: they are the evidence."
        )
    if chosen.contradicts(result):
        return chosen.advise(result)
    if chosen.has_blind_control(result):
        return (
            "Check the switch and the depth of its cuts, then run again with --control"
            " until the control loses rows, and name those runs as well."
        )
    if result.unexplained:
        return (
            "Find out where the missing rows are: the reason below says why that cut"
            " does not count. Remove the cause, and check the server anew."
        )
    if result.chosen is None and (result.unjudged or not result.finished):
        first = "Remove the cause, then go on" if result.error else "Go on"
        return f"{first} with: dbcheck campaign --resume {shlex.quote(result.folder)}"
    if result.verdict is Verdict.INCONCLUSIVE:
        return "Too few cuts count. Fix the causes below, then rerun."
    return _act_on_pass([result], _KEEP)


def find_run_with_loss(result: CampaignResult) -> str:
    """Return the folder of the first run that failed, "" if none did."""
    if result.chosen is not None:
        return chosen.find_folder_of_loss(result)
    failed = (one for one in result.cycles if one.verdict is CycleVerdict.FAIL)
    first = next((one.run for one in failed if one.run), "")
    return first and f"{result.folder}/runs/{first}"


def _act_on_pass(results: Sequence[CampaignResult], keep: str) -> str:
    """Return what to do after cuts that lost nothing; keep: to keep the report."""
    if any(_list_alarms(result.cycles) for result in results):
        return "Fix what the audit found, then cut again."
    counted = [cycle for result in results for cycle in result.counted]
    classes = {CutClass(one.cut_class) for one in counted if one.cut_class}
    if classes == {CutClass.PROCESS}:
        return CUT_THE_POWER
    if CutClass.LAB_DRIVE in classes:
        return CHECK_THE_REAL_SERVER
    has_plug = classes & {CutClass.HYPERVISOR_KILL, CutClass.RESET}
    if has_plug and not any(one.reaches_drives for one in classes):
        return (
            f"{keep} Then pull the real plug: these cuts left the drives their power."
        )
    return keep


def _find_first_moment(result: CampaignResult) -> str:
    """Return when the first cycle ended, or when the newest began without any."""
    return next((c.ended for c in result.cycles if c.ended), result.checked.begun)


def _find_last_moment(result: CampaignResult) -> str:
    return max((cycle.ended for cycle in result.cycles), default="")


def _list_tiles(result: CampaignResult) -> Iterator[Tile]:
    losses, cuts = result.statistics.losses, result.statistics.cuts
    left_out = result.statistics.inconclusive
    note = f"that count; {left_out:,} inconclusive" if left_out else "that count"
    yield Tile("cuts", format_cuts(result), note)
    share, of = describe_bound(losses, cuts)
    # A bound of cuts alone would pass over a loss without one.
    without_cut = result.verdict is Verdict.FAIL and not losses
    if share and not (without_cut or result.may_lack_loss or result.promises):
        yield Tile("bound", share, of)
    depths = [depth or "unknown" for depth in result.statistics.depths]
    if depths:
        names = {depth.value: text for depth, text in DEPTHS.items()}
        note = names.get(depths[0], "") if len(depths) == 1 else "by the cuts"
        yield Tile("depth", ", ".join(sorted(depths)), note)
    commits = result.confirmed
    of = "" if commits is None else f"of {format_count(commits, 'acknowledged commit')}"
    yield Tile("rows lost", format_rows_lost(result), of)
    if losses:
        yield Tile("lossy cuts", f"{losses:,}", f"of {cuts:,}")
    if total := result.outage:
        yield Tile(NAME, format_median(total), describe_outages(total))


def list_rates(result: CampaignResult) -> Iterator[Tile]:
    """Yield the rate of commits, and the price of one that is durable."""
    if (rate := result.commits_per_s) is not None:
        yield Tile("acks/s", f"{rate:,.0f}", "the median of the cycles")
    if result.price is not None:
        yield Tile("price", format_price(result), PRICE.removeprefix("price: "))


def lines(result: CampaignResult) -> Iterator[str]:
    """Yield what the cuts of a target show beside their number and its bound.

    A control that failed comes first, as does a loss without a power cut: each decides,
    and no bound counts it.  Of runs that were named, one beside them that contradicts
    them comes before all else.  Then come the cycles that did not pass, and the causes.
    """
    proven = result.statistics
    yield from chosen.contradictions(result)
    yield from _describe_unjudged(result)
    yield from _failed_controls(result.cycles)
    yield from _losses_without_cut(result)
    yield from chosen.scope(result)
    yield from _not_passed(result.cycles)
    yield from _at_fault(result.cycles)
    yield from _despite(result.cycles)
    yield from list_lost_answers(result.outage)
    if proven.cuts:
        known = {
            **result.activities,
            "not known": proven.cuts - sum(result.activities.values()),
        }
        counts = ", ".join(f"{n} {name}" for name, n in known.items() if n)
        yield f"activity at the cuts: {counts}"
    if result.windows and not result.may_lack_loss and not result.promises:
        counts = _count_windows(result.windows)
        yield f"cuts during housekeeping, {CONFIDENCE}: {counts}"
    for name, found in result.promises.items():
        if found.windows and not result.may_lack_loss:
            counts = _count_windows(found.windows)
            yield f"{name}: cuts during housekeeping, {CONFIDENCE}: {counts}"
        yield from (f"{name}: {text}" for text in list_lost_answers(found.outage))
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
    if result.error:
        yield with_id(result.error, result.error_id)


def _count_windows(windows: Mapping[str, WindowResult]) -> str:
    return ", ".join(
        f"{one.cuts} {name}"
        f" (at most {format_percent_up(one.loss_ppm_max)} of them lose)"
        for name, one in windows.items()
    )


def _describe_unjudged(result: CampaignResult) -> Iterator[str]:
    for run in result.unjudged:
        yield f"run {run} was cut, or may have been, and is not judged: --resume does"


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

    Losses without a power cut have their own lines, see lines().
    """
    passed = CycleVerdict.PASS
    cut = (one for one in cycles if one.number and not one.lost_without_cut)
    not_passed = [one for one in cut if one.verdict is not passed]
    not_passed.sort(key=lambda one: one.verdict is not CycleVerdict.FAIL)
    for cycle in not_passed[:SHOWN_MAX]:
        where = f"in cycle {cycle.number} ({describe_activity(cycle) or '-'})"
        yield f"{cycle.verdict.value} {where}: {reason(cycle)}"
    if (more := len(not_passed) - SHOWN_MAX) > 0:
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
    """Return a line for each finding of an audit before a cut that lost nothing.

    So, too, for each assumption.
    """
    return [
        f"a cut lost nothing, but {'' if _is_assumed(text) else _FOUND}{text}"
        for text in _list_doubts(cycles)
    ]


_FOUND = "the audit before it found "


def _list_doubts(cycles: Sequence[CycleResult]) -> list[str]:
    """Return what makes the cuts that lost nothing worth less, each once.

    A control that passed lost what it should, so it is none of them.
    """
    passed = [one for one in cycles if one.verdict is CycleVerdict.PASS and one.number]
    return [*dict.fromkeys(text for cycle in passed for text in cycle.despite)]


def _list_alarms(cycles: Sequence[CycleResult]) -> list[str]:
    return [text for text in _list_doubts(cycles) if not _is_assumed(text)]


def _is_assumed(text: str) -> bool:
    """Return True for an assumption, which no audit found; see campaign.recording."""
    return text.startswith("assumed, not seen")


def _at_fault(cycles: Sequence[CycleResult]) -> list[str]:
    """Return the settings that explain the losses, each once."""
    losses = [cycle for cycle in cycles if cycle.verdict is CycleVerdict.FAIL]
    found = [setting for cycle in losses for setting in cycle.settings_at_fault]
    return [f"setting at fault: {setting}" for setting in dict.fromkeys(found)]
