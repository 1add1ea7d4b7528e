"""The steps of a go-live check: each calls what the command behind it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dbcheck.audit.result import AuditResult, FindingResult
from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan
from dbcheck.campaign.totals import make_result
from dbcheck.evidence.bundle import make_bundle
from dbcheck.evidence.verify import verify
from dbcheck.inventory.entry import Entry
from dbcheck.judge.item import Status
from dbcheck.judge.results import CampaignResult, CampaignsResult
from dbcheck.model.audited import RuleStatus, Severity
from dbcheck.model.cluster import Weakens
from dbcheck.model.depth import Depth
from dbcheck.model.golive import ASSUMED, PaperResult, StepId
from dbcheck.model.verdict import (
    PROOF_OF_LOSS,
    CycleVerdict,
    Statistics,
    Verdict,
    format_count,
)
from dbcheck.power import consent
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.probe.flushes import Outcome
from dbcheck.report.html.page import as_html
from dbcheck.report.words import campaign as campaign_words
from dbcheck.rows.plans.registry import usage_of
from dbcheck.runner import assemble, campaign_run
from dbcheck.runner.campaign_plan import Goal, make_plan
from dbcheck.runner.checks import (
    COMMITS,
    audit_entry,
    check_witness,
    probe_entry_flushes,
)
from dbcheck.runner.golive_folder import GoLiveFolder, GoLivePlan
from dbcheck.runner.golive_records import describe_paper, name_report
from dbcheck.runner.new_inventory import format_command
from dbcheck.runner.switch_test import run_switch_test
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader

BACK_S = 600.0  # how long a host may take to answer over SSH after a power test
_NO_HOST = "its host is not to be asked (no ansible_host, or dbcheck_ask_host: false)"


@dataclass(frozen=True, slots=True)
class Check:
    """One go-live check: what it is about, and what its user allows.

    accept_new_key: trust and store the host key of a witness that is not known.
    resume: the command that continues it.
    """

    entry: Entry
    folder: GoLiveFolder
    plan: GoLivePlan
    yes: bool
    i_know: bool
    accept_new_key: bool
    as_json: bool
    show: Callable[[str], None]
    resume: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a step found.

    verdict: PASS if the check goes on, FAIL or INCONCLUSIVE if it stops there.
    fix:     what to do then, "" if it goes on.
    left_out: the step cannot be done on this host.
    """

    summary: str
    details: tuple[str, ...] = ()
    to_accept: tuple[str, ...] = ()
    verdict: Verdict = Verdict.PASS
    fix: str = ""
    left_out: bool = False
    papers: tuple[PaperResult, ...] = ()


def find_witness(check: Check) -> Found:
    """Check the witness; raise DbcheckError if it cannot be used."""
    found = check_witness(check.entry, check.accept_new_key)
    details = tuple(f"{name}: {text}" for name, text in found.list_facts().items())
    return Found(f"{found.hostname} can be used as a witness", details)


def find_unsafe_settings(check: Check) -> Found:
    """Audit the server and its host; an error stops the check.

    So does, before anything is cut, a right that the account will need for the cuts.
    """
    entry, plan = check.entry, _plan_cuts(check, StepId.FIRST_CUT)
    assemble.make_engine(entry.target, entry.password).require_rights(
        usage_of(plan.workload),
        control=Weakens.FLUSH if plan.control else None,
        asks_host=bool(entry.host),
    )
    result = audit_entry(entry)
    if result.host_error:
        raise HostError(result.host_error.rstrip("."), id=ErrorId(result.host_error_id))
    errors = _select_findings(result, Severity.ERROR)
    warnings = _select_findings(result, Severity.WARNING)
    notes = _select_findings(result, Severity.NOTE)
    unknown = [
        f"audit, not known {each.rule}: {each.fact} of {each.subject}"
        for each in result.findings
        if each.status is RuleStatus.UNKNOWN
    ]
    to_accept = [f"audit, warning {_describe_finding(each)}" for each in warnings]
    details = [_describe_finding(each) for each in (*errors, *warnings, *notes)]
    if not result.host:
        to_accept.append(f"audit: filesystems and drives were not read; {_NO_HOST}")
    counts = [
        format_count(len(found), name)
        for found, name in (
            (errors, "error"),
            (warnings, "warning"),
            (notes, "note"),
            (unknown, "unknown fact"),
        )
        if found
    ]
    summary = f"{', '.join(counts) or 'no unsafe setting found'}; {result.safe} safe"
    if errors:
        details.append(summary)
        more = len(errors) - 1
        summary = _describe_finding(errors[0]).removeprefix(f"{errors[0].rule}: ")
        summary += f", and {format_count(more, 'more error')}" if more else ""
    return Found(
        summary,
        tuple(details),
        (*to_accept, *unknown),
        verdict=Verdict.FAIL if errors else Verdict.PASS,
        fix=" ".join(dict.fromkeys(f"{each.rule}: {each.fix}." for each in errors)),
    )


def _select_findings(result: AuditResult, severity: Severity) -> list[FindingResult]:
    return [
        each
        for each in result.findings
        if each.status is RuleStatus.UNSAFE and each.severity is severity
    ]


def _describe_finding(found: FindingResult) -> str:
    return f"{found.rule}: {found.fact} is {found.value or '(empty)'} ({found.subject})"


def find_missing_flushes(check: Check) -> Found:
    """Count flushes; commits that were answered without one stop the check."""
    host = assemble.make_host(check.entry)
    if host is None:
        text = f"flushes were not counted: {_NO_HOST}"
        return Found(text, to_accept=(text,), left_out=True)
    host.close()
    result = probe_entry_flushes(check.entry, COMMITS, check.plan.seed)
    details = tuple(volume.sentence for volume in result.volumes)
    unread = [
        f"flushes, not known {name}: {why}" for name, why in result.unread.items()
    ]
    worst = min(result.volumes, key=lambda volume: volume.outcome.rank, default=None)
    if worst is None or worst.outcome is Outcome.UNCLEAR:
        text = f"flushes: {worst.sentence if worst else 'no log was found'}"
        return Found(text, details, to_accept=(text, *unread))
    if worst.outcome is Outcome.FLUSHED and unread:
        text = "flushes: not each log could be read"
        return Found(text, details, to_accept=tuple(unread))
    if worst.outcome is Outcome.FLUSHED:
        return Found(f"each of {result.commits} commits was flushed", details)
    fix = (
        f"Flushes end at {worst.stopped_at}: turn on what it keeps back."
        if worst.stopped_at
        else "The audit names the settings that keep the server from asking for a"
        " flush; docs/auditing.md explains the probe."
    )
    return Found(worst.sentence, details, verdict=Verdict.FAIL, fix=fix)


def find_cut_host(check: Check) -> Found:
    """Test the switch; raise PowerError if it cut another host, or none."""
    entry = check.entry
    if entry.power.attended:
        text = "the power is cut by hand, so there is no switch to test"
        return Found(text, left_out=True)
    switch = assemble.make_scoped_switch(entry, check.show)
    found = run_switch_test(
        entry, switch, BACK_S, lambda: check.folder.note_cut(StepId.POWER)
    )
    consent.remember_consent(entry.switched_host)
    seen, shown = found.seen, switch.cut_class.value
    went = f"off for {seen.off_s:.1f} s"
    if seen.rebooted and seen.back_s is not None:
        went += f", the host booted anew and answered after {seen.back_s:.1f} s"
    depth = found.depth.value if found.depth else "not known"
    to_accept = []
    if seen.rebooted is None and not isinstance(entry.power, LabConfig):
        to_accept.append(f"power: nothing showed that this host went down; {_NO_HOST}")
    if found.depth is not Depth.DRIVE:
        left_open = switch.cut_class.leaves_open(found.depth)
        why = f": {left_open}" if left_open else ""
        to_accept.append(f"power: the depth of a cut is {depth}{why}")
    return Found(
        f"the switch works ({shown}): {went}; depth {depth}",
        (*found.depths, *found.drives),
        tuple(to_accept),
    )


def run_cuts(check: Check, step: StepId, name: str, *, is_resumed: bool) -> Found:
    """Run the campaign of a step to its end, in the folder *name* of the check.

    is_resumed: another client began it.
    """
    entry, path = check.entry, check.folder.path / name
    if is_resumed:
        folder = CampaignFolder.open(path)
        if make_result(folder).verdict is not Verdict.FAIL:
            campaign_run.require_same(entry, folder, yes=check.yes)
    else:
        campaign_run.require_fit(entry, yes=check.yes, i_know=check.i_know)
        folder = CampaignFolder.create(path, _plan_cuts(check, step))
        folder.remember()
    result = make_result(folder)
    if result.verdict is not Verdict.FAIL:
        (result,) = campaign_run.run_one(
            entry, folder, as_json=check.as_json, resume=check.resume
        )
    return _describe_cuts(check, step, folder, result)


def _plan_cuts(check: Check, step: StepId) -> CampaignPlan:
    is_first, wanted = step is StepId.FIRST_CUT, check.plan.cuts
    return make_plan(
        check.entry,
        check.plan.seed + (0 if is_first else 1),
        Goal(1) if is_first else Goal(wanted, check.plan.bound_ppm, wanted),
        keep_going=False,
        control=is_first and check.plan.control,
        twice=check.entry.twice,
    )


def _describe_cuts(
    check: Check, step: StepId, folder: CampaignFolder, result: CampaignResult
) -> Found:
    proven = result.statistics
    first, rest = proven.sentence, list(campaign_words.lines(result))
    controls = [cycle for cycle in result.cycles if not cycle.number]
    rest += [f"control: {cycle.reason}" for cycle in controls]
    if controls and result.verdict is Verdict.PASS:
        first += "; the control lost rows, as it must"
    fix = ""
    if result.verdict is Verdict.FAIL:
        first, rest = _find_loss(result) or first, [*_list_causes(folder), first, *rest]
        fix = (
            f"{PROOF_OF_LOSS} No further cut takes it back. The report names what was"
            " lost and what explains it; docs/losses.md says what to do. Once the cause"
            " is fixed, begin a new check."
        )
    elif result.verdict is Verdict.INCONCLUSIVE:
        doubts = [one for one in result.cycles if not one.verdict.is_decided]
        first += f": {doubts[-1].reason}" if doubts else ""
        fix = "Fix the cause that is named; the step then begins anew."
    to_accept = [*_list_assumptions(folder), *_list_audit_alarms(result)]
    if count := proven.inconclusive:
        to_accept.append(
            f"{step.value}: {format_count(count, 'cycle')} inconclusive, not counted"
        )
    if step is StepId.FIRST_CUT and not check.plan.control:
        to_accept.append("no control was run: nothing shows that this rig sees losses")
    if step is StepId.CAMPAIGN:
        to_accept += _list_shallow_cuts(proven)
    return Found(first, tuple(rest), tuple(to_accept), result.verdict, fix)


def _list_shallow_cuts(proven: Statistics) -> Iterator[str]:
    """Yield how many cuts did not reach the cache of the drive, by their depth."""
    cuts = format_count(proven.cuts, "cut")
    for depth, count in sorted(proven.depths.items()):
        if depth != Depth.DRIVE.value:
            at = f"at {depth} depth" if depth else "at a depth that was not measured"
            prove = "proves" if count == 1 else "prove"
            yield (
                f"campaign: {count} of {cuts}, {at}, {prove} nothing about a drive's"
                " volatile cache: say why that is enough"
            )


def _find_loss(result: CampaignResult) -> str:
    """Return why the first cycle failed that did, "" if none is known."""
    failed = (one for one in result.cycles if one.verdict is CycleVerdict.FAIL)
    return next((one.reason for one in failed), "")


def _list_causes(folder: CampaignFolder) -> Iterator[str]:
    """Yield what explains the losses of a campaign's runs."""
    for cycle in folder.cycles():
        path = folder.runs / cycle.run
        if cycle.verdict is CycleVerdict.FAIL and (path / "verdict.json").is_file():
            for found in RunFolder.open(path).result().diagnosis:
                yield f"possible cause, {found.cause.value}: {found.reason}"


def _list_audit_alarms(result: CampaignResult) -> Iterator[str]:
    """Yield what audits before the loads found, as the step Audit names it."""
    passed = (one for one in result.cycles if one.verdict is CycleVerdict.PASS)
    for text in dict.fromkeys(text for one in passed for text in one.despite):
        if not text.startswith("assumed"):  # _list_assumptions() has those
            yield f"audit, {text}"


def _list_assumptions(folder: CampaignFolder) -> Iterator[str]:
    """Yield the evidence that the runs of a campaign assumed and did not see."""
    found: dict[str, str] = {}
    for cycle in folder.cycles():
        path = folder.runs / cycle.run
        if not cycle.counts or not (path / "verdict.json").is_file():
            continue
        for item in RunFolder.open(path).result().evidence:
            if item.status is Status.ASSUMED:
                found.setdefault(item.item.value, item.reason)
    for name, reason in found.items():
        yield f"{ASSUMED}{name}: {reason}"


def write_papers(check: Check, folder: str) -> Found:
    """Write report and bundle of the campaign in *folder*, and verify the bundle."""
    campaign = CampaignFolder.open(check.folder.path / folder)
    page = check.folder.path / name_report(folder)
    bundle = check.folder.path / f"{check.plan.name}-{folder}.dbcheck.tar"
    result = CampaignsResult(str(campaign.path), (make_result(campaign),))
    stored.write_file(page, [as_html(result).encode()])
    secrets = processes.list_secret_values()
    with make_bundle([campaign.path], secrets, FrameLogReader(), redact=False) as made:
        stored.write_file(bundle, made.chunks())
    verified = verify(bundle, FrameLogReader())
    papers = (
        describe_paper(page, "the report on the campaign"),
        describe_paper(bundle, "all its evidence, for dbcheck verify"),
    )
    if not verified.same:
        return Found(
            f"the bundle was judged again and differs: {verified.differences[0]}",
            verdict=Verdict.INCONCLUSIVE,
            fix="Keep the folder, and report this as a fault of dbcheck.",
            papers=papers,
        )
    return Found("report and bundle are written, and verified", papers=papers)


STEPS: Mapping[StepId, Callable[[Check], Found]] = {
    StepId.WITNESS: find_witness,
    StepId.AUDIT: find_unsafe_settings,
    StepId.FLUSHES: find_missing_flushes,
    StepId.POWER: find_cut_host,
}


def list_commands(plan: GoLivePlan) -> Mapping[StepId, str]:
    """Return the command that does each step by hand."""
    control = ("--control",) if plan.control else ()
    words: dict[StepId, tuple[str, ...]] = {
        StepId.WITNESS: ("witness", "check", plan.name),
        StepId.AUDIT: ("audit", plan.name, "--fail-on", "error"),
        StepId.FLUSHES: ("probe", "flushes", plan.name),
        StepId.POWER: ("power", "test", plan.name),
        StepId.FIRST_CUT: ("campaign", plan.name, "--cuts", "1", *control),
        StepId.CAMPAIGN: ("campaign", plan.name, "--cuts", str(plan.cuts)),
    }
    file = Path(plan.inventory)
    found = {step: format_command(file, *each) for step, each in words.items()}
    return {**found, StepId.PAPERS: "dbcheck report, dbcheck bundle"}
